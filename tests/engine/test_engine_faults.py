"""What a fault, a shortage of memory or a reader that stops may do to a request, and what not."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from archer.engine import engine as engines
from archer.engine.batch import Batch
from archer.engine.engine import Engine
from archer.engine.footprint import readable
from archer.engine.job import MOST_UNREAD
from archer.engine.turns import RECOVERY
from archer.errors import BadRequest, OutOfMemory, PassFailed
from archer.methods.build import build
from archer.model import Model
from archer.passes.forward import Question
from engine.breaking import failing, failing_halfway, watching
from engine.mixes import Drawn, backbone, record
from engine.mixes import alone as walked_alone
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
        batch.add(tag, request.walk(net))
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
