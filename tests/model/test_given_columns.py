"""Canvases with text given anywhere: every decoder with every cache, on drawn gaps."""

import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from archer.engine.walk import steps_of
from archer.errors import Stuck
from archer.methods.build import Method, build
from archer.methods.catalogue import DECODERS, POLICIES
from archer.methods.compatibility import Fit, matrix
from archer.passes.canvas import Prompt
from archer.request.fill import Fill
from archer.request.prepare import form_of
from archer.results.step import Kind, Step
from decoders.test_settled import BOLD
from support import naive
from support.networks import Backbone, backbone

NETS = {shift: backbone(shift, 3, torch.float64) for shift in (False, True)}
TABLE = matrix(DECODERS, POLICIES)
CACHES = {
    decoder: [cache for cache, fit in row.items() if fit is not Fit.NO]
    for decoder, row in TABLE.items()
}
"""Of each decoder those that it goes with."""
KEEPING = ("archer", "late", "surprise", "age")
"""Caches that keep the prompt and compute the whole response."""
MASK = NETS[False].mask


@dataclass(frozen=True)
class DrawnCanvas:
    """Ids in front, and a response with gaps."""

    prefix: tuple[int, ...]
    response: tuple[int | None, ...]

    @property
    def length(self) -> int:
        return self.response.count(None)

    @property
    def is_given(self) -> list[bool]:
        """Of every column."""
        return [True] * len(self.prefix) + [token is not None for token in self.response]

    def prompt(self, **more: Any) -> Prompt:
        options: dict[str, Any] = {"eos": (1,), "ends": (1, 2)} | more
        return Prompt.of(self.prefix, MASK, given=self.response, **options)


