"""What a cache policy is: the set of columns it recomputes, as a pure function of canvas and memory.

Axes: B rows, L columns.  Policies know neither the decoder nor the network.
"""

from __future__ import annotations

from typing import ClassVar

from archer.passes.canvas import Canvas, Flags, Scope
from archer.passes.layer_rule import Ruled
from archer.passes.memory import Memory


class Policy:
    """Base of all policies: frozen dataclasses of settings.  What they remember lives in Memory, per row."""

    answers: ClassVar[Scope]
    """For which columns there are always logits; compared with what a decoder reads."""
    why: ClassVar[str] = ""
    """Why it answers no more than that, as the end of a sentence."""
    block_causal: ClassVar[bool] = False
    """Whether it knows what a column sees in a model with block-causal attention."""
    counts_passes: ClassVar[bool] = False
    """Whether the answer depends on how many passes were made.

    If not, a row that asks the same question under the same anchor may reuse the logits it has.
    """
    rebuilds: ClassVar[bool] = False
    """Whether all it keeps is a function of the anchor's tokens: one full pass on them makes it again."""
    features: ClassVar[int] = 0
    """Tensors as wide as the hidden states that it keeps per layer, beside keys and values."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        """[B, L]: the columns the next pass computes.  Row i depends on row i alone.

        With guidance a row of the request is two of the canvas, and the answer for the first holds for both.
        """
        raise NotImplementedError

    def inside_layers(self, memory: Memory) -> Ruled | None:
        """A rule that chooses rows inside each layer of the next pass; None where columns say it all."""
        return None
