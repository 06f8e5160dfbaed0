"""The smaller commands: methods, models, doctor, demo, help and version."""

from __future__ import annotations

import json
import re
import sys

import pytest

import archer.checks.doctor
from archer import __version__
from archer.checks.doctor import Report
from archer.cli import COMMANDS, main
from archer.loading.architectures import ARCHITECTURES
from archer.loading.hub import BUNDLED
from archer.machine.devices import Attempt, Bf16
from archer.methods.catalogue import DECODERS, DEFAULT_METHOD, METHODS, POLICIES
from archer.pocket.results import published
from support.terminals import in_terminal, plain

Capture = pytest.CaptureFixture[str]


def test_methods_are_listed_with_a_line_each(capsys: Capture) -> None:
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in (*METHODS, *DECODERS, *POLICIES):
        assert any(line.startswith(f"  {name} ") for line in lines), name
    assert any(line.strip() == "radius=8" for line in lines)


def test_methods_as_json(capsys: Capture) -> None:
    assert main(["methods", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["methods"]) == list(METHODS)
    assert found["decoders"]["saber"]["settings"]["n"] == 2
    assert "rollback" not in found["decoders"]["saber"]["settings"]
    assert found["policies"]["archer"]["settings"] == {"radius": 8}
    assert found["presets"]["paper"]["radius"] == 8
    assert found["common"]["settings"]["length"] == 256


def test_models_are_listed(capsys: Capture) -> None:
    assert main(["models"]) == 0
    out = capsys.readouterr().out
    for name, row in ARCHITECTURES.items():
        assert (name in out) == bool(row.models), "nobody can load what is published nowhere"
        assert all(each.id in out for each in row.models)
    for name, each in BUNDLED.items():
        assert re.search(rf"^  {name} +{re.escape(each.note)}$", out, re.MULTILINE)


def test_models_as_json(capsys: Capture) -> None:
    assert main(["models", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bundled"] == ["pocket", "pocket-dream", "pocket-blind"]
    assert found["architectures"]["DreamModel"]["trained_window"] == 2048
    ids = [each["id"] for each in found["architectures"]["LLaDAModelLM"]["models"]]
    assert "GSAI-ML/LLaDA-8B-Instruct" in ids


def test_doctor(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    bf16 = Bf16(Attempt("killed", "by SIGILL"))
    report = Report("3.11", "Linux", ("cpu",), "cpu", "float32", 2, {"torch": "2"}, bf16, "B: x")
    monkeypatch.setattr(archer.checks.doctor, "examine", lambda: report)
    assert main(["doctor"]) == 0
    *facts, blank, remedy = capsys.readouterr().out.splitlines()
    assert facts[0] == "python       3.11"
    assert facts[-1] == "bf16 on cpu  killed by SIGILL"
    assert blank == ""
    assert remedy.endswith("Use float32.")
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bf16"]["as_is"]["outcome"] == "killed"
    assert found["device"] == "cpu"
    assert found["judge"] == "B: x"


def test_what_doctor_says_of_the_judge_stays_in_its_column(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    walls, bf16 = "A: " + "wall " * 20, Bf16(Attempt("ok"))
    report = Report("3.11", "Linux", ("cpu",), "cpu", "float32", 2, {"torch": "2"}, bf16, walls)
    monkeypatch.setattr(archer.checks.doctor, "examine", lambda: report)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["doctor"]) == 0
    *_, broken, last = capsys.readouterr().out.splitlines()
    assert last == "bf16 on cpu  ok"
    assert broken.startswith(" " * len("bf16 on cpu  ") + "wall")


def test_demo_solves_and_compares(capsys: Capture) -> None:
    """A real token is taken back and changed; scores are the published ones, times those of this machine."""
    assert main(["demo", "--problems", "1"]) == 0
    out = capsys.readouterr().out
    assert "saber wrote ')' at update" in out
    assert "archer-doubt wrote ')' at update" in out
    assert out.count("startswith('o')") == 2
    assert "just now, the mean of 1 problem, on this machine" in out
    for row in published()["methods"].values():
        if row["arm"] in ("LLaDA-Confidence", "Saber", "Archer", "archer-doubt"):
            line = next(line for line in out.splitlines() if line.startswith(f"{row['arm']}  "))
            assert f"{row['visible']['score']:.1f} % [{row['visible']['low']:.0f}, " in line


def test_the_demo_draws_two_methods_side_by_side() -> None:
    written = plain(in_terminal(["demo", "--problems", "1"]))
    assert any(
        "saber · pocket" in line and f"{DEFAULT_METHOD} · pocket" in line
        for line in written.split("\n")
    )
    table = written[written.index("visible tests") :].split("\n")[1:5]
    assert all(re.search(r"% \[\d\d, \d\d\].*x$", row.rstrip()) for row in table), "a line each"


def test_a_demo_needs_problems(capsys: Capture) -> None:
    assert main(["demo", "--problems", "0"]) == 2
    assert "above 0" in capsys.readouterr().err


def test_version_and_help(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: Capture) -> None:
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: archer {name}")


def test_an_unknown_command_gets_a_hint(capsys: Capture) -> None:
    assert main(["genrate"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith('archer: Unknown command "genrate". Did you mean "generate"?')
    assert err.count("\n") == 1
