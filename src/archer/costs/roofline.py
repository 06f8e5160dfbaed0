"""The least time of a step on a GPU that is not here, by arithmetic and memory traffic; not measured."""

import math
import re
from dataclasses import dataclass
from typing import Literal

from archer.costs.counting import count_passes
from archer.network.network import Shape

Limit = Literal["compute", "bandwidth"]


@dataclass(frozen=True)
class Gpu:
    """What the vendor states for dense 16-bit arithmetic."""

    name: str
    flops: float
    bandwidth: float
    memory: float = math.inf
    """Bytes."""


GPUS = (
    Gpu("RTX 4090", 165e12, 1.01e12, 24e9),
    Gpu("L40S", 362e12, 0.864e12, 48e9),
    Gpu("A100 80GB", 312e12, 2.04e12, 80e9),
    Gpu("H100 SXM", 989e12, 3.35e12, 80e9),
    Gpu("H200", 989e12, 4.8e12, 141e9),
    Gpu("B200", 2250e12, 8.0e12, 180e9),
)
NAMES = {
    "RTX 4090": r"RTX 4090",
    "L40S": r"L40S",
    "A100 80GB": r"A100(-SXM\d?-80GB|-PCIE-80GB| 80GB PCIe)",
    "H100 SXM": r"H100( 80GB HBM3|-SXM\S*| SXM\S*)",
    "H200": r"H200( SXM\S*)?",
    "B200": r"B200",
}
"""How drivers call these GPUs, after the maker's name; near relations are other GPUs."""
BYTES = 2
"""Per number, in a 16-bit format."""


@dataclass(frozen=True)
class Floor:
    """The least seconds of a pass, and what sets them."""

    seconds: float
    limit: Limit


def named(driver: str) -> Gpu | None:
    """The GPU that a driver calls so; None for one that is not listed."""
    bare = re.sub(r"^(NVIDIA |GeForce )*", "", driver)
    return next((each for each in GPUS if re.fullmatch(NAMES[each.name], bare)), None)


def weights_read(shape: Shape) -> int:
    """Numbers that every pass reads: layers, all experts, and the head; of the embedding a few rows."""
    heads, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    inner = shape.dense_layers * 3 * shape.inner
    if (experts := shape.experts) is not None:
        each = experts.count + 3 * (experts.count * experts.inner + experts.shared)
        inner += (shape.layers - shape.dense_layers) * each
    attention = shape.layers * (2 * heads + 2 * keys)
    return shape.width * (attention + inner + shape.vocabulary)


def weights_held(shape: Shape) -> int:
    """Numbers in memory: those that are read, and the embedding; norms and biases are nothing beside them."""
    return weights_read(shape) + (0 if shape.tied else shape.width * shape.vocabulary)


def kv_numbers(shape: Shape, columns: int) -> int:
    """Numbers in the keys and values of N columns."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * columns


def floor(gpu: Gpu, operations: float, numbers: float) -> Floor:
    compute, traffic = operations / gpu.flops, numbers * BYTES / gpu.bandwidth
    return Floor(max(compute, traffic), "compute" if compute >= traffic else "bandwidth")


def floors(
    gpu: Gpu, shape: Shape, prompt: int, response: int, rows: int = 1
) -> tuple[Floor, Floor]:
    """Full and cached pass over a batch of `rows`: weights are read once for all, K/V for each."""
    counts = count_passes(shape, prompt, response)
    numbers = weights_read(shape) + rows * kv_numbers(shape, prompt + response)
    return (
        floor(gpu, rows * counts.full, numbers),
        floor(gpu, rows * counts.cached, numbers),
    )
