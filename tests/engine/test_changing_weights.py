"""New weights while requests run: each is decoded by one version from its first update to its last."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from archer.engine.handle import Handle, Listener
from archer.engine.turns import Running
from archer.errors import BadRequest
from archer.model import Model, load
from archer.results.completion import Completion
from archer.results.step import Step
from support.folders import make_llada
from support.pairs import ids

METHODS = ("archer", "llada-confidence", "fast-dllm-cache", "dllm-cache", "entropy-bound")
VERSIONS = 3


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    where = tmp_path_factory.mktemp("versions")
    return [
        make_llada(where / str(seed), seed=seed, tokenizer=True) for seed in range(VERSIONS + 1)
    ]


@pytest.fixture
def model(folders: Sequence[Path]) -> Model:
    return load(folders[0], device="cpu", dtype="float64")


def asked(number: int) -> dict[str, Any]:
    draw = random.Random(number)
    return {
        "prompt": ids(draw.randrange(1000), draw.randint(2, 6)),
        "method": draw.choice(METHODS),
        "length": draw.choice((4, 8)),
        "seed": number,
        "temperature": draw.choice((0.0, 0.7)),
    }


def alone(model: Model, number: int) -> tuple[int, ...]:
    options = asked(number)
    (done,) = model.generate(options.pop("prompt"), options.pop("method"), **options)
    return done.tokens


@pytest.mark.parametrize("requests", [40, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("running", ["finish", "restart"])
def test_nobody_gets_a_mixture_of_versions(
    model: Model, folders: Sequence[Path], running: Running, requests: int
) -> None:
    plain = [load(folder, device="cpu", dtype="float64") for folder in folders]
    handles: list[Handle] = []
    with model.engine(budget=64, memory=300_000) as engine:
        engine.start()

        def submit() -> None:
            for number in range(requests):
                handles.append(engine.submit(**asked(number)))

        thread = threading.Thread(target=submit)
        thread.start()
        for version in range(1, VERSIONS + 1):
            while sum(handle.done for handle in handles) < version * requests // (VERSIONS + 2):
                time.sleep(0.001)
            assert model.update_weights(folders[version], running=running) == version
        thread.join()
        found = [handle.result(60) for handle in handles]
    versions = [done.weights_version for done in found]
    assert len(set(versions)) > 1
    for number, done in enumerate(found):
        assert done.tokens == alone(plain[done.weights_version], number), number


def test_what_runs_is_finished_first_and_what_waits_is_not(
    model: Model, folders: Sequence[Path]
) -> None:
    engine = model.engine(memory=200_000)
    first = engine.submit(ids(1, 4), "llada-confidence", length=8)
    engine.turn()
    second = engine.submit(ids(2, 4), "llada-confidence", length=8)
    model.update_weights(folders[1])
    assert first.done
    assert not second.done
    assert (first.result().weights_version, second.result().weights_version) == (0, 1)


def test_what_runs_begins_anew_unless_somebody_watches(
    model: Model, folders: Sequence[Path]
) -> None:
    heard: list[int] = []

    class Watching(Listener):
        def stepped(self, step: Step[Any]) -> None:
            heard.append(step.index)

    engine = model.engine()
    quiet = engine.submit(ids(1, 4), "llada-confidence", length=12)
    watched = engine.submit(ids(2, 4), "llada-confidence", length=12, listener=Watching())
    read = engine.submit(ids(3, 4), "llada-confidence", length=12)
    steps = iter(read)
    next(steps)
    engine.turn()
    model.update_weights(folders[1], running="restart")
    assert watched.done
    assert read.done
    assert not quiet.done
    versions = [each.result().weights_version for each in (quiet, watched, read)]
    assert versions == [1, 0, 0]
    assert heard == list(range(len(heard)))
    assert len(list(steps)) == read.result().updates - 1
    fresh = load(folders[1], device="cpu", dtype="float64")
    (wanted,) = fresh.generate(ids(1, 4), "llada-confidence", length=12)
    assert (quiet.result().text, quiet.result().updates) == (wanted.text, wanted.updates)


def test_a_gap_is_searched_for_again(model: Model, folders: Sequence[Path]) -> None:
    fresh = load(folders[1], device="cpu", dtype="float64")
    (wanted,) = fresh.infill("for x in", "print(x)", "saber", length="search", max_length=12)
    engine = model.engine()
    handle = engine.submit(
        "for x in", "saber", suffix="print(x)", chat=False, length="search", max_length=12
    )
    engine.turn()
    model.update_weights(folders[1], running="restart")
    found = handle.result()
    assert (found.tokens, found.weights_version) == (wanted.tokens, 1)


def test_an_update_that_waits_too_long_leaves_everything_as_it_was(
    model: Model, folders: Sequence[Path]
) -> None:
    engine = model.engine()
    handle = engine.submit(ids(1, 4), "llada-confidence", length=12)
    engine.turn()
    with pytest.raises(TimeoutError, match='say running="restart"'):
        model.update_weights(folders[1], timeout=1e-9)
    assert handle.result().weights_version == 0
    with pytest.raises(BadRequest, match="can finish or restart"):
        model.update_weights(folders[1], running="stop")  # type: ignore[arg-type]


def test_a_listener_cannot_change_the_weights(model: Model, folders: Sequence[Path]) -> None:
    told: list[str] = []

    class Changing(Listener):
        def finished(self, completions: Sequence[Completion]) -> None:
            try:
                model.update_weights(folders[1])
            except BadRequest as error:
                told.append(str(error))

    with model.engine(budget=64) as engine:
        engine.start()
        engine.submit(ids(1, 4), length=4, listener=Changing()).result(30)
    assert told
    assert "middle of a turn" in told[0]


def test_a_request_that_was_swapped_out_counts_as_running(
    model: Model, folders: Sequence[Path]
) -> None:
    engine = model.engine()
    jobs = [engine.submit(ids(seed, 4), "archer", length=8) for seed in range(3)]
    engine.turn()
    assert engine._turns._swap_one_out()
    model.update_weights(folders[1])
    assert [each.result().weights_version for each in jobs] == [0, 0, 0]
