"""The engine as its users meet it: requests in any company, cancelled, late, faulty or refused."""

import gc
import random
import threading
import time
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from archer.engine.engine import Engine
from archer.engine.handle import Handle, Listener, Observer, PassRecord
from archer.engine.job import MOST_UNREAD, Options
from archer.errors import (
    ArcherError,
    BadRequest,
    Cancelled,
    Closing,
    Expired,
    OutOfMemory,
    Overloaded,
    PassFailed,
    Stuck,
)
from archer.methods.catalogue import DEFAULT_METHOD
from archer.model import Model, load
from archer.passes.memory import Store
from archer.request.fill import Fill
from archer.request.request import Request
from archer.results.completion import Completion
from archer.results.step import Step
from engine.breaking import failing, failing_at
from support.folders import make_llada
from support.pairs import alone, by_the_loop, ids, same
from support.processes import descriptors

METHODS = (
    "archer",
    "saber",
    "llada-confidence",
    "wino",
    "dllm-cache",
    "fast-dllm-cache",
    "dkv-decode",
)
LENGTHS = (4, 8, 12)


def test_a_reader_that_is_behind_stops_its_own_request_alone(model: Model) -> None:
    engine = model.engine()
    slow, quick = (engine.submit(ids(3, 3), "llada-confidence", length=12) for _ in range(2))
    steps = iter(slow)
    next(steps)
    quick.result()
    assert not slow.done
    assert slow._job.unread is not None
    assert len(slow._job.unread) <= MOST_UNREAD
    assert len(list(steps)) == 11
    assert "ended" in repr(slow)


def test_a_thread_of_its_own_serves_many_threads(model: Model) -> None:
    wanted = alone(model, ids(4, 5), "archer", length=8)
    found: list[Completion] = []
    with model.engine() as engine:
        assert engine.budget >= 1024
        engine.start()

        def ask() -> None:
            found.append(engine.submit(ids(4, 5), "archer", length=8).result(60))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        left = engine.submit(ids(5, 3), length=8)
    assert len(found) == 6
    assert all(same(each, wanted) for each in found)
    assert left.done
    assert left.result().finish_reason in ("stop", "length")
    with pytest.raises(Closing, match="takes no more"):
        engine.submit(ids(5, 3), length=8)


def test_samples_are_those_of_a_batch_and_need_one_row_when_nothing_is_drawn(model: Model) -> None:
    prompt = ids(6, 4)
    hot: dict[str, Any] = {"length": 8, "temperature": 0.8, "seed": 3}
    wanted = by_the_loop(model, [prompt] * 3, "saber", **hot)
    engine = model.engine()
    found = engine.submit(prompt, "saber", n=3, **hot).results()
    assert [each.tokens for each in found] == [each.tokens for each in wanted]
    cold = engine.submit(prompt, "saber", n=3, length=8)
    assert len({each.tokens for each in cold.results()}) == 1
    assert cold._job.rows == 1


def test_generate_numbers_samples_as_a_batch_of_all_prompts_would(model: Model) -> None:
    prompts = [ids(7, 3), ids(8, 4), ids(7, 3)]
    hot: dict[str, Any] = {"length": 8, "temperature": 0.8, "seed": 1}
    wanted = by_the_loop(model, prompts, "saber", **hot)
    for batch in (None, 1, 2):
        found = model.generate(prompts, "saber", batch=batch, **hot)
        assert [each.tokens for each in found] == [each.tokens for each in wanted]
    twice = model.generate(prompts[:2], "saber", n=2, **hot)
    again = by_the_loop(model, [prompts[0]] * 2 + [prompts[1]] * 2, "saber", **hot)
    assert [each.tokens for each in twice] == [each.tokens for each in again]
    with pytest.raises(BadRequest, match="at least 1, not 0"):
        model.generate(prompts, batch=0)
    with pytest.raises(BadRequest, match=r"n counts samples: a whole number from 1 .*, not 0"):
        model.generate(prompts, n=0)


def test_a_stream_of_several_prompts_tells_one_update_of_one_prompt_at_a_time(model: Model) -> None:
    """Repeated prompts are samples; the updates of each come in order and say what the loop says."""
    prompts = [ids(7, 3), ids(8, 4), ids(7, 3), ids(9, 9)]
    hot: dict[str, Any] = {"length": 8, "temperature": 0.8, "seed": 1}
    wanted = by_the_loop(model, prompts, "saber", **hot)
    stream = model.stream(prompts, "saber", **hot)
    steps = list(stream)
    assert {len(step.rows) for step in steps} == {1}
    for row, completion in enumerate(stream.finish()):
        own = [step for step in steps if step.rows == (row,)]
        assert [step.index for step in own] == list(range(completion.updates))
        assert tuple(own[-1].after.response[0].tolist()) == completion.tokens
        assert same(completion, wanted[row])
    assert wanted[0].tokens != wanted[2].tokens


