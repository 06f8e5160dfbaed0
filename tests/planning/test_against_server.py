"""The simulation against measured servers: of a recording, and of the one that is committed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from archer.costs.pass_times import Timed
from archer.costs.recording import (
    MeasuredLoad,
    Recording,
    plain,
    recording_of,
    timed_of,
)
from archer.costs.workload import even
from archer.errors import BadRequest
from archer.files import read_json
from archer.planning.simulation import EngineScheduler, SimulatedRequest, simulate
from conftest import REPOSITORY
from planning.against_server import compared
from planning.drawing import COSTS

WITHIN = 0.2
"""Fraction by which a simulated percentile may miss the measured one."""


def test_the_committed_measurement_of_a_server_is_simulated_rightly() -> None:
    found = read_json(REPOSITORY / "docs" / "results" / "serve-pocket.json")
    rows = list(compared(recording_of(found, "serve-pocket.json")))
    assert len(rows) == 2 * len(found["rows"])
    assert {f"{row.load}, {row.what}": row.error for row in rows if abs(row.error) > WITHIN} == {}


def recording(drift: float = 1.0) -> Recording:
    """As if the simulated machine had been measured; it was `drift` times as fast when turns were timed."""
    made = [even(20 + 7 * number, 16, 9, 3) for number in range(8)]
    asked = [SimulatedRequest(each) for each in made]
    arrivals = tuple(0.1 * number for number in range(8))
    ran = simulate(asked, arrivals, lambda: EngineScheduler(64), COSTS)
    waits = tuple((each.number, each.seconds) for each in ran.answered)
    timed = [
        Timed(shares[:rows], COSTS.seconds(shares[:rows]) / drift)
        for shares in (made[0].shares, made[5].shares, made[7].shares)
        for rows in (1, 2, 4)
    ]
    run = MeasuredLoad("arrivals", arrivals, seconds=9.0, waits=waits, cpu=ran.busy)
    return Recording(64, tuple(timed), tuple(made), (run,))


def test_a_simulation_of_what_was_simulated_is_right() -> None:
    found = json.loads(json.dumps({"recording": plain(recording())}))
    read = recording_of(found, "serve.json")
    assert read == recording()
    assert timed_of(found, "serve.json") == read.timed
    assert timed_of({"timed": plain(read.timed)}, "passes.json") == read.timed
    found = list(compared(read))
    assert [each.what for each in found] == ["p50", "p99"]
    assert max(abs(each.error) for each in found) < 0.02


@pytest.mark.parametrize("drift", [0.7, 1.25])
def test_a_machine_that_drifts_after_its_turns_were_timed_is_followed(drift: float) -> None:
    made = recording(drift)
    for each in compared(made):
        assert abs(each.error) < 0.02
        assert each.drift == pytest.approx(drift, rel=0.02)
    (run,) = made.runs
    unpaced = replace(made, runs=(replace(run, cpu=0.0),))
    assert max(abs(each.error) for each in compared(unpaced)) > 0.1, "nobody counted what it took"


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        ("{", "holds no JSON"),
        ("[1]", "holds no JSON object"),
        ("{}", "holds no recording .* Measure again"),
        ('{"recording": {"budget": 3}}', "is damaged \\(timed: Field required\\)"),
    ],
)
def test_recordings_that_are_none(tmp_path: Path, content: str, phrase: str) -> None:
    path = tmp_path / "serve.json"
    path.write_text(content)
    with pytest.raises(BadRequest, match=phrase):
        recording_of(read_json(path), "serve.json")
    with pytest.raises(BadRequest, match="cannot be read"):
        read_json(tmp_path / "none")
    if content == "{}":
        with pytest.raises(BadRequest, match="holds no timed passes"):
            timed_of({}, "serve.json")
