"""Executors: whoever completes the problems, the run is the same, each problem once, and losses are told."""

import json
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from rich.console import Console

from archer.errors import ArcherError, BadModel, RunBusy
from archer.loading.source import Source
from archer.methods.build import Choice
from archer.model import Model, load
from archer.runs.evaluation import evaluate
from archer.runs.executors import processes as processes_module
from archer.runs.executors.dispatch import (
    Declined,
    Dispatcher,
    Done,
    Lost,
    News,
    Ready,
    WorkersLost,
)
from archer.runs.executors.processes import ProcessPool
from archer.runs.executors.worker import Item, Order, OtherModel, Worker
from archer.runs.folder import MANIFEST, TRACES, Lock, Recorded
from archer.runs.manifest import model_identity
from archer.runs.records import SampleLine
from archer.tasks.base import Sample, user
from archer.terminal.meters import RunProgress
from runs.toy import Disturbed, Quiet, Stop, Toy, derived, order_of, results, toy_request, untimed
from support.run_folders import sample

pytestmark = pytest.mark.usefixtures("one_judge")


@pytest.fixture(scope="module")
def two(model: Model) -> Iterator[Dispatcher]:
    """Two processes that stay for all tests that do not disturb them."""
    with Dispatcher(ProcessPool(), order_of(model), 2) as executor:
        yield executor


def test_processes_make_the_same_run(
    model: Model, two: Dispatcher, unbroken: Path, tmp_path: Path
) -> None:
    """With the outline of a model alone: the driver computes nothing."""
    bare = Model.outline(Source(model.folder.path, device="cpu", dtype="float32"))
    heard = Quiet()
    request = toy_request(bare, device="cpu", traces=2)
    evaluate(request, tmp_path / "run", heard, executor=two)
    assert results(tmp_path / "run") == results(unbroken)
    assert derived(tmp_path / "run") == derived(unbroken)
    assert set(heard.workers.values()) <= {1, 2}
    assert heard.lines == []
    for trace in sorted((unbroken / TRACES).iterdir()):
        events = [
            [json.dumps(untimed(json.loads(line))) for line in path.read_text().splitlines()]
            for path in (trace, tmp_path / "run" / TRACES / trace.name)
        ]
        assert events[0] == events[1]
        assert len(events[0]) > 2


