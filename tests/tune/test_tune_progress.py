"""What a user sees of a search while it runs."""

import io

import pytest
from rich.console import Console

from archer.runs.folder import Recorded
from archer.terminal.meters import TuneProgress
from studies.tiny_workspace import made_arm

NOTHING = Recorded({}, {})
_MADE = made_arm({"a": {}}).run.recorded
SAMPLE, GRADE = _MADE.samples["a"], _MADE.grades["a"]


def test_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    now = [0.0]
    monkeypatch.setattr("archer.terminal.meters.time.monotonic", lambda: now[0])
    with TuneProgress(Console(file=io.StringIO()), said.append) as progress:
        progress.round(0, 3, 10, 2)
        progress.begun(2, NOTHING)
        progress.sampled(SAMPLE)
        progress.graded(GRADE)
        assert said == ["calibration: 10 methods, 2 more problems."]
        now[0] = 31.0
        progress.sampled(SAMPLE)
        now[0] = 70.0
        progress.skipped(2)
        progress.round(1, 3, 10, 4)
        now[0] = 120.0
        progress.begun(4, Recorded({"a": SAMPLE, "b": SAMPLE}, {}))
    assert said[1:] == [
        "calibration: 2 of 20 decoded.",
        "calibration: 4 of 20 decoded.",
        "round 1 of 3: 10 methods, 4 more problems.",
        "round 1 of 3: 2 of 40 decoded.",
    ]


def test_a_bar_in_a_terminal() -> None:
    drawn, said = io.StringIO(), list[str]()
    console = Console(file=drawn, force_terminal=True, width=120)
    with TuneProgress(console, said.append) as progress:
        progress.round(1, 2, 5, 4)
        progress.begun(4, NOTHING)
        for _ in range(4):
            progress.sampled(SAMPLE)
        progress.round(2, 2, 3, 6)
    assert "round 1 of 2: 5 methods, 4 problems" in drawn.getvalue()
    assert "4/20" in drawn.getvalue()
    assert "round 2 of 2: 3 methods, 6 problems" in drawn.getvalue()
    assert said == []
