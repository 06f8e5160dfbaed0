"""A recorded state to measure from: a prompt of random ids and a response of which half is placed.

Axes: P prompt columns, G response columns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from archer.costs.shapes import Subject
from archer.decoders.saber import Saber, SaberState
from archer.passes.canvas import Prompt


def some_ids(subject: Subject, count: int, seed: int) -> Tensor:
    """Long[count]: ids of the vocabulary, never the mask."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(subject.network.shape.vocabulary - 1, (count,), generator=generator)
    return ids + (ids >= subject.mask)


def some_prompt(subject: Subject, columns: int, rows: int = 1, seed: int = 0) -> Prompt:
    """The same ids in every row, as if they were not: each row makes its own first pass."""
    ids = some_ids(subject, columns, seed).tolist()
    same = Prompt.of([ids] * rows, subject.mask)
    return replace(same, groups=tuple(range(rows)))


def half_placed(subject: Subject, prompt: int, response: int) -> SaberState:
    """Saber's state with a token at every second column of the response."""
    state = Saber().start(some_prompt(subject, prompt), response)
    tokens = some_ids(subject, response, seed=1).numpy()
    second = np.arange(response) % 2 == 1
    return replace(state, response=np.where(second, tokens, state.response))
