"""Passes that are run for the count of their operations alone, and the speedups that counts predict.

Axes: P prompt columns, G response columns.
"""

import functools
from dataclasses import dataclass, replace

import numpy as np
import torch

from archer.engine.footprint import empty_store
from archer.network.network import Shape, Transformer
from archer.passes import layout
from archer.passes.canvas import Canvas, Flags, Prompt
from archer.passes.forward import Question, run
from archer.passes.memory import Memory
from archer.passes.work import Work, operations


@dataclass(frozen=True)
class Counts:
    """Operations of the three passes that are compared."""

    full: int
    """Prompt and response, with the last layer and the head on the response alone."""
    cached: int
    """The response alone."""
    naive: int
    """Prompt and response, with every layer and the head on every row."""


@functools.cache
def count_passes(shape: Shape, prompt: int, response: int) -> Counts:
    """Run each pass without data, on the meta device, and count it.

    All layers between the dense ones at the front of a mixture and the last count the same, so the smallest
    depths with none and with one of these tell what any depth counts.
    """
    dense = 0 if shape.experts is None else shape.experts.dense_layers
    few = min(dense + 1, shape.layers)
    least, more = (
        _count(replace(shape, layers=layers), prompt, response) for layers in (few, few + 1)
    )
    return Counts(
        *(
            first + (shape.layers - few) * (second - first)
            for first, second in zip(least, more, strict=True)
        )
    )


def _count(shape: Shape, prompt: int, response: int) -> tuple[int, ...]:
    """Operations of the full, the cached and the naive pass."""
    dtype = None if shape.experts is None else torch.bfloat16  # the grouped product takes no other
    network = Transformer(shape, device=torch.device("meta"), dtype=dtype)
    canvas = _canvas(prompt, response).under(shape.attention)
    full = _counted(network, canvas, canvas.everything())
    cached = _counted(network, canvas, canvas.revisable())
    naive = naive_work(shape, prompt + response)
    return tuple(operations(work, shape) for work in (full, cached, naive))


def naive_work(shape: Shape, columns: int) -> Work:
    """Of a pass with every layer and the head on every row, masked or not."""
    rows = shape.layers * columns
    sparse = shape.layers - shape.dense_layers
    return Work(rows, rows, rows, rows * columns, columns, sparse * columns)


def _canvas(prompt: int, response: int) -> Canvas:
    """One row of which the whole response is read."""
    tokens = np.zeros((1, response), dtype=np.int64)
    return Canvas.plain(
        Prompt.of([0] * prompt, mask=1),
        tokens,
        np.array([[0, response]]),
        np.ones(tokens.shape, dtype=np.bool_),
    )


def _counted(network: Transformer, canvas: Canvas, recomputed: Flags) -> Work:
    reads = np.zeros_like(recomputed)
    reads[:, canvas.response] = True
    frame = layout.Frame.of(canvas, (0,), running=(0,))
    plan = layout.plan(recomputed, reads, frame, shift=network.shape.shift, device=network.device)
    memory = Memory.blank(empty_store(network, canvas.rows, canvas.columns), canvas)
    (answer,) = run(network, [Question(canvas, plan, memory)])
    return answer.work


def eta(prompt: int, response: int) -> float:
    """Cost of a cached pass as a fraction of a full one, when every row costs the same: G / (P + G)."""
    return response / (prompt + response)


def step_speedup(refreshed: float, ratio: float) -> float:
    """Speedup per update when a fraction `refreshed` of the passes is full and the others cost `ratio`."""
    return 1.0 / (refreshed + (1.0 - refreshed) * ratio)


def speedup(eager_updates: int, updates: int, full: int, ratio: float) -> float:
    """Speedup over an eager trajectory, from realised counts: fewer updates count as much as cheap ones."""
    return eager_updates / updates * step_speedup(full / updates, ratio)
