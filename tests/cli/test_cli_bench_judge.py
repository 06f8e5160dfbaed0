"""`archer bench judge`: the table, the object, and what is refused."""

import json
import re

import pytest

from archer.bench import judge as measure
from archer.bench.judge import Speed, Spread
from archer.cli import main

Capture = pytest.CaptureFixture[str]

MACHINE = {"cpu": "Fast", "cores": 2, "load": 0.5, "platform": "Linux", "python": "3.11"}
NAMES = "first", "first_verdict", "warm", "warm_verdict", "warm_check"
SPREADS = {
    name: Spread(best, best + 0.25, best + 0.5)
    for name, best in zip(NAMES, (5.0, 6.0, 0.5, 0.75, 1.0), strict=True)
}


def made(samples: int, programs: int) -> Speed:
    return Speed("A", SPREADS, 99.5, samples, programs, MACHINE)


def test_the_table(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "measure", made)
    assert main(["bench", "judge"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ("tier A, samples 100, programs 300. Fast, 2 cores, load 0.5, Python 3.11.")
    rows = [line for line in lines if re.match(r"\| (first|warm)", line)]
    assert rows[0] == "| first answer | 5.00 | 5.25 | 5.50 |"
    assert [row.split(" | ")[1] for row in rows] == ["5.00", "6.00", "0.50", "0.75", "1.00"]
    assert "All cores together judge 99.5 programs a second." in lines[-2]


def test_the_object(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "measure", made)
    assert main(["bench", "judge", "--samples", "7", "--programs", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["warm"] == {"best": 0.5, "median": 0.75, "ninth_decile": 1.0}
    assert (found["samples"], found["programs"], found["machine"]) == (7, 8, MACHINE)
