"""The mixture of experts against a twin that sends one row at a time, and weights of eight bits."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from archer.network import experts
from archer.network.experts import Mixture, Sent, can_group, send
from archer.network.linear import OFF, Linear, Swiglu, quantised, scales
from archer.network.network import Layer, Transformer
from archer.network.rounded import LARGEST
from archer.network.shape import DENSE, Blocks, Scheme
from support import naive
from support.networks import MIXTURES, Backbone, mixture, random_network, shape
from support.one_pass import ask, blank, canvas_of

KINDS = pytest.mark.parametrize("kind", sorted(MIXTURES))


def last_layer(kind: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> Layer:
    network = mixture(kind, seed, dtype).network
    return network.layer(network.shape.layers - 1)


def some_rows(count: int, layer: Layer, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn((count, layer.shape.width), generator=generator, dtype=torch.float64)
    return drawn.to(layer.qkv.dtype)


def mixture_of(layer: Layer) -> Mixture:
    assert layer.mixture is not None
    return layer.mixture


def experts_of(layer: Layer, rows: Tensor) -> Tensor:
    return mixture_of(layer)(rows)


@KINDS
@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_rows_sorted_by_expert_get_what_each_gets_alone(kind: str, count: int, seed: int) -> None:
    layer = last_layer(kind, seed=seed % 5)
    rows = some_rows(count, layer, seed)
    shared = 0.0 if layer.dense is None else layer.dense(rows)
    assert (experts_of(layer, rows) + shared - naive.feed_forward(layer, rows)).abs().max() < 1e-10


@KINDS
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
def test_the_grouped_product_is_the_same(kind: str, dtype: torch.dtype, most: float) -> None:
    """What runs on an accelerator, here by torch's implementation for processors."""
    layer = last_layer(kind, dtype)
    rows = some_rows(37, layer)
    assert layer.router is not None
    assert layer.shape.experts is not None
    sent = send(rows, mixture_of(layer).router, layer.router_bias, layer.shape.experts)
    one = experts.in_turn(rows, sent, mixture_of(layer).stack)
    other = experts.grouped(rows, sent, mixture_of(layer).stack)
    assert one.dtype == other.dtype == torch.float32
    assert (one - other).abs().max() < most * one.abs().max()


@KINDS
@pytest.mark.parametrize("way", [experts.in_turn, experts.grouped])
def test_what_shards_make_of_their_experts_adds_up(
    kind: str, way: Callable[[Tensor, Sent, Swiglu], Tensor]
) -> None:
    layer, spec = last_layer(kind, torch.float32), MIXTURES[kind]
    rows, stack = some_rows(11, layer), mixture_of(layer).stack
    assert layer.router is not None
    shares = []
    for first, held in ((0, 1), (1, spec.count - 1)):
        sent = send(
            rows, mixture_of(layer).router, layer.router_bias, replace(spec, first=first, held=held)
        )
        own = slice(first, first + held)
        shares.append(
            way(
                rows,
                sent,
                Swiglu(Linear(stack.gate_up.values[own]), Linear(stack.down.values[own])),
            )
        )
    assert shares[0].abs().max() > 0
    whole = experts_of(layer, rows)
    assert (shares[0] + shares[1] - whole).abs().max() < 1e-5 * whole.abs().max()


