"""Loading in eight bits: what is quantised, what it weighs, and what it does to a small model."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from archer.costs.shapes import shapes
from archer.errors import BadModel, BadRequest, NonFinite
from archer.loading import checkpoint
from archer.loading.checkpoint import load_network, read_folder
from archer.loading.weights import Copy, read_header, stream
from archer.model import load
from archer.network.differentiable import hidden_states
from archer.network.linear import quantised
from archer.network.network import Transformer, kept_by
from archer.network.shape import Scheme
from archer.tasks.registry import open_task
from support.folders import make_a2d, make_dream, make_llada, make_llada2, make_llada_moe
from support.spoil import tensors

pytestmark = pytest.mark.usefixtures("whole_numbers")
FAMILIES = pytest.mark.parametrize(
    "make", [make_llada, make_dream, make_llada_moe, partial(make_llada2, num_hidden_layers=3)]
)
"""Of LLaDA2 a dense layer, one with experts, and the last."""
QUANTISED = "model.transformer.blocks.0.ff_proj.weight"
"""Not in the last layer, so it is kept in eight bits."""
MATRICES = ("gate_up", "down", "expert_gate_up", "expert_down")


@FAMILIES
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_feed_forwards_and_experts_are_quantised_and_not_the_last(
    make: object, dtype: torch.dtype, tmp_path: Path
) -> None:
    folder = read_folder(make(tmp_path / "model"))  # type: ignore[operator]
    kept = load_network(folder, device=torch.device("cpu"), dtype=dtype)
    small = load_network(folder, device=torch.device("cpu"), dtype=dtype, scheme=Scheme.INT8)
    own = dict(small.named_parameters())
    exact = load_network(folder, device=torch.device("cpu"), dtype=torch.float32)
    last = f"layers.{folder.shape.layers - 1}."
    found_kinds = {
        name.rpartition(".")[2] for name, each in own.items() if each.dtype == torch.int8
    }
    assert found_kinds == {name.rpartition(".")[2] for name in own if name.endswith(MATRICES)}
    for name, parameter in kept.named_parameters():
        if name.rpartition(".")[2] in MATRICES and not name.startswith(last):
            flat = dict(exact.named_parameters())[name].flatten(0, -2)
            found = own[f"{name}_scale"].flatten(0, -2)
            numbers, scale = quantised(flat, found.shape[-1])
            assert torch.equal(own[name].flatten(0, -2), numbers)
            assert torch.equal(found, scale)
        else:
            assert torch.equal(own[name], parameter)
    assert len(own) == len(list(kept.parameters())) + sum("_scale" in name for name in own)


@pytest.mark.parametrize(
    ("name", "plain", "small"),
    [
        ("llada-8b", 16_031_162_368, 11_642_871_808),
        ("dream-7b", 15_231_233_024, 10_075_433_984),
        ("llada-moe-7b", 14_713_761_792, 9_051_451_392),
        ("llada2-mini", 32_511_296_512, 18_839_176_192),
    ],
)
def test_bytes_by_count(name: str, plain: int, small: int) -> None:
    """In bfloat16."""
    for scheme, wanted in ((Scheme.PLAIN, plain), (Scheme.INT8, small)):
        network = Transformer(
            shapes()[name].shape, scheme=scheme, device=torch.device("meta"), dtype=torch.bfloat16
        )
        assert sum(each.nbytes for each in network.parameters()) == wanted


@FAMILIES
def test_a_quantised_model_decodes(make: object, tmp_path: Path) -> None:
    model = load(make(tmp_path / "model"), device="cpu", dtype="float32", quantize="int8")  # type: ignore[operator]
    (done,) = model.generate([5, 6, 7], length=8)
    assert len(done.tokens) == 8
    assert done.full_passes + done.cached_passes + done.reused_passes == done.updates


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    folder = make_llada(tmp_path / "model")
    tensors(lambda held: held[QUANTISED][3, :2].fill_(torch.nan))(folder)
    with pytest.raises(BadModel, match="NaN or infinite"):
        load(folder, device="cpu", dtype="float32", quantize="int8")


@pytest.mark.parametrize("quantize", [None, "int8"])
@pytest.mark.parametrize(
    ("value", "fits", "refused"),
    [
        (1e5, "float32", "float16"),
        (65504 * 1.001, "float32", "float16"),
        (6e4, "float16", None),
    ],
)
def test_values_beyond_the_dtype_are_refused_in_eight_bits_too(
    quantize: str | None, value: float, fits: str, refused: str | None, tmp_path: Path
) -> None:
    folder = make_llada(tmp_path / "model")
    tensors(lambda held: held[QUANTISED][3, :2].fill_(value))(folder)
    model = load(folder, device="cpu", dtype=fits, quantize=quantize)
    assert all(each.isfinite().all() for each in model.network.parameters())
    if refused is not None:
        with pytest.raises(BadModel, match=f"too large for {refused}; load the model in float32"):
            load(folder, device="cpu", dtype=refused, quantize=quantize)


def test_values_without_a_scale_are_refused(tmp_path: Path) -> None:
    """Beyond what a scale can be, whatever the network computes in."""
    path, target = tmp_path / "weights.safetensors", torch.empty((1, 2), dtype=torch.int8)
    save_file({"x": torch.tensor([[1e300, 1.0]], dtype=torch.float64)}, path)
    copy = Copy("x", read_header(path)["x"], target, torch.empty((1, 1)), torch.float64)
    with pytest.raises(BadModel, match="too large for int8; load the model without quantize"):
        stream(path, [copy])


def test_another_quantisation_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="There is no quantisation 'int4' here"):
        load(tmp_path / "absent", quantize="int4")


def test_rows_longer_than_a_piece_are_quantised_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from archer.loading import weights

    folder = read_folder(make_llada(tmp_path / "model"))
    whole = load_network(
        folder, device=torch.device("cpu"), dtype=torch.float32, scheme=Scheme.INT8
    )
    monkeypatch.setattr(weights, "PIECE", 7)
    pieces = load_network(
        folder, device=torch.device("cpu"), dtype=torch.float32, scheme=Scheme.INT8
    )
    for one, other in zip(whole.parameters(), pieces.parameters(), strict=True):
        assert torch.equal(one, other)


def same_completions(numbers: slice) -> int:
    """How many dev problems of the bundled model get the same text in eight bits as in float32."""
    task = open_task("pocket-dev")
    asked = [list(sample.messages) for sample in task.samples()[numbers]]
    plain, small = (
        load("pocket", device="cpu", dtype="float32", quantize=quantize).generate(
            asked, length=task.length, batch=16
        )
        for quantize in (None, "int8")
    )
    return sum(one.text == other.text for one, other in zip(plain, small, strict=True))


@pytest.mark.parametrize(
    ("problems", "least"), [(4, 3), pytest.param(100, 95, marks=pytest.mark.slow)]
)
def test_most_completions_of_the_bundled_model_stay_the_same(problems: int, least: int) -> None:
    assert same_completions(slice(problems)) >= least


# --- products in whole numbers ------------------------------------------------------------------

WHOLE = pytest.mark.parametrize("scheme", [Scheme.W8A8, Scheme.W8A8_HEAD])


@FAMILIES
@WHOLE
def test_what_is_loaded_is_what_rounding_the_plain_network_makes(
    make: object, scheme: Scheme, tmp_path: Path
) -> None:
    """Bit by bit, logits included: from pieces or at once."""
    folder = read_folder(make(tmp_path / "model"))  # type: ignore[operator]
    cpu, kind = torch.device("cpu"), torch.float32
    loaded = load_network(folder, device=cpu, dtype=kind, scheme=scheme)
    plain = load_network(folder, device=cpu, dtype=kind)
    twin = kept_by(plain, scheme, packed=True)
    assert set(dict(loaded.named_parameters())) == set(dict(twin.named_parameters()))
    tokens = torch.arange(12) % folder.shape.vocabulary
    with torch.inference_mode():
        ours, theirs, exact = (
            each.score(hidden_states(each, each.embed(tokens)[None])[0])
            for each in (loaded, twin, plain)
        )
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, exact)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_head_that_is_the_embedding_is_rounded_from_it(shards: int, tmp_path: Path) -> None:
    folder = read_folder(make_a2d(tmp_path / "model", shards=shards))
    cpu, kind = torch.device("cpu"), torch.float32
    loaded = load_network(folder, device=cpu, dtype=kind, scheme=Scheme.W8A8_HEAD)
    plain = load_network(folder, device=cpu, dtype=kind)
    assert plain.head is plain.embedding
    twin = kept_by(plain, Scheme.W8A8_HEAD, packed=True)
    hidden = torch.randn((5, folder.shape.width), generator=torch.Generator().manual_seed(0))
    assert torch.equal(loaded.score(hidden), twin.score(hidden))
    assert torch.equal(loaded.embedding, plain.embedding)


@pytest.mark.parametrize("make", [make_llada, make_a2d, make_llada_moe])
def test_what_is_packed_is_read_before_the_rest(
    make: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packing takes a matrix once more: what is read later finds that memory free, the embedding at least."""
    read: list[str] = []

    def watched(path: Path, copies: Sequence[Copy], meanwhile: Any, filled: Any) -> None:
        def noted(copy: Copy) -> None:
            read.append(copy.parameter)
            filled(copy)

        stream(path, copies, meanwhile, noted)

    monkeypatch.setattr(checkpoint, "stream", watched)
    folder = read_folder(make(tmp_path / "model", shards=3))
    network = load_network(
        folder, device=torch.device("cpu"), dtype=torch.float32, scheme=Scheme.W8A8_HEAD
    )
    packed = [name in network.large() for name in read]
    assert packed == sorted(packed, reverse=True)
    assert {"head", *network.large()} <= set(read)
    assert not packed[read.index("embedding")]


