"""How much memory a request holds from pass to pass, and in one pass, and how much there is.

What a pass makes is bounded by its budget of columns, or by the largest request that runs: a pass for that is
made however many columns it has.  So samples that would make much run as several requests.
"""

from dataclasses import replace

import torch

from archer.machine.available import available
from archer.network.network import Transformer
from archer.passes.canvas import Canvas
from archer.passes.memory import Store
from archer.policies.base import Policy

SHARE = 0.5
"""Of the memory that is free at the start, what requests may hold by default."""
LOGIT = 4
"""Bytes of a logit where the network computes in fewer."""


def kept_bytes(network: Transformer, policy: Policy, canvas: Canvas) -> int:
    """Bytes of the store, and of the features and notes that a policy keeps, for all rows of a canvas."""
    shape = network.shape
    notes = sum(array.nbytes for array in policy.start(canvas.select([0])).values())
    cells = canvas.rows * canvas.extent * shape.layers
    numbers = 2 * shape.kv_heads * shape.head_dim + policy.features * shape.width
    return cells * numbers * network.dtype.itemsize + canvas.rows * notes


def logits_bytes(network: Transformer, columns: int) -> int:
    """Bytes of the logits of N columns that are read."""
    return columns * network.shape.vocabulary * max(LOGIT, network.dtype.itemsize)


def empty_store(network: Transformer, rows: int, columns: int) -> Store:
    """Room for the keys and values of N rows and columns."""
    shape = network.shape
    store = Store.empty(
        shape.layers,
        rows,
        shape.kv_heads,
        columns,
        shape.head_dim,
        device=network.device,
        dtype=network.dtype,
    )
    return store if network.all_shards is None else replace(store, mirror=network.all_shards)


def default_limit(network: Transformer) -> int:
    """Bytes that requests may hold on a device by default."""
    return int(SHARE * _free(network))


def pass_limit(network: Transformer) -> int:
    """Bytes that the logits of one request may take in a pass: what is left beside."""
    return int((1 - SHARE) * _free(network))


def _free(network: Transformer) -> int:
    """Bytes; shards on a processor share its memory."""
    if network.device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(network.device)
        return free
    return available() // (1 if network.all_shards is None else network.all_shards.shards)


def readable(size: int) -> str:
    """Bytes as people say them: 16.4 kB, 467 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} bytes"
