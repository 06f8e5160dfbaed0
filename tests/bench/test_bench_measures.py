"""The measurements on tiny networks: what they tell belongs together and adds up; no time is ever judged."""

from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest
import torch

from archer.bench.batch import batch
from archer.bench.decode import REFERENCES, decode
from archer.bench.profiling import KINDS, OTHER, OUTSIDE, shares, table
from archer.bench.repeating import interleaved, spread
from archer.bench.step import StepRow, measure
from archer.bench.step import tables as step_tables
from archer.bench.subject import Subject
from archer.costs.counting import count_passes
from archer.costs.roofline import kv_numbers
from archer.errors import ArcherError, BadRequest
from archer.methods.build import build
from archer.network.network import Transformer
from archer.network.shape import Scheme
from archer.pages.tables import Value
from support.networks import tiny

P, G = 12, 8


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "shifted"])
def measured(request: pytest.FixtureRequest) -> tuple[Subject, StepRow]:
    subject = tiny(request.param)
    (row,) = measure(subject, [P], G, repeats=2, library=True)
    return subject, row


def test_a_step_is_held_against_what_counting_allows(measured: tuple[Subject, StepRow]) -> None:
    """At the layers that were run, and at the model's own depth."""
    subject, row = measured
    counts = count_passes(subject.network.shape, P, G)
    assert row.limit == counts.full / counts.cached > 1
    assert row.limit_naive > row.limit
    assert 0 < row.control < 1 - row.head < 1
    assert set(row.spread) == {"full", "cached", "naive", "all", "response"}
    assert row.library is not None
    assert row.whole is not None
    assert (row.layers, row.whole.layers) == (subject.network.shape.layers, 5)
    assert row.whole.full_ms > row.full_ms
    assert row.whole.cached_ms > row.cached_ms
    assert row.whole.limit > row.limit
    assert row.whole.paper is None


@pytest.mark.usefixtures("whole_numbers")
def test_steps_in_eight_bits_stand_beside_the_plain_ones() -> None:
    schemes = [Scheme.INT8, Scheme.W8A8_HEAD]
    subject = tiny()
    (row,) = measure(subject, [P], G, repeats=1, schemes=schemes)
    for found in (row.eight_bits, row.eight_bits_whole):
        assert [each.scheme for each in found] == schemes
        assert found[1].weight_bytes < found[0].weight_bytes < found[0].plain_bytes
        assert all(min(each.gain_full, each.gain_cached) > 0 for each in found)
    assert row.eight_bits[0].gain_full == pytest.approx(row.full_ms / row.eight_bits[0].full_ms)
    assert row.whole is not None
    deep = row.eight_bits_whole[1]
    assert deep.gain_cached == pytest.approx(row.whole.cached_ms / deep.cached_ms)
    result = {"layers": row.layers, "depth": subject.depth, "rows": [asdict(row)]}
    kept = [table.title for table in step_tables({**result, "shape": "x", "response": G})]
    assert kept[-2:] == [f"In eight bits, {row.layers} layers", "In eight bits, 5 layers"]


@pytest.mark.usefixtures("whole_numbers")
def test_trajectories_in_eight_bits_are_told_over_the_plain_ones() -> None:
    rows = decode(tiny(), [build("archer:4", {"length": G})], P, 1, 1, [Scheme.W8A8])
    assert [row.method for row in rows] == ["archer:4", "archer:4, w8a8"]
    assert all(set(row.over) == {"archer:4"} for row in rows)


def test_trajectories_are_compared_with_what_their_passes_cost() -> None:
    methods = [build(name, {"length": G}) for name in ("saber", "archer:4", "llada-confidence")]
    rows = {row.method: row for row in decode(tiny(), methods, P, prompts=2, repeats=2)}
    for row in rows.values():
        assert row.full + row.cached + row.reused == row.updates
        assert set(row.over) == set(REFERENCES)
    assert rows["saber"].cached == 0
    assert rows["archer:4"].cached > 0
    assert rows["llada-confidence"].updates == 2 * G
    own = rows["saber"].over["saber"]
    assert (own.speedup, own.predicted, own.error, own.predicted_eta) == (1.0, 1.0, 0.0, 1.0)
    over = rows["archer:4"].over["saber"]
    assert over.predicted == rows["saber"].operations / rows["archer:4"].operations
    assert over.error == pytest.approx(over.predicted / over.speedup - 1)
    low = rows["saber"].updates / rows["archer:4"].updates
    assert low <= over.predicted_eta <= low * (P + G) / G


