"""What a fault, an interrupt, too little memory or an absent reader may do to a request, and what not."""

import json
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from archer.engine import engine as engines
from archer.engine.batch import Batch
from archer.engine.engine import Engine
from archer.engine.footprint import readable
from archer.engine.handle import Observer, PassRecord
from archer.engine.job import MOST_UNREAD, Job
from archer.engine.turns import RECOVERY
from archer.errors import BadRequest, Cancelled, OutOfMemory, PassFailed
from archer.methods.build import build
from archer.model import Model, load
from archer.passes.forward import Question
from archer.passes.memory import Store
from archer.results.step import Step
from engine.breaking import failing, failing_at, failing_halfway, watching
from engine.mixes import Drawn, backbone, record
from engine.mixes import alone as walked_alone
from support.folders import make_llada
from support.pairs import alone, by_the_loop, ids, same

GUILTY = 250
"""A token that only the request which is to fail has."""


def guilty(parts: Sequence[Question]) -> bool:
    return any((part.canvas.tokens == GUILTY).any() for part in parts)


@pytest.mark.parametrize("steps", [12, 40])
def test_updates_that_reuse_logits_are_counted_to_the_last(model: Model, steps: int) -> None:
    """More steps than tokens: the walk ends by several reused steps in one turn."""
    options: dict[str, Any] = {"length": 4, "steps": steps}
    (found,) = model.generate([30, 40, 50, 60], "llada-confidence", **options)
    assert found.updates == steps
    assert found.reused_passes == steps - found.full_passes > 0
    assert same(found, alone(model, [30, 40, 50, 60], "llada-confidence", **options))


def test_a_request_that_was_swapped_out_is_filled_again_however_often_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = backbone(False)
    drawn = [Drawn(build("confidence+archer:4", {"length": 8}), (3, at), 1, 0) for at in (4, 5)]
    batch: Batch[int] = Batch(net.network)
    for tag, request in enumerate(drawn):
        batch.walks[tag] = request.walk(net)
    rebuilt = []

    def first_fails(parts: Sequence[Question]) -> None:
        if not any(part.canvas.reads.any() for part in parts):
            rebuilt.append(len(parts))
            if len(rebuilt) == 1:
                raise RuntimeError("a kernel failed")

    watching(monkeypatch, first_fails)
    found: list[Any] = [[], []]
    for turn in range(8):
        if turn == 2:
            batch.walks[1].swap_out()
        made = batch.turn((0, 1), lambda: False)
        assert made.failed == {}
        for tag, step in made.steps:
            found[tag].append(record(step))
    assert found == [walked_alone(request, net) for request in drawn]
    assert rebuilt == [1, 1]