def test_a_stream_waits_for_memory_as_any_request(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for one prompt they run one after the other; what never fits is refused at once."""
    prompts = [ids(7, 3), ids(8, 3)]
    least = model.engine().submit(prompts[0], "archer", length=8)._job.bytes
    monkeypatch.setattr("archer.engine.engine.default_limit", lambda network: least)
    rows = [step.rows[0] for step in model.stream(prompts, "archer", length=8)]
    assert rows == sorted(rows)
    assert set(rows) == {0, 1}
    with pytest.raises(BadRequest, match="for keys and values"):
        model.stream(ids(9, 9), "archer", length=8)


def test_a_stream_raises_what_ends_a_prompt(model: Model) -> None:
    """Here a rule that has no end; the updates before are told."""
    stream = model.stream(ids(7, 3), "editing", length=8, edit=0.0)
    with pytest.raises(Stuck, match="has not finished after"):
        for _ in stream:
            pass
    with pytest.raises(Stuck, match="has not finished after"):
        stream.finish()


def test_a_bar_is_shown_on_request(model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    model.generate([ids(1, 3)] * 2, length=4, progress=True)
    shown = capsys.readouterr()
    assert "2/2" in shown.err
    assert shown.out == ""


def test_stop_strings_cut_the_text_and_end_what_only_fills(model: Model) -> None:
    prompt = ids(9, 4)
    whole = alone(model, prompt, "llada-confidence", length=12, block=1)
    assert whole.text
    stop = whole.text[2]
    found = model.generate(prompt, "llada-confidence", length=12, block=1, stop=stop)[0]
    assert found.text == whole.text.partition(stop)[0]
    assert found.finish_reason == "stop"
    assert found.updates < whole.updates
    assert len(found.tokens) == len(found.confidences) == len(found.written_at)
    with pytest.raises(BadRequest, match="empty"):
        model.generate(prompt, stop=[""])


def test_a_request_can_be_cancelled_while_it_waits_and_while_it_runs(model: Model) -> None:
    engine = model.engine()
    waiting = engine.submit(ids(1, 3), length=8)
    assert "waiting" in repr(waiting)
    waiting.cancel()
    with pytest.raises(Cancelled):
        waiting.result()
    running = engine.submit(ids(1, 3), "llada-confidence", length=8)
    engine.turn()
    assert "running" in repr(running)
    running.cancel()
    engine.turn()
    assert running.done
    with pytest.raises(Cancelled):
        list(running)
    assert engine.status().rows == 0


def test_what_is_late_is_dropped_and_told_where_it_was(model: Model) -> None:
    now = [0.0]
    engine = Engine(model, clock=lambda: now[0])
    begun = engine.submit(ids(1, 3), "llada-confidence", length=8, timeout=5.0, queue_timeout=1.0)
    engine.turn()
    now[0] = 2.0
    queued = engine.submit(ids(2, 3), length=8, queue_timeout=1.0)
    now[0] = 4.0
    engine.turn()
    assert queued.done
    assert not begun.done
    with pytest.raises(Expired, match=r"was not begun within 1 s") as late:
        queued.result()
    assert late.value.where == "queue"
    now[0] = 6.0
    engine.turn()
    with pytest.raises(Expired, match=r"did not end within 5 s"):
        begun.result()


def test_waiting_has_an_end(model: Model) -> None:
    handle = model.engine().submit(ids(1, 3), "llada-confidence", length=8)
    with pytest.raises(TimeoutError, match="it goes on"):
        handle.result(timeout=0.0)
    assert handle.result().updates == 8


def test_a_full_queue_and_what_never_fits_are_refused(model: Model) -> None:
    engine = model.engine(waiting=1)
    engine.submit(ids(1, 3), length=8)
    with pytest.raises(Overloaded, match="1 request is waiting") as full:
        engine.submit(ids(1, 3), length=8)
    assert full.value.retry_after >= 1
    with pytest.raises(BadRequest, match="for keys and values"):
        model.engine(memory=1000).submit(ids(1, 3), length=8)
    with pytest.raises(BadRequest, match="one prompt, not 2"):
        engine.enqueue(model.request([ids(1, 3), ids(2, 3)], length=8))


def test_a_queue_that_one_owner_has_filled_has_room_for_others(model: Model) -> None:
    engine = model.engine(waiting=4)
    for _ in range(4):
        engine.submit(ids(1, 3), length=8, owner="greedy")
    with pytest.raises(Overloaded):
        engine.submit(ids(1, 3), length=8, owner="greedy")
    handles = [engine.submit(ids(1, 3), length=8, owner=owner) for owner in "aab"]
    for owner in ("a", "greedy"):
        with pytest.raises(Overloaded):
            engine.submit(ids(1, 3), length=8, owner=owner)
    assert engine.status().waiting_of == {"greedy": 4, "a": 2, "b": 1}
    assert all(handle.result().tokens for handle in handles)


@pytest.mark.parametrize("method", ["archer", "saber+dllm-cache"])
def test_memory_that_was_lent_is_taken_back(model: Model, method: str) -> None:
    """From requests that can be continued later, with the same text; others give it back at their end."""
    alone = model.engine().submit(ids(1, 4), method, length=8).result().tokens
    each = model.engine().submit(ids(1, 4), method, length=8)._job.bytes
    engine = model.engine(memory=4 * each)
    lent = [engine.submit(ids(1, 4), method, length=8, owner="greedy") for _ in range(6)]
    engine.turn()
    assert engine.status().running == 4
    other = engine.submit(ids(2, 4), method, length=8, owner="other")
    engine.turn()
    running = engine._turns.running
    assert engine.status().bytes_used <= 4 * each
    assert any(job.options.owner == "other" for job in running) == (method == "archer")
    assert other.result().tokens
    assert all(handle.result().tokens == alone for handle in lent)


@pytest.mark.parametrize("greedy", [1, 3, 8])
def test_searches_for_lengths_of_gaps_take_turns_with_others(model: Model, greedy: int) -> None:
    """However many one owner has, another's request gets about every second pass."""
    engine = model.engine()
    gaps = Fill(([1, 3], [2, 4, 5], [6]), length="search")
    for _ in range(greedy):
        engine.submit(gaps, "llada-confidence", max_length=8, owner="greedy")
    engine.turn()
    other = engine.submit(ids(2, 4), "llada-confidence", length=8, owner="other")
    turns = 0
    while other._job.completions is None:
        assert engine.turn()
        turns += 1
    assert turns <= 2 * 8 + 2
    assert engine.status().running > 0, "the searches go on"


@pytest.mark.parametrize("name", ["budget", "memory", "waiting", "per_owner", "batch"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "8"])
def test_limits_are_whole_numbers(model: Model, name: str, value: object) -> None:
    call = partial(model.generate, ids(1, 3), length=8) if name == "batch" else model.engine
    with pytest.raises(BadRequest, match=f"{name} must be a whole number of at least 1, not"):
        call(**cast("Any", {name: value}))


def test_stop_strings_need_a_tokenizer(tmp_path: Path) -> None:
    bare = load(make_llada(tmp_path), device="cpu")
    with pytest.raises(BadRequest, match="knows no stop strings"):
        bare.engine().submit([5, 6], stop=["x"], length=8)


def test_memory_bounds_what_runs_at_once(model: Model) -> None:
    probe = model.engine()
    each = probe.submit(ids(1, 4), length=8)._job.bytes
    engine = model.engine(memory=2 * each)
    handles = [engine.submit(ids(at, 4), length=8) for at in range(5)]
    most = 0
    while not all(handle.done for handle in handles):
        engine.turn()
        status = engine.status()
        most = max(most, status.running)
        assert status.bytes_used <= status.bytes_limit == 2 * each
    assert most == 2


def test_more_samples_than_an_owner_may_have_running_are_refused(model: Model) -> None:
    engine = model.engine(per_owner=2)
    hot: dict[str, Any] = {"length": 8, "temperature": 0.8, "owner": "me"}
    with pytest.raises(BadRequest, match=r"n = 3 .* 2 may run at once .* smaller n"):
        engine.submit(ids(1, 3), n=3, **hot)
    assert len(engine.submit(ids(1, 3), n=2, **hot).results()) == 2
    cold = engine.submit(ids(1, 3), n=3, length=8, owner="me")
    assert len(cold.results()) == 3, "samples that are one row need one row"
    assert len(engine.submit(ids(1, 3), n=3, **hot | {"owner": None}).results()) == 3


def test_equal_first_passes_are_computed_once(model: Model) -> None:
    class Columns(Observer):
        first = 0

        def passed(self, record: PassRecord) -> None:
            self.first = self.first or record.columns

    counted = Columns()
    engine = model.engine(observer=counted)
    prompt = ids(1, 5)
    handles = [engine.submit(prompt, method, length=8) for method in ("saber", "archer")]
    for method, handle in zip(("saber", "archer"), handles, strict=True):
        assert same(handle.result(), alone(model, prompt, method, length=8))
    assert counted.first == 5 + 8


class Heard(Listener):
    """All that a listener can hear, in order."""

    hears_text = True

    def __init__(self) -> None:
        self.text: dict[int, str] = {}
        self.told: list[str] = []
        self.completions: Sequence[Completion] = ()

    def admitted(self, request: Request) -> None:
        self.told.append("admitted")

    def stepped(self, step: Step[Any]) -> None:
        self.told.append("step")

    def settled(self, row: int, text: str) -> None:
        self.text[row] = self.text.get(row, "") + text

    def finished(self, completions: Sequence[Completion]) -> None:
        self.told.append("finished")
        self.completions = completions

    def failed(self, error: ArcherError) -> None:
        self.told.append(type(error).__name__)


@pytest.mark.parametrize("method", METHODS)
def test_settled_text_adds_up_to_the_final_text(model: Model, method: str) -> None:
    heard = Heard()
    engine = model.engine()
    engine.submit(ids(11, 4), method, n=2, length=8, listener=heard).results()
    assert heard.told[0] == "admitted"
    assert heard.told[-1] == "finished"
    assert set(heard.told[1:-1]) == {"step"}
    assert [heard.text.get(row, "") for row in range(2)] == [d.text for d in heard.completions]


class Held(Observer):
    """Stops the engine's thread within its first turn until it is let go; then raises, if it is to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.reached, self.free, self.error = threading.Event(), threading.Event(), error

    def passed(self, record: PassRecord) -> None:
        self.reached.set()
        assert self.free.wait(60)
        if self.error is not None:
            raise self.error


def test_closing_cancels_also_what_was_submitted_during_a_pass(model: Model) -> None:
    held = Held()
    engine = model.engine(observer=held, budget=64)
    engine.start()
    first = engine.submit(ids(1, 3), "llada-confidence", length=64)
    assert held.reached.wait(60)
    heard = Heard()
    second = engine.submit(ids(2, 3), "llada-confidence", length=64, listener=heard)
    closing = threading.Thread(target=engine.close)
    closing.start()
    until = time.monotonic() + 60
    while not engine._cutting and time.monotonic() < until:
        time.sleep(0.01)
    held.free.set()
    closing.join(60)
    assert not closing.is_alive()
    for handle in (first, second):
        with pytest.raises(Cancelled):
            handle.result(60)
    assert heard.told == ["Cancelled"], "it was never begun"


def test_a_job_is_seen_wherever_it_is(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = model.engine()
    seen: list[bool] = []
    turns = engine._turns
    drop, begin = turns._drop_ended, turns._begin

    def dropping(now: float, cutting: bool) -> None:
        seen.append(engine._busy)
        drop(now, cutting)

    def beginning(job: Any) -> bool:
        seen.append(engine._busy)
        begun = begin(job)
        seen.append(engine._busy)
        return begun

    monkeypatch.setattr(turns, "_drop_ended", dropping)
    monkeypatch.setattr(turns, "_begin", beginning)
    handle = engine.submit(ids(1, 3), "llada-confidence", length=8)
    engine.turn()
    assert seen == [True] * 3
    handle.cancel()


def test_an_error_that_nobody_foresaw_ends_every_request_and_is_told(model: Model) -> None:
    held = Held(KeyError("a prompt, perhaps"))
    engine = model.engine(observer=held, budget=64)
    lost: list[ArcherError] = []
    engine.when_lost(lost.append)
    engine.start()
    first = engine.submit(ids(1, 3), "llada-confidence", length=64)
    assert held.reached.wait(60)
    second = engine.submit(ids(2, 3), length=8)
    held.free.set()
    for handle in (first, second):
        with pytest.raises(
            PassFailed, match=r"KeyError in test_engine\.py line \d+\. Start it"
        ) as told:
            handle.result(60)
        assert "a prompt" not in str(told.value)
    assert [*map(str, lost)] == [str(told.value)]
    engine.when_lost(lost.append)
    assert len(lost) == 2, "whoever asks later is told at once"
    with pytest.raises(Closing):
        engine.submit(ids(1, 3), length=8)
    engine.close()
    assert not engine.alive


def test_a_listener_that_raises_when_it_is_told_of_an_end_harms_nobody(model: Model) -> None:
    class Faulty(Listener):
        def failed(self, error: ArcherError) -> None:
            raise ValueError("no more")

    engine = model.engine()
    faulty = engine.submit(ids(1, 3), length=8, listener=Faulty())
    sound = engine.submit(ids(2, 3), length=8)
    faulty.cancel()
    assert same(sound.result(), alone(model, ids(2, 3), DEFAULT_METHOD, length=8))
    with pytest.raises(Cancelled):
        faulty.result()


def test_deadlines_count_from_when_it_was_asked_for(model: Model) -> None:
    now = [10.0]
    engine = Engine(model, clock=lambda: now[0])
    request = model.request(ids(1, 3), length=8)
    late = engine.enqueue(request, Options(queue_timeout=5.0, since=4.0))
    soon = engine.enqueue(request, Options(queue_timeout=5.0, since=6.0))
    with pytest.raises(Expired):
        late.result()
    assert soon.result().tokens


def test_a_pass_that_raises_is_halved_until_the_guilty_request_is_alone(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    guilty = 250
    prompts = [ids(at, 4) for at in range(7)]
    prompts[5] = [*prompts[5], guilty]
    wanted = [alone(model, prompt, "archer", length=8) for prompt in prompts]
    failing(
        monkeypatch,
        lambda parts: any((part.canvas.tokens == guilty).any() for part in parts),
        RuntimeError("a kernel failed"),
    )
    engine = model.engine()
    handles = [engine.submit(prompt, "archer", length=8) for prompt in prompts]
    for at, handle in enumerate(handles):
        if at == 5:
            with pytest.raises(PassFailed, match="RuntimeError: a kernel failed"):
                handle.result()
        else:
            assert same(handle.result(), wanted[at])


def test_without_memory_the_youngest_is_swapped_out_and_comes_back(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [ids(at, 4) for at in range(4)]
    method = "confidence+archer:3"
    wanted = [alone(model, prompt, method, length=12) for prompt in prompts]
    failing_at(monkeypatch, 3, torch.OutOfMemoryError("no memory"))
    engine = model.engine()
    handles = [engine.submit(prompt, method, length=12) for prompt in prompts]
    for _ in range(3):
        engine.turn()
    assert (engine.status().running, engine.status().waiting) == (3, 1)
    assert all(same(handle.result(), done) for handle, done in zip(handles, wanted, strict=True))


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("x"), MemoryError(), RuntimeError("can't allocate memory")]
)
def test_a_request_for_which_there_is_never_memory_fails(
    model: Model, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    failing(monkeypatch, lambda parts: True, error)
    with pytest.raises(OutOfMemory, match="not enough memory"):
        model.engine().submit(ids(1, 3), length=8).result()


@pytest.mark.parametrize("requests", [60, pytest.param(5000, marks=pytest.mark.slow)])
def test_nothing_is_left_of_requests_that_came_and_went(
    model: Model, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joins, leaves, cancels and failures, drawn."""
    draw = random.Random(requests)
    alive: weakref.WeakSet[Store] = weakref.WeakSet()
    made = Store.empty

    def counted(*args: Any, **options: Any) -> Store:
        store = made(*args, **options)
        alive.add(store)
        return store

    monkeypatch.setattr(Store, "empty", counted)
    failing(monkeypatch, lambda parts: draw.random() < 0.02, error := RuntimeError("drawn"))
    gc.collect()
    before = descriptors()
    engine = model.engine(budget=60, memory=200_000)
    running: list[Handle] = []
    submitted = 0
    while submitted < requests or running:
        if submitted < requests and draw.random() < 0.7:
            prompt = ids(draw.randrange(50), draw.randint(1, 6))
            method = draw.choice(METHODS)
            running.append(engine.submit(prompt, method, length=draw.choice(LENGTHS)))
            submitted += 1
        if running and draw.random() < 0.1:
            draw.choice(running).cancel()
        engine.turn()
        running = [handle for handle in running if not handle.done]
    error.with_traceback(None)
    gc.collect()
    status = engine.status()
    assert (status.waiting, status.running, status.rows, status.bytes_used) == (0, 0, 0, 0)
    assert len(alive) == 0
    assert descriptors() <= before