def test_a_method_that_breaks_is_no_measurement() -> None:
    subject = tiny()
    subject.network.head.fill_(torch.nan)
    with pytest.raises(ArcherError, match="saber cannot be timed to its end: The full pass"):
        decode(subject, [build("saber", {"length": G})], P, prompts=1, repeats=1)


def test_batches_of_equal_work() -> None:
    subject = tiny()
    rows = batch(subject, build("archer", {"length": G}), (1, 2, 5), P, repeats=2)
    assert [row.batch for row in rows] == [1, 2, 5]
    assert len({row.updates for row in rows}) == 1
    assert rows[0].gain == 1.0
    for row in rows:
        assert row.kv_bytes == row.batch * 4 * kv_numbers(subject.network.shape, P + G)
        assert row.tokens_per_second == pytest.approx(row.batch * G / row.seconds)


def test_rounds_are_interleaved_and_the_first_is_not_counted() -> None:
    seen: list[str] = []
    numbers: Iterator[int] = iter(range(100))

    def look(name: str) -> int:
        seen.append(name)
        return next(numbers)

    found = interleaved({"a": lambda: look("a"), "b": lambda: look("b")}, repeats=2)
    assert seen == ["a", "b"] * 3
    assert found == {"a": [2, 4], "b": [3, 5]}


def test_the_spread_is_the_width_of_the_middle_half() -> None:
    """As a part of the median, so that no unit matters."""
    for scale in (1.0, 7.0):
        assert spread([scale * each for each in (1, 2, 3, 4, 5)]) == pytest.approx(2 / 3)
    assert spread([3.0] * 3) == spread([3.0]) == 0


@pytest.mark.parametrize("shift", [False, True])
def test_kinds_of_work_add_up_to_the_step(shift: bool) -> None:
    full, cached = shares(tiny(shift), 16, 8, repeats=2)
    assert (full.step, cached.step) == ("full", "cached")
    for found in (full, cached):
        kinds = found.kinds_ms
        assert set(kinds) <= {*KINDS.values(), OTHER, OUTSIDE}
        assert {"matrix products", "attention", "copies", OUTSIDE} <= set(kinds)
        assert all(spent >= 0 for spent in kinds.values())
        assert list(kinds.values()) == sorted(kinds.values(), reverse=True)
        assert sum(kinds.values()) == pytest.approx(found.total_ms, rel=1e-6)


def test_a_device_that_runs_ahead_is_refused() -> None:
    subject = tiny()
    elsewhere = Transformer(subject.network.shape, device=torch.device("meta"))
    with pytest.raises(
        BadRequest, match=r"not on meta, .* Use the device cpu, or `archer bench step`"
    ):
        shares(replace(subject, network=elsewhere), 16, 8, repeats=1)


def test_they_become_a_table_of_both_steps() -> None:
    rows = [asdict(row) for row in shares(tiny(), 16, 8, repeats=1)]
    rows[1]["kinds_ms"].pop("copies")
    made = table({"rows": rows})
    head = [column.name for column in made.columns]
    assert head == ["work", "full ms", "share (%)", "cached ms", "share (%)"]
    by_kind = {line[0]: list(line[1:]) for line in made.rows}
    assert set(by_kind) == set(rows[0]["kinds_ms"])
    assert by_kind["copies"][2:] == [Value(0.0), 0.0]
    spent, total = rows[0]["kinds_ms"]["attention"], rows[0]["total_ms"]
    assert by_kind["attention"][:2] == [Value(spent), 100 * (spent / total)]
