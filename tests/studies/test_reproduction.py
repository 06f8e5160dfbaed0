"""`archer study` and `archer reproduce`, as users call them, on the bundled model."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from archer.errors import ArcherError
from archer.files import replace_json
from archer.pages.page import Presented, files_of
from archer.runs.workspace import Workspace
from archer_studies import registry, reproduction
from archer_studies.reproduction import conclusions
from archer_studies.study import Measured, Study
from studies.tiny_workspace import tiny_workspace

pytest.importorskip("matplotlib", reason="figures come with the extra [report]")
Capture = pytest.CaptureFixture[str]
KEYS = {"study", "n", "settings", "rows", "paper", "seconds"}
LARGEST_REPORT = 5 << 20
MAY_BE_EMPTY = {"cases"}
"""So few problems need not hold one that only one method solves."""


FEW = ("theory", "cases")
"""A study of shadow passes, and one of the arms that others have in common."""


def reproduced(out: Path, capsys: Capture, *options: str) -> None:
    """All studies by the command, then once more, when nothing is left to do."""
    asked = ["reproduce", "--quick", "--problems", "2", "--out", str(out), *options]
    assert main(asked) == 0
    for name, study in registry.STUDIES.items():
        result = json.loads((out / f"{name}.json").read_text())
        assert result.keys() >= KEYS
        assert result["rows"], name
        presented = study.present(result)
        assert presented.tables, name
        assert name in MAY_BE_EMPTY or presented.tables[0].rows, name
        for file, content in files_of(study.name, presented):
            assert (out / file).read_bytes() == content, file
    report = out / "report.html"
    assert report.stat().st_size < LARGEST_REPORT
    before = report.read_bytes()
    today = datetime.now(UTC).date().isoformat()
    command = f"archer reproduce --problems 2 --quick --out {out}"
    assert f"Model pocket, task pocket, measured {today[:8]}" in before.decode()
    assert f"Made by: {command}." in before.decode()
    capsys.readouterr()
    assert main(asked) == 0
    assert capsys.readouterr().err.count("done already") == len(registry.STUDIES)
    assert report.read_bytes() == before


@pytest.mark.slow
def test_some_studies_are_reproduced_quickly(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "STUDIES", {name: registry.STUDIES[name] for name in FEW})
    reproduced(tmp_path / "some", capsys)


@pytest.mark.slow
def test_everything_is_reproduced_quickly(tmp_path: Path, capsys: Capture) -> None:
    reproduced(tmp_path / "all", capsys, "--workers", "2")


def made(name: str, measure: Any) -> Study:
    return Study(name, name.title(), name, measure, lambda result: Presented([]))


def test_a_failing_study_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    def fail(workspace: object) -> Measured:
        raise ArcherError("it broke")

    good = made("good", lambda workspace: Measured(1, [{"x": 1}], {}))
    said: list[str] = []
    workspace = tiny_workspace(tmp_path)
    failed = reproduction.reproduce(workspace, [made("bad", fail), good], said.append)
    assert failed == {"bad": "it broke"}
    assert (workspace.out / "good.json").is_file()
    assert not (workspace.out / "bad.json").exists()
    assert said == ["bad: failed: it broke", "good: done in 0 s."]
    assert b"Good" in (workspace.out / "report.html").read_bytes()


def test_a_report_without_results_says_so(tmp_path: Path) -> None:
    path = reproduction.write_report(tmp_path, list(registry.STUDIES.values()))
    assert "No study has a result yet" in path.read_text()


def test_days_of_a_report_are_a_day_or_a_range(tmp_path: Path) -> None:
    studies = [made(name, None) for name in ("a", "b")]
    for study, day in zip(studies, ("2026-01-02", "2026-01-09"), strict=True):
        settings = {"model": "m", "task": "t"}
        replace_json(
            tmp_path / f"{study.name}.json", {"settings": settings, "measured": day, "rows": []}
        )
    page = reproduction.write_report(tmp_path, studies).read_text()
    assert "<h1>The paper&#x27;s studies, measured with m on t</h1>" in page
    assert "Model m, task t, measured 2026-01-02 to 2026-01-09." in page
    assert "Model m, task t, measured 2026-01-02." in (
        reproduction.write_report(tmp_path, studies[:1]).read_text()
    )


def test_every_study_is_listed_with_what_it_measures(capsys: Capture) -> None:
    assert main(["study", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == [*registry.STUDIES, *registry.BEYOND]
    titles = {study.title for study in (registry.STUDIES | registry.BEYOND).values()}
    assert not titles & set(told.values())
    assert main(["study"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in told)
    assert f"all but the last {len(registry.BEYOND)}" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["study", "nope"], "There is no study 'nope'. The studies are main"),
        (["study", "raduis"], "There is no study 'raduis'. Did you mean 'radius'? The studies are"),
        (["study", "radius", "--task", "nope"], "There is no task 'nope'"),
        (
            ["reproduce", "--problems", "0"],
            "for --problems: give a whole number of at least 1, not 0",
        ),
        (
            ["study", "radius", "--workers", "0"],
            "for --workers: give a whole number from 1 to 512, not 0",
        ),
        (["reproduce", "--workers", "0"], "for --workers: give a whole number from 1 to 512"),
    ],
)
def test_bad_requests_are_refused(
    arguments: list[str], sentence: str, capsys: Capture, tmp_path: Path
) -> None:
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_workers_are_hired_once_and_studies_run_one_after_the_other(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every study finds the same executor, and `--shards` is refused before a shard starts."""
    seen: list[object] = []

    def measure(workspace: Workspace) -> Measured:
        assert workspace.executor is not None
        seen.append(workspace.executor)
        return Measured(1, [{"workers": workspace.executor.workers}], {})

    studies = {name: made(name, measure) for name in ("first", "second")}
    monkeypatch.setattr(registry, "STUDIES", studies)
    assert main(["reproduce", "--workers", "2", "--quick", "--out", str(tmp_path / "out")]) == 0
    assert seen[0] is seen[1]
    assert json.loads((tmp_path / "out" / "second.json").read_text())["rows"] == [{"workers": 2}]
    capsys.readouterr()
    monkeypatch.setattr("archer.cli.options.ModelOptions.load", None)
    both = ["--shards", "2", "--workers", "2", "--out", str(tmp_path / "other")]
    for command in (["study", "first"], ["reproduce"]):
        assert main([*command, *both]) == 2
        assert "--shards works with neither --workers nor --ray" in capsys.readouterr().err