@pytest.mark.parametrize(
    ("name", "plain", "layers", "head"),
    [
        ("llada-8b", 32_062_324_736, 11_130_126_336, 9_576_642_560),
        ("dream-7b", 30_462_466_048, 10_892_163_072, 9_257_779_200),
    ],
)
def test_bytes_of_whole_numbers_by_count(name: str, plain: int, layers: int, head: int) -> None:
    """In float32, which is what a processor computes in."""
    found = []
    for scheme in (Scheme.PLAIN, Scheme.W8A8, Scheme.W8A8_HEAD):
        network = Transformer(
            shapes()[name].shape, scheme=scheme, device=torch.device("meta"), dtype=torch.float32
        )
        found.append(sum(each.nbytes for each in network.parameters()))
    assert found == [plain, layers, head]


@pytest.mark.parametrize(
    "method", ["saber+archer", "confidence+dllm-cache", "confidence+dual", "archer-doubt"]
)
def test_methods_give_a_prompt_the_same_alone_and_in_company(method: str, tmp_path: Path) -> None:
    model = load(make_llada(tmp_path / "model"), device="cpu", quantize="w8a8-head")
    prompts = [[5, 6, 7], [9, 8, 7, 6, 5], [11]]
    together = model.generate(prompts, method, length=8, batch=3)
    for prompt, done in zip(prompts, together, strict=True):
        (alone,) = model.generate([prompt], method, length=8)
        assert alone.tokens == done.tokens
        assert alone.updates == done.updates


