"""The measurements on tiny networks: what they tell belongs together; no time is ever judged."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from archer.bench.batch import batch
from archer.bench.decode import REFERENCES, decode
from archer.bench.repeating import WARM_UP, interleaved, spread, whole_numbers
from archer.bench.step import Row, measure
from archer.bench.subject import Subject
from archer.costs.counting import count_passes
from archer.costs.roofline import kv_numbers
from archer.errors import ArcherError, BadRequest
from archer.methods.build import build
from support.subjects import tiny

P, G = 12, 8


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "shifted"])
def measured(request: pytest.FixtureRequest) -> tuple[Subject, Row]:
    subject = tiny(request.param)
    (row,) = measure(subject, [P], G, repeats=2, library=True)
    return subject, row


def test_a_row_tells_ratios_of_its_own_times(measured: tuple[Subject, Row]) -> None:
    subject, row = measured
    made = row.figures
    shape = subject.network.shape
    counts = count_passes(shape, P, G)
    assert made.layers == shape.layers
    assert made.limit == counts.full / counts.cached > 1
    assert made.limit_naive == counts.naive / counts.cached > made.limit
    assert made.speedup == pytest.approx(made.full_ms / made.cached_ms)
    assert made.fraction == pytest.approx(made.speedup / made.limit)
    assert row.naive_gain == pytest.approx(made.naive_ms / made.cached_ms)
    assert 0 < row.control < 1 - row.head < 1
    assert set(row.spread) == {"full", "cached", "naive", "all", "response"}
    assert row.library is not None
    assert row.library.gain_all == pytest.approx(row.library.all_ms / row.library.ours_ms)


def test_the_whole_depth_is_told_beside_what_was_run(measured: tuple[Subject, Row]) -> None:
    _, row = measured
    assert row.whole is not None
    assert row.whole.layers == 5
    assert row.whole.full_ms > row.figures.full_ms
    assert row.whole.cached_ms > row.figures.cached_ms
    assert row.whole.limit > row.figures.limit
    assert row.paper is None


def test_a_row_as_plain_data_has_the_promised_keys(measured: tuple[Subject, Row]) -> None:
    found = measured[1].as_dict()
    times = {"full_ms", "cached_ms", "naive_ms"}
    ratios = {"speedup", "limit", "fraction", "limit_naive", "spread"}
    assert {"prompt"} | times | ratios <= set(found)
    assert found["prompt"] == P
    assert {"speedup", "limit", "fraction", "paper"} <= set(found["whole"])


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


def test_speedups_are_told_over_the_references_that_were_run() -> None:
    (row,) = decode(tiny(), [build("archer", {"length": G})], P, prompts=1, repeats=1)
    assert row.over == {}


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
    assert WARM_UP == 1
    assert seen == ["a", "b"] * 3
    assert found == {"a": [2, 4], "b": [3, 5]}


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=9), st.floats(0.1, 10))
def test_the_spread_is_a_part_of_the_median(values: list[float], scale: float) -> None:
    assert spread(values) >= 0
    assert spread([scale * each for each in values]) == pytest.approx(spread(values))
    assert spread([statistics.median(values)] * 3) == 0
    assert spread(values[:1]) == 0


def test_the_spread_is_the_width_of_the_middle_half() -> None:
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)


def test_whole_numbers() -> None:
    assert whole_numbers("128, 512", "--prompt") == (128, 512)
    for wrong in ("", "1,", "0", "-1", "1.5", "x", "²"):
        with pytest.raises(BadRequest, match="--prompt takes whole numbers above 0"):
            whole_numbers(wrong, "--prompt")
