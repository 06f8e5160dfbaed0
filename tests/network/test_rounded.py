"""Products in whole numbers: exact sums, rows that do not know of each other, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import ParameterList

from archer.errors import BadRequest
from archer.machine import description
from archer.machine.devices import WRONG_RESULT_CODE, Attempt, attempt
from archer.model import load
from archer.network import network as network_module
from archer.network import rounded
from archer.network.differentiable import hidden_states
from archer.network.linear import Linear
from archer.network.network import Angles, Transformer, kept_by, rotate, rotate_halves
from archer.network.rounded import (
    CHILD,
    MOST_INPUTS,
    ON_PROCESSORS,
    POINTED,
    Operator,
    Rounded,
    by_packed,
    by_plain,
    operator_on,
    packed,
    probe,
)
from archer.network.shape import Kept, Product, Scheme
from support.folders import make_llada
from support.networks import MIXTURES, Backbone, mixture, random_network, shape
from support.one_pass import ask, blank, canvas_of
from support.whole_numbers import by_plain_arithmetic

HERE = torch.device("cpu")
WHOLE = [Scheme.W8A8, Scheme.W8A8_HEAD]
pytestmark = pytest.mark.usefixtures("whole_numbers")
OPERATORS = pytest.mark.parametrize("operator", ON_PROCESSORS)


def drawn(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def kept_whole(weights: Tensor, operator: Operator) -> Linear:
    linear = Linear.empty(*weights.shape, kept=Kept.WHOLE)
    linear.fill(weights)
    if operator is Operator.PACKED:
        linear.pack()
    return linear


def plainly(rows: Tensor, weights: Tensor) -> Tensor:
    """The same product in float64, whole numbers and scales found one by one."""

    def found(values: Tensor) -> tuple[Tensor, Tensor]:
        top = values.abs().amax(dim=1, keepdim=True).clamp(min=rounded.TINIEST)
        return (values * (127 / top)).round().double(), (top / 127).double()

    (numbers, scale), top = found(rows), weights.abs().amax(dim=1, keepdim=True)
    channels = torch.where(top == 0, torch.ones_like(top), top / 127)
    values = (weights / channels).round().double()
    return (numbers @ values.mT) * channels.mT.double() * scale


# --- products -----------------------------------------------------------------------------------


@OPERATORS
@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 40),
    inputs=st.integers(2, 200),
    channels=st.integers(1, 70),
    magnitude=st.sampled_from((1e-42, 1e-36, 1e-20, 1.0, 1e20, 1e30)),
    seed=st.integers(0, 10**6),
)
def test_a_product_is_what_whole_numbers_make(
    operator: Operator, rows: int, inputs: int, channels: int, magnitude: float, seed: int
) -> None:
    hidden, weights = drawn(rows, inputs, seed=seed), drawn(channels, inputs, seed=seed + 1)
    hidden[::3] *= magnitude
    hidden[1::5] = 0.0
    wanted = plainly(hidden, weights)
    answer = kept_whole(weights, operator)(hidden).double()
    largest = wanted.abs().amax(dim=1, keepdim=True)
    assert ((answer - wanted).abs() <= 1e-6 * largest + 1e-44).all()
    assert (answer[1::5] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_both_operators_give_the_same_bits(dtype: torch.dtype) -> None:
    hidden, weights = drawn(37, 130).to(dtype), drawn(48, 130, seed=1)
    one, other = (kept_whole(weights, operator)(hidden) for operator in ON_PROCESSORS)
    assert one.dtype == dtype
    assert torch.equal(one, other)


@OPERATORS
def test_the_trial_takes_each_operator_that_is_right(operator: Operator) -> None:
    assert rounded.exact(operator)


@OPERATORS
def test_a_trial_in_a_process_of_its_own_ends_as_the_operator_is(operator: Operator) -> None:
    """As it is here, nothing pretended: without VNNI oneDNN's sums saturate, and the trial says so."""
    numbers = torch.full((5, 64), 255, dtype=torch.uint8)
    values, scale = torch.full((48, 64), 127, dtype=torch.int8), torch.ones(48)
    if operator is Operator.PACKED:
        answer = by_packed(numbers, packed(values), scale)
    else:
        answer = by_plain(numbers, values, scale)
    right = torch.equal(answer, by_plain_arithmetic(numbers, values, scale))
    ended = attempt((sys.executable, "-P", "-c", CHILD, operator.value))
    assert ended.outcome == ("ok" if right else "wrong result")


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 9), inputs=st.integers(1, 60), seed=st.integers(0, 10**6))
def test_rows_are_rounded_to_the_nearest_halves_to_even(rows: int, inputs: int, seed: int) -> None:
    values = drawn(rows, inputs, seed=seed)
    values[0] = torch.arange(inputs) % 7 + 0.5
    values[0, 0] = 127.0
    found = Rounded.of(values)
    wanted = (values * (127 / values.abs().amax(dim=1, keepdim=True))).round() + 128
    assert torch.equal(found.numbers, wanted.to(torch.uint8))
    assert ((found.numbers.float() - 128) * found.scale - values).abs().max() <= 0.501 * float(
        found.scale.max()
    )