def test_a_row_that_is_not_finite_ends_alone(tmp_path: Path) -> None:
    model = load(make_llada(tmp_path / "model"), device="cpu", quantize="w8a8-head")
    sound = model.generate([[5, 6, 7]], "saber+archer", length=8)
    model.network.embedding.data[9] = torch.inf
    steps = list(model.stream([[5, 6, 7], [5, 9, 7]], "saber+archer", length=8))
    failed = [step for step in steps if step.errors]
    assert [list(step.errors) for step in failed] == [[1]]
    assert isinstance(failed[0].errors[1], NonFinite)
    assert steps[-1].after.result(0).tolist() == list(sound[0].tokens)


@WHOLE
def test_passes_in_whole_numbers_are_neither_compiled_nor_divided(scheme: Scheme) -> None:
    for how, what in (({"compiled": True}, "compiled"), ({"shards": 2}, "divided over shards")):
        wanted = rf"\({scheme.value}\) cannot be {what}. Leave out one of the two, or use int8"
        with pytest.raises(BadRequest, match=wanted):
            load("pocket", device="cpu", quantize=scheme.value, **how)


def test_values_that_are_not_finite_are_refused_in_whole_numbers_too(tmp_path: Path) -> None:
    folder = make_llada(tmp_path / "model")
    tensors(lambda held: held[QUANTISED][3, :2].fill_(torch.nan))(folder)
    with pytest.raises(BadModel, match="NaN or infinite"):
        load(folder, device="cpu", dtype="float32", quantize="w8a8")
