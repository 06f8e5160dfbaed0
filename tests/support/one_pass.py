"""One pass by itself over a hand-made canvas, without decoder, policy or engine."""

import numpy as np
import torch
from torch import Tensor

from archer.network.network import Transformer
from archer.network.shape import DENSE, AttentionKind
from archer.passes import layout
from archer.passes.canvas import Canvas, Flags, Prompt
from archer.passes.forward import Question, run
from archer.passes.memory import Memory, Store
from archer.passes.work import Work
from support.networks import Backbone


def canvas_of(
    ids: list[int], responses: Tensor, mask: int, attention: AttentionKind = DENSE
) -> Canvas:
    """Every response column is read."""
    rows, length = responses.shape
    bounds = np.array([[0, length]] * rows)
    reads = np.ones((rows, length), dtype=np.bool_)
    prompt = Prompt.of(ids, mask, samples=rows)
    return Canvas.plain(prompt, responses.numpy(), bounds, reads).under(attention)


def blank(network: Transformer, canvas: Canvas) -> Memory:
    which = network.shape
    store = Store.empty(
        which.layers,
        canvas.rows,
        which.kv_heads,
        canvas.columns,
        which.head_dim,
        device=network.device,
        dtype=network.dtype,
    )
    store.keys.fill_(torch.nan)
    store.values.fill_(torch.nan)
    return Memory.blank(store, canvas)


def ask(
    model: Backbone, canvas: Canvas, memory: Memory, asked: Flags
) -> tuple[list[Tensor], Work, layout.Layout]:
    """Run one pass over the asked columns; logits per row."""
    rows = tuple(range(canvas.rows))
    frame = layout.Frame.of(canvas, memory.slots, rows)
    plan = layout.plan(asked, canvas.reads, frame, shift=model.shift, device=torch.device("cpu"))
    (answer,) = run(model.network, [Question(canvas, plan, memory)])
    memory.note(canvas, [True] * canvas.rows, plan.full)
    return [answer.rows[row].values for row in rows], answer.work, plan
