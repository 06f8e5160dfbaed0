"""What a cache policy is: the set of columns it recomputes, as a pure function of canvas and memory.

Axes: B rows, L columns.  Policies know neither the decoder nor the network.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from archer.canvas import Canvas
from archer.memory import Memory


class Policy(Protocol):
    """A frozen dataclass of settings.  What it needs to remember lives in Memory, per row."""

    @property
    def counts_passes(self) -> bool:
        """Whether the answer depends on how many passes were made.

        If not, a row that asks the same question under the same anchor may reuse the logits it has.
        """
        ...

    def recompute(self, canvas: Canvas, memory: Memory) -> Tensor:
        """Bool[B, L]: the columns the next pass computes.  Row i depends on row i alone."""
        ...