def test_a_shortage_of_memory_passes(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    short = [False]

    def once(parts: Sequence[Question]) -> bool:
        now, short[0] = short[0], False
        return now

    failing(monkeypatch, once, torch.OutOfMemoryError("no memory"))
    each = model.engine().submit(ids(1, 4), "confidence+archer:3", length=12)._job.bytes
    engine = model.engine(memory=4 * each)
    asked = [engine.submit(ids(at, 4), "confidence+archer:3", length=12) for at in range(3)]
    engine.turn()
    short[0] = True
    engine.turn()
    assert engine.status().bytes_limit == 2 * each
    engine.turn()
    assert engine.status().bytes_limit == 2 * each + 4 * each // RECOVERY
    large = engine.submit(ids(4, 30), "archer", length=12)
    assert 2 * each < large._job.bytes < 4 * each
    assert all(handle.result().tokens for handle in (*asked, large))
    engine.submit(ids(5, 4), length=12)
    engine.turn()
    assert engine.status().bytes_limit == 4 * each


def test_bytes_are_told_as_people_say_them(model: Model) -> None:
    assert [readable(n) for n in (999, 16_384, 467_000_000, 9_470_000_000)] == [
        "999 bytes",
        "16.4 kB",
        "467 MB",
        "9.47 GB",
    ]
    with pytest.raises(BadRequest, match=r"needs [\d.]+ kB .* hold 1 kB in all"):
        model.engine(memory=1000).submit(ids(1, 3), length=8)


@pytest.mark.parametrize(
    ("error", "told"),
    [(RuntimeError("a kernel failed"), PassFailed), (torch.OutOfMemoryError("x"), OutOfMemory)],
)
def test_a_layer_rule_that_fails_halfway_ends_its_own_request_alone(
    model: Model, monkeypatch: pytest.MonkeyPatch, error: Exception, told: type[Exception]
) -> None:
    """It writes over what it reads: neither it nor a neighbour may be run on what is half written."""
    prompts = [ids(at, 4) for at in range(4)]
    prompts[2] = [*prompts[2], GUILTY]
    methods = ("dllm-cache", "dllm-cache", "dllm-cache", "confidence+archer:3")
    wanted = [alone(model, p, m, length=12) for p, m in zip(prompts, methods, strict=True)]
    turns = [0]
    failing_halfway(monkeypatch, lambda parts: turns[0] == 3 and guilty(parts), error)
    engine = model.engine()
    handles = [engine.submit(p, m, length=12) for p, m in zip(prompts, methods, strict=True)]
    while not all(handle.done for handle in handles):
        turns[0] += 1
        engine.turn()
    for at, handle in enumerate(handles):
        if at == 2:
            with pytest.raises(told):
                handle.result()
        else:
            assert same(handle.result(), wanted[at]), at


def test_a_pass_that_reads_nothing_it_writes_is_made_again_when_there_is_room(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pass of dLLM-Cache refreshes everything."""
    prompts = [[*ids(1, 4), GUILTY], ids(2, 4)]
    methods = ("dllm-cache", "confidence+archer:3")
    wanted = [alone(model, p, m, length=12) for p, m in zip(prompts, methods, strict=True)]
    failed = [0]

    def once(parts: Sequence[Question]) -> bool:
        failed[0] += guilty(parts)
        return failed[0] == 1 and guilty(parts)

    failing_halfway(monkeypatch, once, torch.OutOfMemoryError("x"))
    engine = model.engine()
    handles = [engine.submit(p, m, length=12) for p, m in zip(prompts, methods, strict=True)]
    for handle, done in zip(handles, wanted, strict=True):
        assert same(handle.result(), done)
    assert failed[0] > 1


@pytest.mark.parametrize("stops", [False, True])
def test_memory_may_run_out_in_the_turn_in_which_a_request_ends(
    model: Model, monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    """In every turn the pass of both fails, the younger makes its own, and the other finds no memory once."""
    prompts = [[*ids(1, 4), GUILTY], ids(9, 4)]
    options: dict[str, Any] = {"method": "confidence+eager", "block": 1}
    long, short = (
        alone(model, p, length=n, **options) for p, n in zip(prompts, (24, 12), strict=True)
    )
    assert short.text
    fell_short: list[int] = []
    turns = [0]

    def fails(parts: Sequence[Question]) -> None:
        if len(parts) > 1:
            raise RuntimeError("both")
        if guilty(parts) and turns[0] not in fell_short:
            fell_short.append(turns[0])
            raise torch.OutOfMemoryError("one")

    watching(monkeypatch, fails)
    now = [0.0]
    engine = Engine(model, clock=lambda: now[0])
    older = engine.submit(prompts[0], length=24, **options)
    now[0] = 1.0
    stop = (short.text[2],) if stops else ()
    younger = engine.submit(prompts[1], length=12, stop=stop, **options)
    now[0] = 100.0
    while not younger.done:
        turns[0] += 1
        engine.turn()
    assert fell_short[-1] == turns[0]
    found = younger.result()
    assert found.finish_reason == "stop" if stops else same(found, short)
    watching(monkeypatch, lambda parts: None)
    assert same(older.result(), long)
    assert engine.status().waiting == engine.status().running == 0


def test_a_result_comes_even_if_its_reader_has_stopped(model: Model) -> None:
    engine = model.engine()
    handle = engine.submit(ids(3, 3), "llada-confidence", length=12)
    steps = iter(handle)
    next(steps)
    assert handle.result(timeout=60).updates == 12
    left = list(steps)
    assert len(left) == 11
    assert all(step.logits.rows for step in left[:MOST_UNREAD])
    assert not any(step.logits.rows for step in left[MOST_UNREAD:])


def test_an_engine_ends_even_if_a_reader_has_stopped(model: Model) -> None:
    engine = model.engine()
    engine.start()
    handle = engine.submit(ids(3, 3), "llada-confidence", length=12)
    steps = iter(handle)
    next(steps)
    engine.close(drain=60)
    assert handle.result().updates == 12
    assert len(list(steps)) == 11


def test_an_unread_step_holds_its_own_logits_and_no_more(model: Model) -> None:
    engine = model.engine()
    handles = [engine.submit(ids(at, 3), "llada-confidence", length=8) for at in range(4)]
    steps = [iter(handle) for handle in handles]
    wanted = list(model.stream(ids(2, 3), "llada-confidence", length=8))
    for each in steps:
        next(each)
    unread = handles[2]._job.unread
    assert unread
    for step in unread:
        (row,), other = step.logits.rows, wanted[step.index]
        assert row.values.untyped_storage().nbytes() == row.values.numel() * row.values.itemsize
        assert torch.allclose(row.values, other.logits.rows[0].values)


def test_a_budget_is_measured_with_the_threads_of_the_model(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(network: Any) -> int:
        seen.append(torch.get_num_threads())
        return 1024

    monkeypatch.setattr(engines, "measured_budget", watched)
    monkeypatch.setattr(model, "threads", torch.get_num_threads() + 2)
    engine = model.engine()
    engine.start()
    engine.close()
    assert seen == [model.threads]


@pytest.fixture
def rows_of_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen: list[int] = []
    watching(monkeypatch, lambda parts: seen.append(sum(part.canvas.rows for part in parts)))
    return seen


def test_generate_refuses_before_it_computes(model: Model, rows_of_passes: list[int]) -> None:
    with pytest.raises(BadRequest, match="for keys and values"):
        model.generate([ids(1, 3), ids(2, 3), ids(3, 60)], length=8, batch=1, memory=20_000)
    assert rows_of_passes == []


@pytest.mark.parametrize("batch", [1, 3])
def test_no_more_rows_than_were_asked_for_run_at_once(
    model: Model, rows_of_passes: list[int], batch: int
) -> None:
    hot: dict[str, Any] = {"length": 4, "temperature": 0.8, "seed": 2}
    found = model.generate([ids(1, 3)] * 8, "saber", batch=batch, **hot)
    assert max(rows_of_passes) == batch
    wanted = by_the_loop(model, [ids(1, 3)] * 8, "saber", **hot)
    assert [each.tokens for each in found] == [each.tokens for each in wanted]


MEASURE = """
import json, sys
from pathlib import Path
from archer.passes.memory import Store
from archer.model import load

made = Store.empty

def touched(*args, **options):
    store = made(*args, **options)
    store.keys.zero_(), store.values.zero_()  # what is held is there, and not only promised
    return store

Store.empty = touched
model = load(sys.argv[1], device="cpu")
bound, prompts = int(sys.argv[2]), int(sys.argv[3])
asked = [[20 + (at * 7 + i) % 180 for i in range(150)] for at in range(prompts)]
options = {"method": "llada-confidence", "length": 64, "steps": 1}

def held(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024

model.generate(asked[:8], **options)
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from now on
before = held("VmRSS")
limits = {"batch": prompts, "memory": bound} if bound else {}
done = model.generate(asked, **limits, **options)
assert len(done) == prompts and all(each.updates == 1 for each in done)
print(json.dumps({"grown": held("VmHWM") - before}))
"""

PROMPTS = 500
PEAK = Path("/proc/self/clear_refs")
counted = pytest.mark.skipif(not PEAK.exists(), reason="the kernel tells no peak that can be reset")


def grown(folder: Path, bound: int) -> int:
    """Bytes by which a process grows from eight prompts to 500; as `generate` does it by itself if 0."""
    run = [sys.executable, "-c", MEASURE, str(folder), str(bound), str(PROMPTS)]
    told = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    return int(json.loads(told)["grown"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_llada(tmp_path, n_layers=16)


@pytest.fixture
def bound(folder: Path) -> int:
    """Two fifths of what all prompts hold together."""
    shape = load(folder, device="cpu").network.shape
    each = 2 * shape.layers * shape.kv_heads * shape.head_dim * (150 + 64) * 4
    return PROMPTS * each * 2 // 5


@pytest.mark.slow
@counted
def test_five_hundred_prompts_stay_within_the_admitted_bound(folder: Path, bound: int) -> None:
    assert grown(folder, bound) <= 1.1 * bound


@counted
@pytest.mark.slow
def test_by_default_no_more_run_than_passes_need(folder: Path, bound: int) -> None:
    assert grown(folder, 0) <= bound / 2


METHOD = "confidence+archer:3"
"""Makes an update per token, and can be swapped out."""


class Leaving(Job):
    """Its reader goes away between any two looks at what it has not read."""

    kept: deque[Step[Any]] | None

    @property
    def unread(self) -> deque[Step[Any]] | None:
        now, self.kept = self.kept, None
        return now

    @unread.setter
    def unread(self, steps: deque[Step[Any]] | None) -> None:
        self.kept = steps


@pytest.mark.parametrize("unread", [0, MOST_UNREAD])
def test_a_reader_may_go_away_at_any_moment(model: Model, unread: int) -> None:
    engine = model.engine()
    handle = engine.submit(ids(1, 3), "llada-confidence", length=8)
    handle._job.__class__ = Leaving
    for _ in range(6):
        handle._job.unread = deque([None] * unread)  # type: ignore[list-item]
        engine.turn()
    assert same(handle.result(), alone(model, ids(1, 3), "llada-confidence", length=8))


def test_another_reader_takes_over(model: Model) -> None:
    """The first does not wait for steps that it will never get."""
    length = 3 * MOST_UNREAD
    handle = model.engine().submit(ids(1, 3), "llada-confidence", length=length)
    first, second = iter(handle), iter(handle)
    assert next(first).index == 0
    assert next(second).index == 1
    assert list(first) == []
    assert [step.index for step in second] == list(range(2, length))


def test_a_pass_that_failed_holds_nothing_while_it_is_made_again(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had computed is the memory that the next one needs."""
    computed: list[weakref.ref[torch.Tensor]] = []
    left: list[bool] = []

    def short(parts: Sequence[Question]) -> None:
        left.extend(each() is not None for each in computed)
        if len(parts) > 1 and len(computed) < 2:
            hidden = torch.zeros(8)
            computed.append(weakref.ref(hidden))
            raise torch.OutOfMemoryError("no memory")

    watching(monkeypatch, short)
    engine = model.engine()
    handles = [engine.submit(ids(at, 4), METHOD, length=8) for at in range(4)]
    assert all(handle.result().tokens for handle in handles)
    assert len(computed) == 2
    assert left
    assert not any(left)


def test_a_request_for_which_memory_cannot_be_had_waits_for_the_others(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count there was enough, and then somebody else on the device took it."""
    wanted = [alone(model, ids(at, 4), METHOD, length=8) for at in range(3)]
    engine = model.engine()
    first = engine.submit(ids(0, 4), METHOD, length=8)
    engine.turn()
    made = Store.empty

    def taken(*args: Any, **options: Any) -> Store:
        if not first.done:
            raise torch.OutOfMemoryError("no memory")
        return made(*args, **options)

    monkeypatch.setattr(Store, "empty", taken)
    others = [engine.submit(ids(at, 4), METHOD, length=8) for at in (1, 2)]
    engine.turn()
    status = engine.status()
    assert (status.running, status.waiting) == (1, 2)
    assert status.bytes_limit == status.bytes_used == first._job.bytes
    for handle, done in zip((first, *others), wanted, strict=True):
        assert same(handle.result(), done)


def test_a_request_alone_for_which_memory_cannot_be_had_fails(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*args: Any, **options: Any) -> Store:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(Store, "empty", taken)
    with pytest.raises(OutOfMemory, match="not enough memory"):
        model.engine().submit(ids(1, 3), length=8).result()


def test_nobody_goes_on_from_a_pass_that_was_interrupted(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody pressed Ctrl-C in a notebook: the engine is still there; what it had not touched runs on."""
    failing_at(monkeypatch, 3, KeyboardInterrupt())
    engine = model.engine(budget=1)
    touched = engine.submit(ids(1, 3), "llada-confidence", length=8, priority="interactive")
    waiting = engine.submit(ids(2, 3), "llada-confidence", length=8, priority="batch")
    with pytest.raises(KeyboardInterrupt):
        touched.result()
    with pytest.raises(Cancelled, match="broken off by KeyboardInterrupt"):
        touched.result()
    assert same(waiting.result(), alone(model, ids(2, 3), "llada-confidence", length=8))


def test_nobody_goes_on_from_steps_that_were_never_told(model: Model) -> None:
    class Faulty(Observer):
        def passed(self, record: PassRecord) -> None:
            raise KeyError("a count")

    engine = model.engine(observer=Faulty())
    handle = engine.submit(ids(1, 3), "llada-confidence", length=8)
    with pytest.raises(KeyError):
        handle.result()
    with pytest.raises(PassFailed, match=r"KeyError in test_engine_faults\.py"):
        handle.result()
    assert engine.status().running == engine.status().waiting == 0


def test_the_columns_still_to_compute_become_fewer(model: Model) -> None:
    """A running request counts with what its updates so far took, not with what was guessed before."""
    engine = model.engine()
    handle = engine.submit(ids(1, 20), "confidence+archer:inf", length=8)
    left = [engine.status().queued_columns]
    assert left == [28 * 8]
    while not handle.done:
        engine.turn()
        left.append(engine.status().queued_columns)
    assert left == sorted(left, reverse=True)
    assert left[-2] < 2 * 28
    assert left[-1] == 0
