"""The mixture of experts against a twin that sends one row at a time, and weights of eight bits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import naive
from archer.engine import experts
from archer.engine.experts import Stack, mixed, send
from archer.engine.int8 import LARGEST, product, quantised
from archer.engine.network import Layer, Transformer
from networks import MIXTURES, mixture, random_network
from test_forward import ask, blank, canvas_of

KINDS = pytest.mark.parametrize("kind", sorted(MIXTURES))


def last_layer(kind: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> Layer:
    network = mixture(kind, seed, dtype).network
    return network.layer(network.shape.layers - 1)


def some_rows(count: int, layer: Layer, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn((count, layer.shape.width), generator=generator, dtype=torch.float64)
    return drawn.to(layer.qkv.dtype)


def experts_of(layer: Layer, rows: Tensor) -> Tensor:
    assert layer.router is not None
    assert layer.shape.experts is not None
    sent = send(rows, layer.router, layer.router_bias, layer.shape.experts)
    return mixed(rows, sent, layer.stack())


@KINDS
@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_rows_sorted_by_expert_get_what_each_gets_alone(kind: str, count: int, seed: int) -> None:
    layer = last_layer(kind, seed=seed % 5)
    rows = some_rows(count, layer, seed)
    shared = 0.0 if layer.gate_up is None else layer._swiglu(rows)
    assert (experts_of(layer, rows) + shared - naive.feed_forward(layer, rows)).abs().max() < 1e-10


@KINDS
def test_the_grouped_product_is_the_same(kind: str) -> None:
    """What runs on an accelerator, here by torch's implementation for processors."""
    layer = last_layer(kind, torch.float32)
    rows = some_rows(37, layer)
    assert layer.router is not None
    assert layer.shape.experts is not None
    sent = send(rows, layer.router, layer.router_bias, layer.shape.experts)
    one = experts.in_turn(rows, sent.experts, layer.stack())
    other = experts.grouped(rows, sent.experts, layer.stack())
    assert (one - other).abs().max() < 1e-5


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

    def counted(self: Stack, expert: int, rows: Tensor) -> Tensor:
        made.append((expert, len(rows)))
        return plain(self, expert, rows)

    plain = Stack.answer
    monkeypatch.setattr(Stack, "answer", counted)
    rows = some_rows(2, layer)
    experts_of(layer, rows)
    used = {expert for sent in naive.routed(layer, rows) for expert in sent}
    assert [expert for expert, _ in made] == sorted(used)
    assert {count for _, count in made} == {experts.TOGETHER}
    assert len(used) < MIXTURES[kind].count


def test_weights_of_the_softmax_are_not_brought_to_a_sum() -> None:
    layer = last_layer("softmax")
    assert layer.router is not None
    sent = send(some_rows(9, layer), layer.router, None, MIXTURES["softmax"])
    assert (sent.weights.sum(dim=-1) < 1).all()


def test_weights_of_grouped_sigmoids_add_up_to_the_scale_and_come_from_few_groups() -> None:
    layer, spec = last_layer("grouped"), MIXTURES["grouped"]
    assert layer.router is not None
    sent = send(some_rows(50, layer), layer.router, layer.router_bias, spec)
    assert (sent.weights.sum(dim=-1) - spec.scale).abs().max() < 1e-12
    groups = sent.experts // (spec.count // spec.groups)
    assert all(len(set(row)) <= spec.kept_groups for row in groups.tolist())


def test_the_bias_chooses_and_does_not_weigh() -> None:
    layer, spec = last_layer("grouped"), MIXTURES["grouped"]
    assert layer.router is not None
    rows = some_rows(20, layer)
    favoured = torch.zeros(spec.count, dtype=torch.float64)
    favoured[[0, 5]] = 100.0
    sent = send(rows, layer.router, favoured, spec)
    assert all({0, 5} <= set(row) for row in sent.experts.tolist())
    scores = (rows @ layer.router.T).sigmoid().gather(-1, sent.experts)
    assert (sent.weights - spec.scale * scores / scores.sum(-1, keepdim=True)).abs().max() < 1e-12