def row(
    method: str, base: float, speedup: float, p: float = 1.0, task: str = "toy"
) -> dict[str, Any]:
    return {
        "task": task,
        "method": method,
        "arm": method.capitalize(),
        "n": 40,
        "base": base,
        "speedup": speedup,
        "speedup_interval": [speedup - 0.1, speedup + 0.1],
        "saber_base_p": p,
    }


@pytest.mark.parametrize(
    ("base", "p", "told"),
    [
        (72.5, 0.2, "no significant difference (p = 0.2)"),
        (72.5, 0.01, "fewer (p = 0.01)"),
        (80.0, 0.0001, "more (p < 0.001)"),
    ],
)
def test_the_difference_is_told_by_its_test(base: float, p: float, told: str) -> None:
    rows = [row("saber", 76.0, 1.3), row("archer", base, 1.6, p), row("dkv-decode", 90.0, 2.0)]
    (said,) = conclusions({"main": {"rows": rows}})
    assert said.startswith("toy: Archer solves ")
    assert told in said
    assert "1.60 times as fast as LLaDA-Confidence (95 %: 1.50 to 1.70), Saber 1.30 times" in said
    assert said.endswith("Faster, with a score at least as high: Dkv-decode.")


def test_faster_is_said_only_where_intervals_are_apart() -> None:
    rows = [
        row("saber", 76.0, 1.3),
        row("archer", 72.0, 1.6),
        row("near", 74.0, 1.75),
        row("far", 74.0, 1.81),
        row("worse", 60.0, 9.0),
    ]
    (said,) = conclusions({"main": {"rows": rows}})
    assert "Faster, with a score at least as high: Far. About as fast" in said
    assert said.endswith("About as fast, with a score at least as high: Near.")


def test_without_the_study_nothing_is_said() -> None:
    assert conclusions({}) == []
    assert conclusions({"main": {"rows": [row("saber", 1.0, 1.0)]}}) == [""]