@pytest.mark.parametrize(
    ("kind", "dtype", "capability", "int8", "wanted"),
    [
        ("cuda", torch.bfloat16, (8, 0), False, True),
        ("cuda", torch.bfloat16, (9, 0), False, True),
        ("cuda", torch.bfloat16, (7, 5), False, False),
        ("cuda", torch.float16, (9, 0), False, False),
        ("cuda", torch.float32, (9, 0), False, False),
        ("cuda", torch.float64, (9, 0), False, False),
        ("cuda", torch.bfloat16, (9, 0), True, False),
        ("mps", torch.bfloat16, (0, 0), False, False),
        ("cpu", torch.bfloat16, (0, 0), False, False),
        ("meta", torch.bfloat16, (0, 0), False, True),
    ],
)
def test_the_grouped_product_is_used_where_torch_promises_it(
    kind: str,
    dtype: torch.dtype,
    capability: tuple[int, int],
    int8: bool,
    wanted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Elsewhere one expert after the other, whatever the device."""
    asked: list[Any] = []

    def capability_of(device: Any) -> tuple[int, int]:
        asked.append(device)
        return capability

    monkeypatch.setattr(torch.cuda, "get_device_capability", capability_of)
    rows: Any = SimpleNamespace(
        is_cuda=kind == "cuda", is_meta=kind == "meta", dtype=dtype, device=torch.device(kind)
    )
    linear = Linear(torch.ones(1), torch.ones(1) if int8 else None)
    assert can_group(rows, Swiglu(linear, linear)) == wanted
    assert set(asked) <= {torch.device("cuda")}


@KINDS
@pytest.mark.parametrize("grouping", [True, False])
def test_the_choice_decides_how_the_products_are_made(
    kind: str, grouping: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experts, "can_group", lambda *_: grouping)
    monkeypatch.setattr(experts, "in_turn" if grouping else "grouped", None)
    layer = last_layer(kind, torch.float32)
    rows = some_rows(7, layer)
    shared = 0.0 if layer.dense is None else layer.dense(rows)
    assert (experts_of(layer, rows) + shared - naive.feed_forward(layer, rows)).abs().max() < 1e-5


@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_row_does_not_depend_on_who_shares_its_experts(kind: str, dtype: torch.dtype) -> None:
    """Bit for bit: the cache of complete prompt blocks is exact because of this."""
    layer = last_layer(kind, dtype)
    own, others = some_rows(24, layer), some_rows(24, layer, seed=9)
    together = experts_of(layer, torch.cat((own, others)))[:24]
    assert torch.equal(experts_of(layer, torch.cat((own, others.flip(0) * 3)))[:24], together)


@KINDS
def test_an_expert_without_rows_makes_no_product(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = last_layer(kind)
    made: list[tuple[int, int]] = []

    def counted(self: Swiglu, rows: Tensor) -> Tensor:
        assert isinstance(self.down.at, int)
        made.append((self.down.at, len(rows)))
        return plain(self, rows)

    plain = Swiglu.__call__
    monkeypatch.setattr(Swiglu, "__call__", counted)
    rows = some_rows(2, layer)
    experts_of(layer, rows)
    used = {expert for sent in naive.routed(layer, rows) for expert in sent}
    assert [expert for expert, _ in made] == sorted(used)
    assert {count for _, count in made} == {experts.TOGETHER}
    assert len(used) < MIXTURES[kind].count


@KINDS
@pytest.mark.parametrize("grouping", [True, False])
def test_no_rows_are_no_answers(kind: str, grouping: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a pass that fills keys and values and reads nothing."""
    monkeypatch.setattr(experts, "can_group", lambda *_: grouping)
    layer = last_layer(kind, torch.float32)
    assert layer.feed_forward(some_rows(0, layer)).shape == (0, layer.shape.width)


@KINDS
@pytest.mark.parametrize("attention_block", [None, 4])
def test_a_full_pass_against_the_plain_twin(kind: str, attention_block: int | None) -> None:
    net = mixture(kind)
    prompt, response = [1, 2, 3, 4, 5, 6, 7], torch.tensor([[8, 9, net.mask, 10, net.mask, 11]])
    canvas = canvas_of(
        prompt, response, net.mask, Blocks(attention_block) if attention_block else DENSE
    )
    (ours,), _, _ = ask(net, canvas, blank(net.network, canvas), canvas.everything())
    tokens = torch.cat((torch.tensor(prompt), response[0]))
    raw, _ = naive.forward(net.network, tokens, attention_block=attention_block)
    assert (ours - raw[len(prompt) :]).abs().max() < 1e-10


@pytest.mark.parametrize("dtype", OFF)
@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 9),
    count=st.integers(1, 4),
    width=st.integers(1, 20),
    seed=st.integers(0, 10**6),
)
def test_a_weight_is_off_by_at_most_so_many_scales_and_a_product_by_their_sum(
    dtype: torch.dtype, rows: int, count: int, width: int, seed: int
) -> None:
    """|y - y'| <= sum of OFF * scale * |x|, channel by channel; both products are made in float64."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn((rows, count * width), generator=generator, dtype=torch.float64)
    hidden = torch.randn((5, count * width), generator=generator, dtype=torch.float64)
    numbers, scale = quantised(weight, count)
    assert numbers.dtype == torch.int8
    assert scale.shape == (rows, count)
    assert (numbers.unflatten(-1, (count, -1)).abs().amax(dim=-1) == LARGEST).all()
    used = Linear(numbers, scale)(torch.eye(count * width, dtype=dtype)).T.double()
    wide = scale.double().repeat_interleave(width, dim=-1)
    assert ((used - weight).abs() <= OFF[dtype] * wide + 1e-7).all()
    error = (hidden @ used.T - hidden @ weight.T).abs()
    assert (error <= OFF[dtype] * (hidden.abs() @ wide.T) + 1e-6).all()


def test_how_far_a_weight_is_off_is_not_said_too_carefully() -> None:
    """Weights that come within a tenth of what is said, in every dtype."""
    weight = torch.randn((4096, 32), generator=torch.Generator().manual_seed(0)).double()
    numbers, scale = quantised(weight)
    for dtype, most in OFF.items():
        used = Linear(numbers, scale)(torch.eye(32, dtype=dtype)).T.double()
        worst = ((used - weight).abs() / scale.double()).max()
        assert 0.9 * most < worst <= most + 1e-6


def test_a_channel_of_zeros_stays_zero() -> None:
    numbers, scale = quantised(torch.zeros(2, 3))
    assert numbers.tolist() == [[0, 0, 0]] * 2
    assert scale.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize(("inputs", "count"), [(160, 5), (12, 3), (7, 7), (4096, 128), (1, 1)])
def test_inputs_that_share_a_scale_divide_a_channel(inputs: int, count: int) -> None:
    assert scales(inputs) == count


def quantised_twin(network: Transformer) -> Transformer:
    """The same weights in eight bits, without the loader."""
    twin = Transformer(network.shape, scheme=Scheme.INT8, dtype=network.dtype)
    kept, scaled = dict(network.named_parameters()), twin.scales()
    for name, parameter in twin.named_parameters():
        scale = scaled.get(name)
        if scale is not None:
            numbers, found = quantised(kept[name].flatten(0, -2), scale.shape[-1])
            parameter.data.copy_(numbers.view_as(parameter))
            scale.data.copy_(found.view_as(scale))
        elif name in kept:
            parameter.data.copy_(kept[name])
    return twin


@pytest.mark.parametrize("kind", ["dense", *sorted(MIXTURES)])
def test_logits_in_eight_bits_are_near(kind: str) -> None:
    """Rounding errors of the products are independent, so their relative sizes add up in squares.

    With this seed no row is sent to other experts; where one is, its logits move by more.
    """
    network = (
        random_network(shape(), 0, torch.float64) if kind == "dense" else mixture(kind, 0).network
    )
    twin = quantised_twin(network)
    tokens = torch.arange(24) % 40
    exact, _ = naive.forward(network, tokens)
    canvas = canvas_of(tokens.tolist()[:8], tokens[None, 8:], 49)
    net = Backbone(twin, 49)
    (ours,), _, _ = ask(net, canvas, blank(twin, canvas), canvas.everything())
    error = (ours - exact[8:]).pow(2).mean().sqrt() / exact[8:].pow(2).mean().sqrt()
    products = 2 * (network.shape.layers - 1)
    assert 0 < error < _relative_rounding(network, twin) * products**0.5


def _relative_rounding(network: Transformer, twin: Transformer) -> float:
    """Root mean square of a rounding, scale / sqrt(12), beside that of the weights; the worst matrix."""
    weights = dict(network.named_parameters())
    found = [
        float(scale.double().pow(2).mean().sqrt() / weights[name].pow(2).mean().sqrt())
        for name, scale in twin.scales().items()
    ]
    return max(found) / 12**0.5