@OPERATORS
@pytest.mark.parametrize("rows", [1, 2, 5, 64, 257])
def test_a_row_does_not_know_of_the_others(operator: Operator, rows: int) -> None:
    """Bit by bit, whatever stands beside it: larger rows, zeros, or what is not finite."""
    linear = kept_whole(drawn(48, 64, seed=1), operator)
    hidden = drawn(rows, 64)
    company = torch.cat((hidden, 1e6 * drawn(3, 64), torch.full((1, 64), torch.nan)))
    together = linear(company)[:rows]
    assert torch.equal(together, linear(hidden))
    for row in range(0, rows, 50):
        assert torch.equal(together[row], linear(hidden[row : row + 1])[0])


@OPERATORS
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_makes_nothing_finite(operator: Operator, value: float) -> None:
    hidden = drawn(4, 64)
    hidden[2, 17] = value
    answer = kept_whole(drawn(48, 64, seed=1), operator)(hidden)
    assert answer.isfinite().all(dim=1).tolist() == [True, True, False, True]
    assert not answer[2].isfinite().any()


def test_no_rows_make_no_rows() -> None:
    for operator in ON_PROCESSORS:
        assert kept_whole(drawn(48, 64), operator)(drawn(0, 64)).shape == (0, 48)


def test_on_a_gpu_rows_are_filled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced without data or GPU: what torch's operator would be given there."""
    given: list[tuple[int, ...]] = []
    whole = torch._int_mm

    def watched(rows: Tensor, weights: Tensor) -> Tensor:
        given.append(tuple(rows.shape))
        return whole(rows, weights)

    monkeypatch.setattr(torch, "_int_mm", watched)
    with FakeTensorMode():
        card = torch.device("cuda")
        numbers = torch.empty((37, 64), dtype=torch.uint8, device=card)
        weights = torch.empty((48, 64), dtype=torch.int8, device=card)
        answer = by_plain(numbers, weights, torch.empty(48, device=card))
    assert (answer.shape, answer.dtype, answer.device.type) == ((37, 48), torch.float32, "cuda")
    assert given == [(64, 64)]


# --- float8, for GPUs ---------------------------------------------------------------------------


@pytest.fixture
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every GPU multiplies float8."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 9))


