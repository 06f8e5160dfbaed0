"""Every option of every call at values that nobody means: an error of ours at once, or a result soon."""

import itertools
import time
import tracemalloc
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import pytest

from archer.engine.engine import Engine
from archer.engine.job import Options
from archer.errors import ArcherError, quoted
from archer.model import Model, load
from archer.request.fill import Fill
from archer.request.options import GenerateOptions
from support.extremes import LENGTH, VALUES
from support.folders import make_llada

SECONDS = 0.05
BYTES = 10 << 20
TRIES = 5
LONGEST_SENTENCE = 2000
IDS = [3, 1, 4]
NEVER = {"self", "prompts", "texts", "model", "clock", "observer", "settings", "options", "request"}
"""What is no number or text of a user's, and what has a sweep of its own."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(make_llada(tmp_path_factory.mktemp("llada")), device="cpu", dtype="float64")


def named(call: Callable[..., Any]) -> set[str]:
    """The keywords that a call declares."""
    plain = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return {p.name for p in signature(call).parameters.values() if p.kind in plain} - NEVER


def engine_of(model: Model, **options: Any) -> None:
    with Engine(model, **options) as engine:
        engine.submit(IDS, length=LENGTH).result(timeout=60)


def submitted(model: Model, **options: Any) -> None:
    engine = Engine(model)
    asked = {"length": LENGTH} | options
    engine.submit(IDS, **asked).result()


CALLS: dict[str, tuple[set[str], Callable[..., object]]] = {
    "generate": (
        {*GenerateOptions.__annotations__, *named(Model.generate)} - NEVER,
        lambda model, **option: model.generate([IDS], **{"length": LENGTH} | option),
    ),
    "fill": (
        {"length", "max_length", "gap", "n", "curve"},
        lambda model, **option: model.generate(Fill((IDS, IDS)), **option),
    ),
    "gap": (
        {"length", "prompt"},
        lambda model, **option: model.generate(Fill((IDS, IDS), **option), max_length=LENGTH),
    ),
    "score": (named(Model.score), lambda model, **option: model.score([IDS], [IDS], **option)),
    "engine": (named(Engine.__init__), engine_of),
    "submit": (named(Options), submitted),
}
CASES = [
    (call, name, value)
    for call, (names, _) in CALLS.items()
    for name, value in itertools.product(sorted(names), VALUES)
]


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("call", CALLS)
def test_options_are_refused_at_once_or_carried_out(model: Model, call: str, every: int) -> None:
    _, carried_out = CALLS[call]
    cases = [(name, value) for own, name, value in CASES if own == call]
    assert len(cases) >= len(VALUES)
    for name, value in cases[::every]:
        where = (call, name, quoted(value))
        spent: list[float] = []
        while not spent or (spent[-1] >= SECONDS and len(spent) < TRIES):
            tracemalloc.start()
            began, sentence = time.thread_time(), ""
            try:
                carried_out(model, **{name: value})
            except ArcherError as error:
                sentence = str(error)
            except Exception as error:
                raise AssertionError(where) from error
            finally:
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
            spent.append(time.thread_time() - began)
            if not sentence:
                break
            assert len(sentence) < LONGEST_SENTENCE, where
            assert peak < BYTES, where
        assert not sentence or min(spent) < SECONDS, where


def test_the_sweep_has_every_option() -> None:
    assert len(CASES) > 1500
    assert {"n", "batch", "memory", "stop", "draws", "timeout", "waiting", "budget", "curve"} <= {
        name for _, name, _ in CASES
    }
