"""Ready for a device that is not here: passes without data, one read per update, shapes that stay."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from archer.engine.walk import Walk, steps_of
from archer.methods.build import Method, build
from archer.methods.catalogue import METHODS
from archer.network.network import Transformer
from archer.network.pieces import compiled
from archer.passes.canvas import Prompt
from archer.passes.forward import Inputs, Question, compute, run
from archer.passes.memory import Memory, Store
from archer.passes.reduction import _summits_anywhere, packed, to_host
from archer.policies.prompt_cache import Age, Archer
from archer.policies.surprise import Surprise
from archer.results.step import Kind
from support.networks import Backbone, backbone

READS = {
    torch.ops.aten.nonzero.default,
    torch.ops.aten.masked_select.default,
    torch.ops.aten.equal.default,
    torch.ops.aten._unique2.default,
    torch.ops.aten.repeat_interleave.Tensor,
}
"""Operations that make the host wait for a device because a size depends on data."""
BY_NAME = (
    "numpy",
    "tolist",
    "cpu",
    "__array__",
    "item",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
)
"""Ways to the host that are no operations, or are not seen as such in inference mode."""
CHOOSING = {
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put_.default,
    torch.ops.aten.index_put.default,
}
"""Operations that do so where they are given a mask instead of an index."""
PROMPTS = [[1, 2, 3, 4, 5], [6, 7, 8]]
PROMPT, LENGTH = 5, 16
NOTHING: Mapping[str, Any] = {}
OTHERS = ("wino", "remdm", "saber-dream", "entropy-bound+eager")
"""Decoders that look at more than the likeliest token."""
DRAWING = ("dream", "remdm-sampling")
"""Decoders whose schedule or chance is made by torch on the host, which looks like a read."""


class Watch(TorchDispatchMode):
    """Counts reads of data by the host."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reads = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        chosen = args[1] if func in CHOOSING else ()
        by_data = any(isinstance(each, Tensor) and each.dtype == torch.bool for each in chosen)
        self.reads += func in READS or by_data
        return func(*args, **(kwargs or {}))


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Also what is no operation."""
    watch = Watch()

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            watch.reads += 1
            return method(*args, **kwargs)

        return call

    with monkeypatch.context() as patch, watch:
        for name in BY_NAME:
            patch.setattr(Tensor, name, counted(getattr(Tensor, name)))
        yield watch


def method_and_start(
    model: Backbone, method: str, settings: Mapping[str, Any] = NOTHING
) -> tuple[Method, Any]:
    made = build(method, {"length": LENGTH, **settings})
    return made, made.decoder.start(Prompt.of(PROMPTS[0], model.mask, samples=len(PROMPTS)), LENGTH)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        lambda x: x.sum().item(),
        lambda x: int(x.max()),
        lambda x: bool(x.any()),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x.tolist(),
        lambda x: x.numpy(force=True),
    ],
)
def test_reads_are_seen(
    line: Callable[[Any], Any], inference: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = torch.ones(3)
    with watched(monkeypatch) as watch, torch.inference_mode(inference):
        values + values
        assert watch.reads == 0
        line(values)
    assert watch.reads == 1


@pytest.mark.thinned(3)
@pytest.mark.parametrize("method", [*METHODS, *OTHERS])
@pytest.mark.parametrize("settings", [{}, {"guidance": 1.0}])
def test_the_host_reads_once_per_update(
    method: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens, confidences and whether they are finite come together, as they would from a device.

    A rule that asks what an anchor expected reads that once more, for all rows together.
    """
    for module in ("passes.logits", "policies.surprise"):
        monkeypatch.setattr(f"archer.{module}.to_host", packed)
    monkeypatch.setattr("archer.passes.reduction._summits_at_hand", _summits_anywhere)
    model = backbone()
    made, state = method_and_start(model, method, settings)
    made.decoder.canvas(state)
    asks = isinstance(made.policy, Surprise)
    with watched(monkeypatch) as watch:
        allowed = 0
        for step in steps_of(model.network, made, state):
            allowed += 1 + (asks and any(call.kind is Kind.FULL for call in step.calls))
            assert watch.reads <= allowed
    assert watch.reads > 1