def test_on_newer_gpus_products_are_of_float8(ada: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced without data or GPU: what torch's operator would be given there."""
    given: list[tuple[Tensor, Tensor]] = []
    whole = torch._scaled_mm

    def watched(rows: Tensor, weights: Tensor, **how: Any) -> Tensor:
        given.append((rows, weights))
        return whole(rows, weights, **how)

    monkeypatch.setattr(torch, "_scaled_mm", watched)
    with FakeTensorMode():
        card = torch.device("cuda")
        linear = Linear.empty(48, 64, kept=Kept.WHOLE, device=card)
        answer = linear(torch.empty((37, 64), device=card, dtype=torch.bfloat16))
    assert (answer.shape, answer.dtype, answer.device.type) == ((37, 48), torch.bfloat16, "cuda")
    ((rows, weights),) = given
    assert rows.dtype == weights.dtype == linear.values.dtype == POINTED
    assert (rows.shape, weights.shape, weights.stride()) == ((37, 64), (64, 48), (1, 64))


def test_older_gpus_keep_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    with FakeTensorMode():
        assert Linear.empty(8, 8, kept=Kept.WHOLE, device=torch.device("cuda")).values.dtype == (
            torch.int8
        )


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 20),
    magnitude=st.sampled_from((1e-42, 1e-36, 1e-20, 1.0, 1e20, 1e30)),
    seed=st.integers(0, 10**6),
)
def test_a_product_of_float8_is_that_of_its_numbers(rows: int, magnitude: float, seed: int) -> None:
    """On a processor, which computes the same: numbers as rounded, sums in float32."""
    hidden, weights = drawn(rows, 64, seed=seed), drawn(48, 64, seed=seed + 1)
    hidden[::3] *= magnitude
    hidden[1::5] = 0.0
    linear = in_float8(weights)
    rounded_rows = linear.rounded(hidden)
    assert rounded_rows.numbers.dtype == linear.values.dtype == POINTED
    assert linear.scale is not None
    held = linear.values.double() * linear.scale.double()
    assert ((held - weights.double()).abs() <= weights.abs() / 16 + linear.scale).all()
    wanted = rounded_rows.numbers.double() @ held.mT * rounded_rows.scale.double()
    largest = wanted.abs().amax(dim=1, keepdim=True)
    answer = linear(hidden).double()
    assert ((answer - wanted).abs() <= 1e-5 * largest + 1e-42).all()
    assert (answer[1::5] == 0).all()


def in_float8(weights: Tensor) -> Linear:
    scale = torch.empty((len(weights), 1))
    linear = Linear(torch.empty(weights.shape, dtype=POINTED), scale, blocks=ParameterList())
    linear.fill(weights)
    return linear


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_stays_so_in_float8(value: float) -> None:
    hidden = drawn(4, 64)
    hidden[2, 17] = value
    answer = in_float8(drawn(48, 64, seed=1))(hidden)
    assert answer.isfinite().all(dim=1).tolist() == [True, True, False, True]


# --- networks -----------------------------------------------------------------------------------


def logits_of(network: Transformer, rows: Sequence[int] = (0,)) -> list[Tensor]:
    tokens = torch.arange(24) % 40
    responses = torch.stack([(tokens[8:] + row) % 40 for row in rows])
    canvas = canvas_of(tokens.tolist()[:8], responses, 49)
    found, _, _ = ask(Backbone(network, 49), canvas, blank(network, canvas), canvas.everything())
    return found


@pytest.mark.parametrize("scheme", WHOLE)
@pytest.mark.parametrize("kind", ["dense", "shift", *sorted(MIXTURES)])
def test_networks_of_both_operators_give_the_same_bits_near_the_plain_ones(
    kind: str, scheme: Scheme
) -> None:
    if kind in MIXTURES:
        plain = mixture(kind, 0).network.float()
    else:
        plain = random_network(shape(shift=kind == "shift", kv_heads=2), 0, torch.float32)
    exact = logits_of(plain)[0]
    packed, loose = (logits_of(kept_by(plain, scheme, packed=each))[0] for each in (True, False))
    assert torch.equal(packed, loose)
    far = float((packed - exact).norm() / exact.norm())
    assert 1e-4 < far < (0.5 if kind in MIXTURES else 0.1)


@pytest.mark.parametrize("kind", ["dense", *sorted(MIXTURES)])
def test_rows_of_a_pass_do_not_know_of_each_other(kind: str) -> None:
    plain = (
        random_network(shape(), 0, torch.float32)
        if kind == "dense"
        else mixture(kind, 0).network.float()
    )
    network = kept_by(plain, Scheme.W8A8_HEAD, packed=True)
    together = logits_of(network, range(5))
    for row in range(5):
        assert torch.equal(together[row], logits_of(network, [row])[0])


def test_what_is_packed_leaves_nothing_behind() -> None:
    plain = random_network(shape(), 0, torch.float32)
    network = kept_by(plain, Scheme.W8A8_HEAD, packed=True)
    names = {name for name, _ in network.named_parameters()}
    assert not names & set(network.large())
    loose = kept_by(plain, Scheme.W8A8_HEAD, packed=False)
    sizes = [sum(each.nbytes for each in one.parameters()) for one in (network, loose)]
    assert sizes[0] == sizes[1]
    assert all(linear.values.untyped_storage().nbytes() == 0 for linear in network.large().values())


