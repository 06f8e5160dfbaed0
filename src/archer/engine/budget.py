"""How many columns a pass should have: where time per column stops falling, as measured."""

import statistics
from time import perf_counter

import numpy as np
import torch

from archer.engine.footprint import empty_store
from archer.engine.schedule import KNEES
from archer.network.network import Transformer
from archer.passes import layout
from archer.passes.canvas import Canvas, Prompt
from archer.passes.forward import Question, run
from archer.passes.memory import Memory

DEFAULT_BUDGET = 1024
"""Columns of a pass when nothing was measured, and the least that is chosen."""
SIZES = (32, 64, 128, 256, 512)
NEAR = 1.1
"""A size is at the knee when its time per column is within this factor of the least."""
REPEATS = 3


def measured_budget(network: Transformer) -> int:
    """Columns per pass that keep the device busy without making everyone wait for everyone."""
    sizes = [size for size in SIZES if size < network.shape.max_positions]
    each = {size: _seconds(network, size) / size for size in sizes}
    knee = min(size for size in sizes if each[size] <= NEAR * min(each.values()))
    return max(DEFAULT_BUDGET, KNEES * knee)


def _seconds(network: Transformer, columns: int) -> float:
    prompt = Prompt.of([0] * (columns - 1), mask=0)
    nothing = np.zeros((1, 1), dtype=np.int64)
    canvas = Canvas.plain(prompt, nothing, np.array([[0, 1]]), np.ones((1, 1), dtype=np.bool_))
    frame = layout.Frame.of(canvas, (0,), running=(0,))
    plan = layout.plan(canvas.everything(), canvas.reads, frame, shift=False, device=network.device)
    question = Question(
        canvas, plan, Memory.blank(empty_store(network, canvas.rows, canvas.columns), canvas)
    )
    taken = []
    for _ in range(REPEATS):
        started = perf_counter()
        (answer,) = run(network, [question])
        if network.device.type != "cpu":
            torch.accelerator.synchronize(network.device)
        taken.append(perf_counter() - started)
        assert answer.columns == columns
    return statistics.median(taken)