@pytest.mark.parametrize("method", [*METHODS, *OTHERS, *DRAWING])
def test_a_decoder_asks_for_all_it_reads_at_once(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfers = []

    def counted(*tensors: Tensor) -> list[NDArray[Any]]:
        transfers.append(len(tensors))
        return to_host(*tensors)

    monkeypatch.setattr("archer.passes.logits.to_host", counted)
    model = backbone()
    made, state = method_and_start(model, method)
    updates = len(list(steps_of(model.network, made, state)))
    assert len(transfers) == updates > 1
    assert min(transfers) >= 3


def test_what_was_packed_is_what_was_there() -> None:
    tensors = (
        torch.tensor([[2**53 - 1, -7]]),
        torch.tensor([True, False, True]),
        torch.tensor([0.1, -torch.inf]),
        torch.tensor([[0.1], [torch.nan]], dtype=torch.float64),
    )
    for alone, together in zip(to_host(*tensors), packed(*tensors), strict=True):
        assert alone.dtype == together.dtype
        assert np.array_equal(alone, together, equal_nan=alone.dtype == np.float64)


def tokens_of(
    network: Transformer, method: Method, state: Any, *, compiled: bool = False
) -> tuple[list[Kind], list[list[int]]]:
    """Kinds of pass of the first row, and the last response of both."""
    kinds, response = [], {}
    network.compiled = compiled
    for step in steps_of(network, method, state):
        kinds.append(step.calls[0].kind)
        for index, row in enumerate(step.rows):
            response[row] = step.after.response[index].tolist()
    return kinds, [response[row] for row in sorted(response)]


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Graphs of other tests do not count, and none is left behind."""
    torch._dynamo.reset()
    counters.clear()
    compiled.cache_clear()
    yield
    compiled.cache_clear()
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_pieces_serve_all_lengths_with_a_few_graphs() -> None:
    """Torch's own compiler, 40 prompt lengths and 3 response lengths: the tokens of the plain pass."""
    model = backbone()
    for length in (4, 6, 8):
        made = build("archer", {"length": length, "radius": 3})
        for prompt in range(1, 41):
            ids = [(7 * prompt + at) % 40 for at in range(prompt)]
            start = made.decoder.start(Prompt.of(ids, model.mask), length)
            found = [tokens_of(model.network, made, start, compiled=c) for c in (False, True)]
            assert found[0] == found[1]
    assert 4 <= counters["stats"]["unique_graphs"] <= 12


@pytest.mark.thinned(6)
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("method", [*METHODS, *OTHERS])
def test_every_method_runs_on_traced_pieces(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a graph break; the graphs are run as they are."""
    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", partial(compiler, backend="eager"))
    model = backbone()
    made, start = method_and_start(model, method)
    plain = tokens_of(model.network, made, start)
    assert tokens_of(model.network, made, start, compiled=True) == plain


@pytest.mark.parametrize("kind", ["full", "cached"])
def test_a_pass_can_be_recorded_and_replayed_with_other_tokens(kind: str) -> None:
    """What a CUDA graph needs: no look at data, inputs and store where they were.  Untried on CUDA itself."""
    model = backbone()
    made = build("archer", {"length": LENGTH})
    start = made.decoder.start(Prompt.of(PROMPTS[0], model.mask), LENGTH)
    walk = Walk(model.network, Method(made.decoder, Archer(float("inf"))), start)
    if kind == "cached":
        walk.advance(run(model.network, [_part(walk)])[0])
    inputs = Inputs.of([_part(walk)], model.network.device)

    def recorded(tokens: Tensor) -> Tensor:
        return compute(model.network, replace(inputs, tokens=tokens))

    graph = make_fx(recorded, tracing_mode="real")(inputs.tokens)
    store = walk.memory.store
    addresses = store.keys.data_ptr(), store.values.data_ptr()
    other = (inputs.tokens + 1) % model.mask
    replayed = graph(other)
    keys = store.keys.clone()
    assert torch.equal(replayed, recorded(other))
    assert torch.equal(keys, store.keys)
    assert (store.keys.data_ptr(), store.values.data_ptr()) == addresses
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert compute(model.network, inputs).shape == replayed.shape


def _part(walk: Walk) -> Question:
    part = walk.wants
    assert part is not None
    return part


def unread(*tensors: Tensor) -> list[NDArray[Any]]:
    """Stands for the one read: everything is finite, and nothing likely."""
    return [
        torch.full_like(tensor, 9 if tensor.is_floating_point() else 1, device="cpu").numpy()
        for tensor in tensors
    ]


@pytest.mark.parametrize("method", METHODS)
def test_a_step_makes_all_its_tensors_on_the_device_of_the_network(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the meta device there is no data, and a tensor made elsewhere does not go with those there."""
    nowhere = torch.device("meta")
    model = backbone()
    made = build(method, {"length": LENGTH})
    state = made.decoder.start(Prompt.of(PROMPTS[0], model.mask, samples=len(PROMPTS)), LENGTH)
    for module in ("passes.logits", "policies.surprise"):
        monkeypatch.setattr(f"archer.{module}.to_host", unread)
    steps = steps_of(Transformer(model.network.shape, device=nowhere), made, state)
    first, second = next(steps), next(steps)
    for step in (first, second):
        assert {row.values.device for row in step.logits.rows} == {nowhere}
    assert first.work.scored == int(first.canvas.reads[0].sum()), "samples share their first pass"


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_kept_keys_and_values_grow_with_the_formula_alone(rows: int) -> None:
    """2 x layers x rows x KV x columns x D numbers, and nothing else is kept of a pass."""
    model = backbone()
    shape = model.network.shape
    made = build("saber+age:4", {"length": LENGTH})
    state = made.decoder.start(Prompt.of([1, 2, 3], model.mask, samples=rows), LENGTH)
    steps = list(steps_of(model.network, Method(made.decoder, Age(4)), state))
    numbers = 2 * shape.layers * rows * shape.kv_heads * (3 + LENGTH) * shape.head_dim
    for step in steps:
        memory: Memory = step.memory
        store: Store = memory.store
        assert store.keys.nbytes + store.values.nbytes == 4 * numbers
        assert store.features == {}
    addresses = {step.memory.store.keys.data_ptr() for step in steps}
    assert len(addresses) == 1
