"""The experts of one layer: sorted as the engine does it, every expert for every row, and other loops.

Axes: N token rows, d width.

All of them make the same weighted sums from the same weights, in turn; only the first is used for decoding.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from archer.bench.repeating import interleaved, spread
from archer.bench.weights import drawn
from archer.costs.shapes import published
from archer.errors import BadRequest
from archer.network import experts
from archer.network.experts import Sent, Stack
from archer.network.network import Layer
from archer.passes.timing import Clock


@dataclass(frozen=True)
class Row:
    """One number of token rows."""

    rows: int
    used: int
    """Experts that got any."""
    milliseconds: dict[str, float]
    spread: dict[str, float]
    gains: dict[str, float]
    """How much longer the others take than the engine's way."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def some_layer(name: str, device: torch.device, dtype: torch.dtype) -> Layer:
    """One layer with experts of a published shape, with random weights."""
    shape = published(name).shape
    if shape.experts is None:
        raise BadRequest(f"{name} has no experts. Choose llada-moe-7b or llada2-mini.")
    layer = Layer(shape, sparse=True, device=device, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    for parameter, weight in layer.named_parameters():
        weight.copy_(drawn(parameter, tuple(weight.shape), generator))
    return layer.eval()


@torch.inference_mode()
def measure(
    layer: Layer, numbers: Sequence[int], repeats: int, *, library: bool = False
) -> Iterator[Row]:
    """One row per number of token rows, as soon as it is measured."""
    for count in numbers:
        generator = torch.Generator().manual_seed(count)
        hidden = torch.randn((count, layer.shape.width), generator=generator).to(layer.qkv)
        assert layer.router is not None
        assert layer.shape.experts is not None
        sent = experts.send(hidden, layer.router, layer.router_bias, layer.shape.experts)
        found = ways(layer, hidden, sent, library=library)
        clock = Clock(hidden.device)
        taken = interleaved(
            {name: partial(_timed, clock, way) for name, way in found.items()}, repeats
        )
        medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
        yield Row(
            rows=count,
            used=len(sent.experts.unique()),
            milliseconds={name: 1e3 * seconds for name, seconds in medians.items()},
            spread={name: spread(seconds) for name, seconds in taken.items()},
            gains={name: seconds / medians["engine"] for name, seconds in medians.items()},
        )


def ways(
    layer: Layer, hidden: Tensor, sent: Sent, *, library: bool = False
) -> dict[str, Callable[[], Tensor]]:
    """What is timed, by name: each makes the whole weighted sum [N, d]."""
    stack = layer.stack()
    found: dict[str, Callable[[], Tensor]] = {
        "engine": partial(experts.mixed, hidden, sent, stack),
        "every": partial(every_expert, hidden, sent, stack),
    }
    if hidden.dtype != torch.float64:
        found["grouped"] = partial(by_grouped_product, hidden, sent, stack)
    if library:
        found["library"] = partial(
            library_experts(layer), hidden, sent.experts, sent.weights.to(hidden.dtype)
        )
    return found


def every_expert(hidden: Tensor, sent: Sent, stack: Stack) -> Tensor:
    """[N, d] -> [N, d]: each expert computes all rows, and most of it is weighted with zero."""
    share = hidden.new_zeros((len(hidden), len(stack.gate_up)))
    share.scatter_(1, sent.experts, sent.weights.to(hidden.dtype))
    answer = torch.zeros_like(hidden)
    for expert in range(len(stack.gate_up)):
        answer += share[:, expert, None] * stack.answer(expert, hidden)
    return answer


def by_grouped_product(hidden: Tensor, sent: Sent, stack: Stack) -> Tensor:
    """[N, d] -> [N, d]: the engine's way with torch's grouped product, wherever that runs."""
    return experts.grouped(hidden, sent, stack).to(hidden.dtype)


def library_experts(layer: Layer) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The eager loop of the transformers library over the same stack; no weight is copied."""
    library = importlib.import_module("transformers.models.qwen3_moe.modeling_qwen3_moe")
    config = importlib.import_module("transformers").Qwen3MoeConfig()
    shape = layer.shape.experts
    assert shape is not None
    config.num_experts, config.moe_intermediate_size = shape.count, shape.inner
    config.hidden_size, config.hidden_act = layer.shape.width, "silu"
    config._experts_implementation = "eager"
    with torch.device("meta"):
        module = library.Qwen3MoeExperts(config)
    module.gate_up_proj, module.down_proj = layer.expert_gate_up, layer.expert_down
    found: Callable[[Tensor, Tensor, Tensor], Tensor] = module
    return found


def _timed(clock: Clock, way: Callable[[], Tensor]) -> float:
    start = clock.mark()
    answer = way()
    end = clock.mark()
    answer.flatten()[0].item()
    return clock.seconds(start, end)
