"""How much memory a request holds while it runs, and how much there is to give.

Only what stays from pass to pass is counted: keys, values and features of layers.  Logits live for the length
of a pass, which the budget of columns bounds.
"""

from __future__ import annotations

import os

import torch

from archer.engine.canvas import Canvas
from archer.engine.memory import Store
from archer.engine.network import Transformer
from archer.policies.base import Policy

SHARE = 0.5
"""Of the memory that is free at the start, what requests may hold by default."""


def kept_bytes(network: Transformer, policy: Policy, canvas: Canvas) -> int:
    """Bytes of the store and of the features that a policy keeps, for all rows of a canvas."""
    shape = network.shape
    cells = canvas.rows * canvas.columns * shape.layers
    numbers = 2 * shape.kv_heads * shape.head_dim + policy.features * shape.width
    return cells * numbers * network.dtype.itemsize


def empty_store(network: Transformer, canvas: Canvas) -> Store:
    """Room for the keys and values of every row and column of a canvas."""
    shape = network.shape
    return Store.empty(
        shape.layers,
        canvas.rows,
        shape.kv_heads,
        canvas.columns,
        shape.head_dim,
        device=network.device,
        dtype=network.dtype,
    )


def default_limit(device: torch.device) -> int:
    """Bytes that requests may hold on a device when nobody says otherwise."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(SHARE * free)