@st.composite
def canvases(draw: st.DrawFn, most: int = 8) -> DrawnCanvas:
    ids = st.integers(3, 40)
    prefix = draw(st.lists(ids, min_size=1, max_size=5))
    response: list[int | None] = []
    for _ in range(draw(st.integers(1, 3))):
        response += [None] * draw(st.integers(1, most // 2))
        response += draw(st.lists(ids, min_size=1, max_size=4))
    if draw(st.booleans()):
        response += [None] * draw(st.integers(1, most // 2))
    return DrawnCanvas(tuple(prefix), tuple(response))


def drawn_method(draw: st.DrawFn, decoder: str, cache: str, length: int) -> Method:
    chosen: dict[str, Any] = {
        key: draw(st.sampled_from(values)) for key, values in BOLD.get(decoder, {}).items()
    }
    chosen |= {"length": length, "temperature": draw(st.sampled_from([0.0, 0.0, 1.0]))}
    chosen["guidance"] = draw(st.sampled_from([0.0, 0.0, 0.5]))
    chosen["eos"] = draw(st.sampled_from(["none", "none", "logits", "confidence"]))
    if "n" in chosen:
        chosen["n"] = max(min(chosen["n"], length), 2)
    if TABLE[decoder][cache] is Fit.ONE_BLOCK and "block" in DECODERS[decoder].settings:
        chosen["block"] = length
    return build(f"{decoder}+{cache}", chosen)


def run(net: Backbone, method: Method, prompt: Prompt) -> list[Step[Any]]:
    """All steps; a rule that edits for ever is left at its limit."""
    done: list[Step[Any]] = []
    with contextlib.suppress(Stuck):
        for step in steps_of(net.network, method, method.decoder.start(prompt, method.length)):
            done.append(replace(step, memory=step.memory.without_store()))
    return done


def told(steps: Sequence[Step[Any]]) -> list[Any]:
    """What was written, update by update."""
    return [step.record.response.tolist() for step in steps]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("examples", [12, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("decoder", list(CACHES))
def test_what_is_given_is_never_written_nor_read(decoder: str, examples: int) -> None:
    @settings(max_examples=examples)
    @given(canvas=canvases(), shift=st.booleans(), data=st.data())
    def holds(canvas: DrawnCanvas, shift: bool, data: st.DataObject) -> None:
        net = NETS[shift and decoder != "wino"]
        cache = data.draw(st.sampled_from(CACHES[decoder]))
        method = drawn_method(data.draw, decoder, cache, canvas.length)  # type: ignore[arg-type]
        fixed = np.array(canvas.is_given)
        first = [*canvas.prefix, *(MASK if t is None else t for t in canvas.response)]
        steps = run(net, method, canvas.prompt(samples=2, seed=1))
        assert steps
        for step in steps:
            asked = step.canvas
            columns = len(fixed)
            assert not asked.reads[:, :columns][:, fixed].any()
            lanes = asked.rows // len(step.rows)
            assert (asked.tokens[::lanes, :columns][:, fixed] == np.array(first)[fixed]).all()
            whole = step.record.response
            behind = fixed[len(canvas.prefix) :]
            assert (whole[:, behind] == np.array(first)[len(canvas.prefix) :][behind]).all()
            assert step.after.response.shape[1] == canvas.length
            for row, call in enumerate(step.calls):
                if cache in KEEPING and call.kind is Kind.CACHED:
                    most = asked.revisable()[row * lanes].sum() + net.shift * canvas.length
                    assert call.fed <= lanes * most
        if decoder != "editing":
            assert steps[-1].after.done.all()
            assert not (steps[-1].record.response == MASK).any()

    holds()


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("decoder", "shift"),
    [(name, shift) for name in CACHES for shift in (False, True) if not (name == "wino" and shift)],
)
def test_a_radius_of_one_is_eager(decoder: str, shift: bool) -> None:
    @settings(max_examples=3)
    @given(canvas=canvases())
    def holds(canvas: DrawnCanvas) -> None:
        length = {"length": canvas.length}
        steps = [
            run(NETS[shift], build(f"{decoder}+{cache}", length), canvas.prompt(seed=2))
            for cache in ("eager", "archer:1", "age:1")
        ]
        assert told(steps[0]) == told(steps[1]) == told(steps[2])

    holds()


@pytest.mark.parametrize("shift", [False, True])
@given(canvas=canvases())
@settings(max_examples=20)
def test_a_full_pass_has_the_logits_of_the_whole_text(shift: bool, canvas: DrawnCanvas) -> None:
    """A cached one has those of a text whose given columns come from the anchor."""
    net = NETS[shift]
    anchor: torch.Tensor | None = None
    gaps = np.flatnonzero(~np.array(canvas.is_given))
    for step in run(net, build("confidence+archer:3", {"length": canvas.length}), canvas.prompt()):
        tokens = torch.from_numpy(step.canvas.tokens[0])
        if step.calls[0].kind is Kind.FULL:
            anchor = tokens
            raw, _ = naive.forward(net.network, tokens)
        else:
            assert anchor is not None
            raw = mixed_pass(net, anchor, tokens, gaps)
        read = gaps[list(step.logits.rows[0].places)]
        expected = raw[torch.from_numpy(read) - int(shift)]
        assert torch.allclose(step.logits.rows[0].values, expected, atol=1e-9)


def mixed_pass(
    net: Backbone, anchor: torch.Tensor, tokens: torch.Tensor, gaps: np.ndarray[Any, Any]
) -> torch.Tensor:
    """[L, V]: keys and values of given columns from the anchor, all else from these tokens.

    A shifted model computes the left neighbour of each open column, too.
    """
    held = torch.ones(len(tokens), dtype=torch.bool)
    held[torch.from_numpy(gaps)] = False
    if net.shift:
        held[torch.from_numpy(gaps) - 1] = False
    _, old = naive.forward(net.network, anchor)
    return naive.forward(net.network, tokens, held=(held, old))[0]


@pytest.mark.parametrize("examples", [3, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("decoder", list(CACHES))
def test_a_gap_with_nothing_behind_it_is_generation(decoder: str, examples: int) -> None:
    """The same keys, the same canvas, the same text with every cache, at a temperature, too."""

    @settings(max_examples=examples)
    @given(canvas=canvases(), behind=st.integers(2, 6), shift=st.booleans(), data=st.data())
    def holds(canvas: DrawnCanvas, behind: int, shift: bool, data: st.DataObject) -> None:
        prefix = (*canvas.prefix, *(token for token in canvas.response if token is not None))
        options: dict[str, Any] = {"seed": data.draw(st.integers(0, 3)), "eos": (1,)}
        plain = Prompt.of(prefix, MASK, **options)
        gap = Prompt.of(prefix, MASK, given=[None] * behind, **options)
        assert plain.keys == gap.keys
        assert gap.gaps is None
        assert canvas.prompt(**options).keys != plain.keys
        net = NETS[shift and decoder != "wino"]
        cache = data.draw(st.sampled_from(CACHES[decoder]))
        method = drawn_method(data.draw, decoder, cache, behind)  # type: ignore[arg-type]
        assert told(run(net, method, plain)) == told(run(net, method, gap))

    holds()


@given(canvas=canvases())
def test_gaps_far_apart_are_the_canvas_of_all(canvas: DrawnCanvas) -> None:
    """Given as texts with gaps between them, or as one response with holes: the same question."""
    fill = Fill.of_ids([*canvas.prefix, *canvas.response])
    lengths, searched = fill.sizes(1, 1)
    assert not searched
    form = form_of(fill, None, None, (lengths, ()), healing=True, allow_special=False)
    assert (form.prefix, form.given or ()) == (canvas.prefix, canvas.response)
    assert sum(lengths) == canvas.length
    one, two = (Prompt.of(form.prefix, MASK, given=each) for each in (form.given, canvas.response))
    method = build("archer:3", {"length": canvas.length})
    assert told(run(NETS[False], method, one)) == told(run(NETS[False], method, two))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("decoder", list(CACHES))
def test_a_restricted_column_holds_nothing_else(decoder: str) -> None:
    """Under every decoder and cache, at any time, drawn or not: in the first column and in the last."""

    @settings(max_examples=8)
    @given(canvas=canvases(), shift=st.booleans(), data=st.data())
    def holds(canvas: DrawnCanvas, shift: bool, data: st.DataObject) -> None:
        net = NETS[shift and decoder != "wino"]
        source = random.Random(data.draw(st.integers(0, 99)))
        cache = data.draw(st.sampled_from(CACHES[decoder]))
        method = drawn_method(data.draw, decoder, cache, canvas.length)  # type: ignore[arg-type]
        allowed = {
            at: torch.tensor(sorted(source.sample(range(3, 40), source.choice([1, 2, 5]))))
            for at in {0, canvas.length - 1}
        }
        for step in run(net, method, canvas.prompt(samples=2, allowed=allowed)):
            for at, ids in allowed.items():
                found = set(step.after.response[:, at].tolist()) - {MASK}
                assert found <= set(ids.tolist())

    holds()


def test_a_length_that_is_not_that_of_the_gaps_is_refused() -> None:
    method = build("saber", {"length": 4})
    with pytest.raises(ValueError, match="has 2 tokens to fill, and the length is 4"):
        method.decoder.start(Prompt.of([3], MASK, given=[None, 4, None]), 4)
