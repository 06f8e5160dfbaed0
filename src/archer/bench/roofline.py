"""The least time of a step on a device that is not here: the longer of its arithmetic and its memory traffic.

Nothing here is measured.  A real step takes longer: no kernel reaches either figure, and launching, norms,
softmax and the decoder cost something too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from archer.bench.counting import count_passes
from archer.engine.network import Shape

Limit = Literal["compute", "bandwidth"]


@dataclass(frozen=True)
class Device:
    """What the vendor states for dense 16-bit arithmetic."""

    name: str
    flops: float
    bandwidth: float


DEVICES = (
    Device("RTX 4090", 165e12, 1.01e12),
    Device("A100 80GB", 312e12, 2.04e12),
    Device("H100 SXM", 989e12, 3.35e12),
    Device("B200", 2250e12, 8.0e12),
)
BYTES = 2
"""Per number, in a 16-bit format."""


@dataclass(frozen=True)
class Floor:
    """The least seconds of a pass, and what sets them."""

    seconds: float
    limit: Limit


def weights_read(shape: Shape) -> int:
    """Numbers that every pass reads: all layers and the head; of the embedding only a few rows."""
    heads, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = shape.width * (2 * heads + 2 * keys + 3 * shape.inner)
    return shape.layers * layer + shape.width * shape.vocabulary


def kv_numbers(shape: Shape, columns: int) -> int:
    """Numbers in the keys and values of so many columns."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * columns


def floor(device: Device, operations: float, numbers: float) -> Floor:
    compute, traffic = operations / device.flops, numbers * BYTES / device.bandwidth
    return Floor(max(compute, traffic), "compute" if compute >= traffic else "bandwidth")


def floors(
    device: Device, shape: Shape, shift: bool, prompt: int, response: int, rows: int = 1
) -> tuple[Floor, Floor]:
    """Full and cached pass over a batch of `rows`: weights are read once for all, K/V for each."""
    counts = count_passes(shape, shift, prompt, response)
    numbers = weights_read(shape) + rows * kv_numbers(shape, prompt + response)
    return (
        floor(device, rows * counts.full, numbers),
        floor(device, rows * counts.cached, numbers),
    )