def test_a_run_goes_on_with_another_executor(
    model: Model, two: Dispatcher, unbroken: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(Stop):
        evaluate(toy_request(model), out, Disturbed(5))
    manifest = (out / MANIFEST).read_bytes()
    assert json.loads(manifest)["circumstances"]["executor"] == {"kind": "inline"}
    heard = Quiet()
    evaluate(toy_request(model), out, heard, executor=two)
    assert len(heard.samples) == Toy.size - 5
    assert (out / MANIFEST).read_bytes() == manifest
    assert results(out) == results(unbroken)
    assert derived(out) == derived(unbroken)


@pytest.mark.slow
def test_several_problems_at_a_time_in_a_worker(model: Model, tmp_path: Path) -> None:
    evaluate(toy_request(model, batch=3), tmp_path / "here", Quiet())
    with Dispatcher(ProcessPool(), order_of(model), 1) as executor:
        evaluate(toy_request(model, batch=3), tmp_path / "there", Quiet(), executor=executor)
    assert results(tmp_path / "there") == results(tmp_path / "here")


def test_a_killed_process_is_told_and_its_problem_done_again(
    model: Model, unbroken: Path, tmp_path: Path
) -> None:
    pool = ProcessPool()

    def kill(worker: int) -> None:
        os.kill(pool._running[worker].handle.pid, signal.SIGKILL)

    heard = Disturbed(2, kill)
    with Dispatcher(pool, order_of(model), 1) as executor:
        evaluate(toy_request(model), tmp_path / "run", heard, executor=executor)
    assert results(tmp_path / "run") == results(unbroken)
    (line,) = heard.lines
    assert line.startswith("Worker 1 was lost (killed by SIGKILL); problem")
    assert line.endswith("is done again.")


def test_a_worker_that_is_gone_takes_nothing(model: Model) -> None:
    """It was heard to be lost and nobody was told yet."""
    pool = ProcessPool()
    item = Item("a", "a", (1, 2), Choice("confidence", {"length": 4}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes_module, "COMMAND", (sys.executable, "-c", ""))
        for worker in (1, 2):
            pool.hire(worker, order_of(model, device="cpu"), 1)
        first = pool.news(60.0)
        while pool._running:
            pool._hear(next(iter(pool._running)))
        for worker in (1, 2):
            pool.give(worker, item)
        second = pool.news(60.0)
    pool.close()
    assert isinstance(first, Lost)
    assert isinstance(second, Lost)
    assert {first.worker, second.worker} == {1, 2}


def test_a_worker_that_never_starts_ends_the_run(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = (sys.executable, "-c", "import sys; sys.exit('no such luck')")
    monkeypatch.setattr(processes_module, "COMMAND", ends)
    with (
        Dispatcher(ProcessPool(), order_of(model), 1) as executor,
        pytest.raises(WorkersLost, match=r"ended 5 times .* exit code 1: no such luck"),
    ):
        evaluate(toy_request(model), tmp_path / "run", Quiet(), executor=executor)


def test_what_a_worker_refuses_ends_the_run(model: Model, tmp_path: Path) -> None:
    gone = order_of(model)
    gone = replace(gone, source=replace(gone.source, model=str(tmp_path / "gone")))
    with (
        Dispatcher(ProcessPool(), gone, 1) as executor,
        pytest.raises(ArcherError, match="There is no folder"),
    ):
        evaluate(toy_request(model), tmp_path / "run", Quiet(), executor=executor)


def test_a_worker_checks_its_model(model: Model) -> None:
    Worker(order_of(model, **model_identity(model)))
    wrong = model_identity(model, files=False) | {"dtype": "bfloat16"}
    with pytest.raises(OtherModel, match=r"dtype.*bfloat16.*float32"):
        Worker(order_of(model, **wrong))
    other = model_identity(model)
    other["files"]["config.json"] = "0"
    with pytest.raises(OtherModel, match=r"files\.config\.json"):
        Worker(order_of(model, **other))


def test_a_worker_refuses_what_the_model_cannot_take(model: Model) -> None:
    worker = Worker(order_of(model, **model_identity(model, files=False)))
    item = Item("a", "a", (1, 2), Choice("llada-confidence", {"length": 10**5}))
    with pytest.raises(ArcherError, match="positions"):
        worker.complete(item)


def test_eight_bits_are_part_of_what_a_model_is(model: Model) -> None:
    folder = model.folder.path
    small = load(folder, device="cpu", dtype="float32", quantize="int8")
    assert model_identity(small) == model_identity(model) | {"quantize": "int8"}
    bare = Model.outline(Source(folder, device="cpu", dtype="float32", quantize="int8"))
    assert model_identity(bare, device="cpu") == model_identity(small)
    with pytest.raises(OtherModel, match="quantize"):
        Worker(order_of(model, **model_identity(small)))


def test_an_outline_knows_all_but_the_weights(model: Model) -> None:
    bare = Model.outline(Source(model.folder.path, device="cuda"))
    assert bare.network.device.type == "meta"
    assert model_identity(bare, device="cuda")["dtype"] == "bfloat16"
    assert bare.encode("Well,") == model.encode("Well,")
    with pytest.raises(ArcherError, match="no kind of device 'abacus'"):
        Model.outline(Source(model.folder.path, device="abacus"))


def test_where_a_worker_finds_the_model(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder by its whole path, a hub id by its commit, so that every machine fetches the same."""
    monkeypatch.chdir(model.folder.path.parent)
    assert Source("model").pinned(model.folder).model == str(model.folder.path.resolve())
    pinned = Source("GSAI-ML/LLaDA-8B-Instruct").pinned(model.folder)
    assert pinned.revision == model.folder.path.name
    assert Source("pocket").pinned(model.folder) == Source("pocket")
    with pytest.raises(BadModel):
        Model.open(Source(str(tmp_path / "gone")))


class Scripted:
    """Workers that exist on paper: whatever is drawn happens to them."""

    kind = "scripted"
    checks_files = False

    def __init__(self, rng: Random, *, deadly: float = 0.0, silent: float = 0.0) -> None:
        self.rng, self.deadly, self.silent = rng, deadly, silent
        self.starting: deque[int] = deque()
        self.held: dict[int, list[Item]] = {}
        self.gone: deque[int] = deque()
        """Lost, and not told yet: whoever listens to several workers at once hears of several losses."""
        self.hires = 0
        self.most_held = 0

    def hire(self, worker: int, order: Order, threads: int) -> None:
        assert worker not in self.held
        self.hires += 1
        self.held[worker] = []
        self.starting.append(worker)

    def give(self, worker: int, item: Item) -> None:
        assert worker not in self.starting
        if worker in self.gone:
            return
        self.held[worker].append(item)
        self.most_held = max(self.most_held, len(self.held[worker]))

    def news(self, seconds: float) -> News | None:
        if self.rng.random() < self.silent:
            return None
        if self.gone:
            return Lost(self.gone.popleft(), "drawn with another")
        busy = [worker for worker, items in self.held.items() if items]
        if self.starting and (not busy or self.rng.random() < 0.5):
            return self._lost(self.starting.popleft(), 0.0) or Ready(self.ready)
        worker = self.rng.choice(busy)
        lost = self._lost(worker, self.deadly)
        if lost is not None:
            return lost
        item = self.held[worker].pop(0)
        return Done(worker, item.key, sample(0) | {"id": item.id})

    def _lost(self, worker: int, chance: float) -> Lost | None:
        if self.rng.random() < chance:
            del self.held[worker]
            standing = [each for each in self.held if each not in self.starting]
            for other in self.rng.sample(standing, self.rng.randint(0, len(standing))):
                del self.held[other]
                self.gone.append(other)
            return Lost(worker, "drawn")
        self.ready = worker
        return None

    def close(self) -> None:
        self.held.clear()
        self.starting.clear()
        self.gone.clear()


def dispatched(
    pool: Any, model: Model, problems: int, workers: int, batch: int = 1
) -> tuple[list[str], list[str]]:
    samples = [Sample(number, user("?"), "", {}) for number in range(problems)]
    prompts = {str(number): (1, 2, 3) for number in range(problems)}
    lines: list[str] = []
    with Dispatcher(pool, order_of(model), workers) as executor:
        found = list(
            executor.completions(
                toy_request(model, batch=batch), samples, prompts, {}, lines.append
            )
        )
    return [str(each.record.id) for each in found], lines


@given(
    seed=st.integers(0, 2**32),
    problems=st.integers(0, 30),
    workers=st.integers(1, 5),
    batch=st.integers(1, 3),
    deadly=st.sampled_from([0.0, 0.1, 0.2]),
)
def test_every_problem_is_done_once_whatever_happens(
    model: Model, seed: int, problems: int, workers: int, batch: int, deadly: float
) -> None:
    pool = Scripted(Random(seed), deadly=deadly, silent=0.1)
    try:
        done, lines = dispatched(pool, model, problems, workers, batch)
    except WorkersLost:  # five losses in turn over one problem, which end a run
        reject()
    assert sorted(done, key=int) == [str(number) for number in range(problems)]
    assert pool.most_held <= batch + 1
    lost = [line for line in lines if "was lost" in line]
    assert pool.hires == min(workers, -(-problems // batch)) + len(lost)


def test_a_problem_that_ends_every_worker_ends_the_run(model: Model) -> None:
    with pytest.raises(WorkersLost, match="5 workers were lost over problem 0"):
        dispatched(Scripted(Random(0), deadly=1.0), model, 3, 1)


def test_the_last_problems_do_not_wait_behind_others(model: Model) -> None:
    pool = Scripted(Random(1))
    dispatched(pool, model, 2, 2)
    assert pool.most_held == 1


def test_a_worker_that_never_starts_is_given_up_and_the_others_go_on(model: Model) -> None:
    class Lame(Scripted):
        """Its second worker never gets up."""

        def news(self, seconds: float) -> News | None:
            if 2 in self.starting:
                self.starting.remove(2)
                del self.held[2]
                return Lost(2, "lame")
            return super().news(seconds)

    pool = Lame(Random(6))
    done, lines = dispatched(pool, model, 6, 2)
    assert len(done) == 6
    assert lines[-1] == (
        "Worker 2 is not started again: it ended 5 times before it was ready, the last time: lame."
    )
    assert lines[0].endswith("it had no problem, and another one takes its place.")
    assert pool.hires == 1 + 5


def test_silence_without_a_worker_is_told(model: Model) -> None:
    class Late(Scripted):
        silences = 2

        def news(self, seconds: float) -> News | None:
            if self.silences:
                self.silences -= 1
                return None
            return super().news(seconds)

    done, lines = dispatched(Late(Random(2)), model, 2, 2)
    assert len(done) == 2
    assert lines == ["None of 2 workers has started yet; they wait for room or load."] * 2


def test_a_refusal_ends_the_run_and_its_workers(model: Model) -> None:
    class Strict(Scripted):
        def news(self, seconds: float) -> News | None:
            return Declined(1, "Not this one.")

    pool = Strict(Random(3))
    with pytest.raises(ArcherError, match="Not this one"):
        dispatched(pool, model, 2, 2)
    assert pool.held == {}


def test_a_second_run_in_the_folder_is_refused_before_a_worker_is_hired(
    model: Model, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    out.mkdir()
    lock = Lock(out)
    pool = Scripted(Random(4))
    with Dispatcher(pool, order_of(model), 2) as executor, pytest.raises(RunBusy):
        evaluate(toy_request(model), out, Quiet(), executor=executor)
    assert pool.hires == 0
    lock.release()


def test_a_run_that_is_broken_off_leaves_no_worker(model: Model, tmp_path: Path) -> None:
    pool = Scripted(Random(5))
    with Dispatcher(pool, order_of(model), 2) as executor:
        with pytest.raises(Stop):
            evaluate(toy_request(model), tmp_path / "run", Disturbed(1), executor=executor)
        assert pool.held == {}


def test_progress_tells_the_rows_of_each_worker() -> None:
    said: list[str] = []
    shown = RunProgress("toy", Console(file=StringIO()), said.append)
    shown.begun(20, Recorded({}, {}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("archer.terminal.meters.BETWEEN_LINES", 0.0)
        for worker in (1, 2, 2):
            shown.sampled(SampleLine(**sample(1)), worker)
        assert "by worker: 1 2" in said[-1]
        for worker in range(1, 8):
            shown.sampled(SampleLine(**sample(1)), worker)
        assert "7 workers: 1 to 3 each" in said[-1]
    shown.notice("Worker 2 was lost.")
    assert said[-1] == "toy: Worker 2 was lost."