@KINDS
@pytest.mark.parametrize("attention_block", [None, 4])
def test_a_full_pass_against_the_plain_twin(kind: str, attention_block: int | None) -> None:
    net = mixture(kind)
    prompt, response = [1, 2, 3, 4, 5, 6, 7], torch.tensor([[8, 9, net.mask, 10, net.mask, 11]])
    canvas = canvas_of([prompt], response, net.mask, attention_block=attention_block)
    (ours,), _, _ = ask(net, canvas, blank(net.network, canvas), canvas.everything())
    tokens = torch.cat((torch.tensor(prompt), response[0]))
    raw, _ = naive.forward(net.network, tokens, attention_block=attention_block)
    assert (ours - raw[len(prompt) :]).abs().max() < 1e-10


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 9), width=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_a_product_is_off_by_at_most_half_a_scale_per_input(
    rows: int, width: int, seed: int
) -> None:
    """|y - y'| <= scale / 2 * sum |x|, channel by channel."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn((rows, width), generator=generator, dtype=torch.float64)
    hidden = torch.randn((5, width), generator=generator, dtype=torch.float64)
    numbers, scale = quantised(weight)
    assert numbers.dtype == torch.int8
    assert (numbers.abs().amax(dim=-1) == LARGEST).all()
    error = (product(hidden, numbers, scale) - hidden @ weight.T).abs()
    assert (error <= hidden.abs().sum(-1, keepdim=True) * scale / 2 + 1e-12).all()


def test_a_channel_of_zeros_stays_zero() -> None:
    numbers, scale = quantised(torch.zeros(2, 3))
    assert numbers.tolist() == [[0, 0, 0]] * 2
    assert scale.tolist() == [1.0, 1.0]


def quantised_twin(network: Transformer) -> Transformer:
    """The same weights in eight bits, without the loader."""
    twin = Transformer(network.shape, int8=True, dtype=network.dtype)
    kept = dict(network.named_parameters())
    own = dict(twin.named_parameters())
    for name, parameter in own.items():
        if f"{name}_scale" in own:
            flat = kept[name].flatten(0, -2)
            numbers, scale = quantised(flat)
            parameter.data.copy_(numbers.view_as(parameter))
            own[f"{name}_scale"].data.copy_(scale.view_as(own[f"{name}_scale"]))
        elif not name.endswith("_scale"):
            parameter.data.copy_(kept[name])
    return twin


@pytest.mark.parametrize("kind", ["dense", *sorted(MIXTURES)])
def test_logits_in_eight_bits_are_near(kind: str) -> None:
    """Rounding errors of the products are independent, so their relative sizes add up in squares."""
    from networks import shape

    network = (
        random_network(shape(), 2, torch.float64) if kind == "dense" else mixture(kind, 2).network
    )
    twin = quantised_twin(network)
    tokens = torch.arange(24) % 40
    exact, _ = naive.forward(network, tokens)
    canvas = canvas_of([tokens.tolist()[:8]], tokens[None, 8:], 49)
    from networks import Backbone

    net = Backbone(twin, False, 49)
    (ours,), _, _ = ask(net, canvas, blank(twin, canvas), canvas.everything())
    error = (ours - exact[8:]).pow(2).mean().sqrt() / exact[8:].pow(2).mean().sqrt()
    products = 4 * network.shape.layers
    each = _relative_rounding(network)
    assert 0 < error < 2 * each * products**0.5


def _relative_rounding(network: Transformer) -> float:
    """Root mean square of a rounding, scale / sqrt(12), beside that of the weights; the worst matrix."""
    worst = 0.0
    for name, parameter in network.named_parameters():
        if parameter.dim() > 1 and name.startswith("layers") and not name.endswith("router"):
            weight = parameter.flatten(0, -2)
            scale = weight.abs().amax(dim=-1) / LARGEST
            size = (scale.pow(2).mean() / 12).sqrt() / weight.pow(2).mean().sqrt()
            worst = max(worst, float(size))
    return worst
