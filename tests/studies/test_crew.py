"""Reproducing with several processes: shared arms first and once, then the studies, each with its report."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from archer.cli import main
from archer.errors import ArcherError
from archer.studies import crew
from archer.studies.lab import Lab, Wanted
from archer.studies.registry import STUDIES
from archer.studies.study import Measured, Presented, Study
from studies.tiny_lab import PROBLEMS, tiny_lab


@dataclass(frozen=True)
class Tiny:
    """Where the lab of a test is."""

    folder: Path

    def lab(self) -> Lab:
        return tiny_lab(self.folder)


@contextmanager
def threads(workers: int) -> Iterator[Executor]:
    """In this process, so that the studies of a test are known in it; one by one, as labs are not shared."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def counted(lab: Lab) -> Measured:
    """What arms there are when the study begins."""
    return Measured(1, [{"arms": len(list((lab.out / "arms").iterdir()))}], {})


def fail(lab: Lab) -> Measured:
    raise ArcherError("it broke")


def nothing(result: object) -> Presented:
    return Presented([])


def wanted(lab: Lab) -> list[Wanted]:
    return [Wanted("saber"), Wanted("saber", task="tiny-long", problems=2)]


GOOD = Study("good", "Good", {}, counted, nothing, arms=wanted)
ALSO = Study("also", "Also", {}, counted, nothing, arms=wanted)
BAD = Study("bad", "Bad", {}, fail, nothing, arms=lambda lab: [Wanted("no such method")])


def test_shared_arms_come_first_and_failures_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for study in (GOOD, ALSO, BAD):
        monkeypatch.setitem(STUDIES, study.name, study)
    monkeypatch.setattr(crew, "_pool", threads)
    place, said = Tiny(tmp_path), list[str]()
    lab = place.lab()
    failed = crew.reproduce_together(place, lab, ["good", "also", "bad"], 2, said.append)
    assert failed == {"bad": "it broke"}
    assert f"1 of 3 shared arms: saber on tiny, {PROBLEMS} problems." in said
    assert "2 of 3 shared arms: saber on tiny-long, 2 problems." in said
    assert any("3 of 3 shared arms: no such method on tiny: " in line for line in said)
    assert sorted(said[3:]) == ["also: done in 0 s.", "bad: failed: it broke", "good: done in 0 s."]
    assert '"arms": 2' in (lab.out / "good.json").read_text()
    assert b"Also" in (lab.out / "report.html").read_bytes()
    again: list[str] = []
    assert crew.reproduce_together(place, lab, ["good", "also"], 2, again.append) == {}
    assert again == ["good: done already.", "also: done already."]


def test_every_declared_arm_is_one_that_the_study_asks_for(tmp_path: Path) -> None:
    """Running them ahead leaves nothing that two studies would run at once."""
    lab = tiny_lab(tmp_path)
    declaring = [study for study in STUDIES.values() if study.arms(lab)]
    assert {study.name for study in declaring} == {"main", "radius", "validity"}
    for study in declaring:
        for each in study.arms(lab):
            lab.run(each)
        before = set((lab.out / "arms").iterdir())
        study.measure(lab)
        assert set((lab.out / "arms").iterdir()) == before, study.name


def test_no_workers_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["reproduce", "--workers", "0", "--out", str(tmp_path / "out")]) == 2
    assert "--workers takes a number above 0, not 0" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
