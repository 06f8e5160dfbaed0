"""Measured objects become tables; what is counted is told as it was counted."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from archer.bench import (
    batch,
    decode,
    judge,
    load,
    passes,
    profiling,
    serve,
    step,
    traffic,
)
from archer.bench.facts import setting
from archer.bench.step import fraction, library_table, measure, noise, whole_table
from archer.pages.tables import Table, Value
from conftest import REPOSITORY
from support.networks import tiny

RESULTS = REPOSITORY / "docs" / "results"
FACTS = {"shape": "tiny", "layers": 3, "response": 8}
MACHINE = {"cpu": "P", "threads": 1, "cores": 2, "device": "cpu", "dtype": "float32", "torch": "2"}
TABLES: dict[str, Callable[[Any], Table | list[Table]]] = {
    "step-llada-8b": step.tables,
    "library-llada-8b": step.tables,
    "profile-pocket": profiling.table,
    "decode-small": decode.table,
    "batch-small": batch.table,
    "traffic-pocket": traffic.tables,
    "load-llada-8b": load.table,
    "serve-pocket": serve.tables,
    "judge": judge.table,
}


def numbers(table: Table) -> list[list[Any]]:
    """The rows without what stands beside their numbers."""
    return [[cell.ours if isinstance(cell, Value) else cell for cell in row] for row in table.rows]


@pytest.mark.parametrize("name", TABLES)
def test_every_committed_measurement_fills_its_tables(name: str) -> None:
    result = json.loads((RESULTS / f"{name}.json").read_text())
    made = TABLES[name](result)
    for table in [made] if isinstance(made, Table) else made:
        assert table.rows
        assert all(cell is not None for row in numbers(table) for cell in row)
    assert setting(result).endswith(".")


def test_steps_become_tables() -> None:
    rows = [asdict(row) for row in measure(tiny(), [4, 8], 8, repeats=1, library=True)]
    result: dict[str, Any] = FACTS | {"rows": rows}
    made = step.tables(result)
    assert len(made) == 3
    assert all([row[0] for row in numbers(table)] == [4, 8] for table in made)
    assert made[1].title == f"Extrapolated to {rows[0]['whole']['layers']} layers"
    rows[0]["whole"]["paper"] = 2.07
    assert whole_table(result).rows[0][3] == Value(rows[0]["whole"]["speedup"], paper=2.07)
    bare = [row | {"whole": None, "library": None} for row in rows]
    assert len(step.tables(result | {"rows": bare})) == 1


def test_a_gain_over_the_library_stands_beside_what_was_not_computed() -> None:
    """By hand, in multiplications: 2 layers of LLaDA-8B, P = G = 64."""
    times = dict.fromkeys(("ours_ms", "all_ms", "response_ms", "gain_all", "gain_response"), 1.0)
    result = {"shape": "llada-8b", "layers": 2, "response": 64}
    result |= {"rows": [{"prompt": 64, "library": times}]}
    keys, rest, scores = 2 * 4096**2, 2 * 4096**2 + 3 * 4096 * 12288 + 2 * 4096 * 128, 4096 * 126464
    layer = 128 * (keys + rest)
    ours = layer + 128 * keys + 64 * rest + 64 * scores
    (row,) = numbers(library_table(result))
    assert row[4] == (2 * layer + 128 * scores) / ours
    assert row[7] == (2 * layer + 64 * scores) / ours
    assert numbers(library_table(result | {"shape": "mine"}))[0][4] is None


def test_a_fraction_of_the_limit_has_an_interval_and_a_word_on_noise() -> None:
    reached = fraction(0.9, {"full": 0.2, "cached": 0.1})
    assert reached.low == pytest.approx(0.9 * 0.9 / 1.05)
    assert reached.high == pytest.approx(0.9 * 1.1 / 0.95)
    assert noise([0.9, 1.0]) == ()
    assert "above 1 (here up to 1.18)" in noise([0.9, 1.18, 1.02])[0]


def test_turns_become_tables_by_their_number_of_rows() -> None:
    timed = [{"shares": [[10, 20, 5]] * rows, "seconds": 0.01 * rows} for rows in (1, 2, 2)]
    fitted = {"per_turn": 0.0, "per_row": 0.01, "per_column": 0.0, "per_pair": 0.0}
    turns, costs = passes.tables(
        {"timed": timed, "fitted": fitted | {"per_scored": 0.0, "error": 0.1}}
    )
    assert [row[:4] for row in numbers(turns)] == [[1, 1, 10, 20], [2, 2, 20, 40]]
    assert numbers(turns)[1][4:6] == [20.0, 20.0]
    assert costs.notes == ("The median turn is off by 10.0 %.",)


def test_aims_that_were_not_measured_are_not_told() -> None:
    ways = ("one at a time", "engine", "engine, one at a time")
    rows = [
        {"way": way, "load": 0.8, "p99_small": 1.0, "cpu": 1.0, "throughput": 1.0} for way in ways
    ]
    rows[1]["p99_small"] = 0.2
    made = traffic.aims({"rows": rows})
    assert [(row[0], row[4]) for row in numbers(made)] == [
        ("p99 of small requests", "reached"),
        ("CPU without company", "reached"),
    ]