def test_each_scheme_says_which_products_it_is_about() -> None:
    whole = {
        scheme: {each for each in Product if scheme.keeps(each) is Kept.WHOLE} for scheme in Scheme
    }
    layers = set(Product) - {Product.HEAD}
    assert whole == {
        Scheme.PLAIN: set(),
        Scheme.INT8: set(),
        Scheme.W8A8: layers,
        Scheme.W8A8_HEAD: set(Product),
    }
    small = {each for each in Product if Scheme.INT8.keeps(each) is Kept.SMALL}
    assert small == layers - {Product.QKV, Product.OUT}
    assert all(Scheme.INT8.keeps(each, last=True) is Kept.PLAIN for each in Product)


def test_there_is_no_derivative_of_rounded_rows() -> None:
    network = kept_by(random_network(shape(), 0, torch.float32), Scheme.W8A8, packed=False)
    embedded = network.embed(torch.arange(6))[None]
    with pytest.raises(
        BadRequest, match=r"\(w8a8\) have no derivative. Load the model without quantize"
    ):
        hidden_states(network, embedded)
    with torch.inference_mode():
        assert hidden_states(network, embedded).isfinite().all()


# --- rotation -----------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(0, 9),
    heads=st.integers(1, 5),
    size=st.sampled_from((4, 8, 22)),
    rotated=st.sampled_from((4, 8, 22)),
    dtype=st.sampled_from((torch.float32, torch.float64, torch.bfloat16)),
)
def test_rotation_by_halves_has_the_bits_of_the_spelled_one(
    rows: int, heads: int, size: int, rotated: int, dtype: torch.dtype
) -> None:
    rotated = min(size, rotated)
    angle = drawn(rows, 1, rotated // 2).to(torch.promote_types(dtype, torch.float32))
    angles = Angles(
        torch.cat((angle.cos(),) * 2, dim=-1), torch.cat((-angle.sin(), angle.sin()), dim=-1)
    )
    values = drawn(rows, heads + 1, size, seed=1).to(dtype)[:, :heads]
    spelled = rotate(values, angles)
    assert torch.equal(rotate_halves(values, angles), spelled)
    with torch.inference_mode():
        assert torch.equal(rotate(values, angles), spelled)


def test_many_numbers_are_rotated_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[int] = []
    whole = network_module.rotate_halves

    def noted(heads: torch.Tensor, angles: Angles) -> torch.Tensor:
        ways.append(heads.numel())
        return whole(heads, angles)

    monkeypatch.setattr(network_module, "rotate_halves", noted)
    with torch.inference_mode():
        for rows in (1, network_module.FEW // 8, network_module.FEW // 8 + 1):
            rotate(drawn(rows, 1, 8), Angles(drawn(rows, 1, 8), drawn(rows, 1, 8, seed=1)))
    assert ways == [network_module.FEW + 8]


# --- refusals -----------------------------------------------------------------------------------


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which nothing has been tried yet."""
    monkeypatch.setattr(rounded, "probe", cache(probe.__wrapped__))


def test_a_processor_without_vnni_is_refused_and_int8_works(
    untried: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listing = tmp_path / "cpuinfo"
    listing.write_text("model name : Old\nflags : sse avx avx2 avx512f\n", encoding="utf-8")
    monkeypatch.setattr(description, "LISTING", listing)
    folder = make_llada(tmp_path / "model")
    with pytest.raises(
        BadRequest, match=r"needs a processor with VNNI .* Use int8, which saves memory"
    ):
        load(folder, device="cpu", quantize="w8a8")
    instead_works(folder)


def instead_works(folder: Path) -> None:
    """What every refusal names: int8, or nothing at all."""
    for quantize in ("int8", None):
        model = load(folder, device="cpu", quantize=quantize)
        assert len(model.generate([5, 6, 7], length=4)[0].tokens) == 4


def test_where_the_system_does_not_tell_torch_is_asked(
    untried: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(description, "LISTING", tmp_path / "absent")
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    assert "VNNI" in str(rounded.probe().refusal)


def test_another_torch_is_refused(
    untried: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Operator, "there", False)
    folder = make_llada(tmp_path / "model")
    with pytest.raises(
        BadRequest, match=r"This torch \(.*\) has neither of the operators .* Use int8"
    ):
        load(folder, device="cpu", quantize="w8a8")
    instead_works(folder)


def test_an_operator_with_wrong_numbers_is_left_to_the_other(
    untried: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The trial, which runs in a child, is told that the first one is wrong; the second then computes."""

    def ended(command: Sequence[str]) -> Attempt:
        return Attempt("wrong result") if Operator.PACKED in command else Attempt("ok")

    monkeypatch.setattr(rounded, "attempt", ended)
    assert operator_on(HERE, shape(), Scheme.W8A8) is Operator.PLAIN
    folder = make_llada(tmp_path / "model")
    loose = load(folder, device="cpu", quantize="w8a8")
    assert all(not linear.blocks for linear in loose.network.large().values())
    monkeypatch.undo()
    packed = load(folder, device="cpu", quantize="w8a8")
    assert all(linear.blocks for linear in packed.network.large().values())
    one, other = (each.generate([5, 6, 7], length=8)[0] for each in (loose, packed))
    assert one.tokens == other.tokens


def test_where_no_operator_is_right_the_trials_are_told(
    untried: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends = {
        Operator.PACKED: Attempt("killed", "by SIGILL"),
        Operator.PLAIN: Attempt("wrong result"),
    }
    monkeypatch.setattr(rounded, "attempt", lambda command: ends[Operator(command[-1])])
    with pytest.raises(
        BadRequest,
        match=r"not safe on this machine: .* by SIGILL \(onednn\) and wrong result \(int_mm\). Use int8",
    ):
        load(make_llada(tmp_path / "model"), device="cpu", quantize="w8a8")
    instead_works(tmp_path / "model")


@OPERATORS
def test_a_trial_notices_a_number_that_is_off_by_one(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "by_packed" if operator is Operator.PACKED else "by_plain"
    right = getattr(rounded, name)

    def wrong(numbers: Tensor, values: Tensor, scale: Tensor) -> Tensor:
        answer: Tensor = right(numbers, values, scale)
        answer[-1, -1] += scale[-1]
        return answer

    monkeypatch.setattr(rounded, name, wrong)
    assert not rounded.exact(operator)
    monkeypatch.setattr(sys, "argv", ["-c"])
    with pytest.raises(SystemExit) as ended:
        rounded.child(operator.value)
    assert ended.value.code == WRONG_RESULT_CODE


@pytest.mark.parametrize("inner", [1, MOST_INPUTS + 1])
def test_sizes_that_no_sum_holds_are_refused(inner: int) -> None:
    with pytest.raises(
        BadRequest, match=f"2 to {MOST_INPUTS} inputs, and this model has one of {inner}. Use"
    ):
        operator_on(HERE, shape(inner=inner), Scheme.W8A8)


def test_a_model_of_odd_sizes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    folder = make_llada(tmp_path / "model", mlp_hidden_size=1)
    with pytest.raises(BadRequest, match=r"and this model has one of 1\. Use int8"):
        load(folder, device="cpu", quantize="w8a8-head")
    instead_works(folder)


@pytest.mark.parametrize(
    ("capability", "operator", "multiple"),
    [((8, 0), Operator.PLAIN, 8), ((9, 0), Operator.SCALED, 16)],
)
def test_what_gpus_and_other_devices_take(
    capability: tuple[int, int],
    operator: Operator,
    multiple: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    card, even = torch.device("cuda"), shape(vocabulary=64)
    assert operator_on(card, even, Scheme.W8A8_HEAD) is operator
    assert operator_on(card, replace(even, vocabulary=50), Scheme.W8A8) is operator
    with pytest.raises(
        BadRequest, match=rf"multiples of {multiple}, and this model has one of 50. Use int8"
    ):
        operator_on(card, replace(even, vocabulary=50), Scheme.W8A8_HEAD)
    with pytest.raises(BadRequest, match=r"no w8a8 on a device of the kind mps. Use int8"):
        operator_on(torch.device("mps"), even, Scheme.W8A8)
