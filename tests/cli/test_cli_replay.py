"""`archer replay`: exit codes, the last line, and what is said about a trace that was tampered with."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import archer.model
from archer.cli import main
from archer.model import Model
from conftest import shared

Capture = pytest.CaptureFixture[str]
Case = dict[str, Any]


def golden(name: str, count: int = 1) -> list[Case]:
    lines = shared("data", "golden", "traces", f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in lines.splitlines()[:count]]


def checkpoints() -> str:
    return str(shared("data", "golden", "checkpoints"))


def write(path: Path, cases: list[Case]) -> str:
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    return str(path)


def test_identical_traces_exit_0(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path / "a.jsonl", golden("llada-tiny-a.archer_saber", 2))
    write(tmp_path / "b.jsonl", golden("dream-tiny.archer_saber"))
    assert main(["replay", str(tmp_path), "--checkpoints", checkpoints()]) == 0
    assert capsys.readouterr() == ("3 of 3 identical\n", "")
    assert main(["replay", file, file, "--checkpoints", checkpoints(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"identical": 4, "total": 4, "unsupported": 0, "mismatches": []}


@pytest.mark.parametrize("field", ["states", "response"])
def test_mismatches_exit_1_and_say_where(field: str, tmp_path: Path, capsys: Capture) -> None:
    good, bad = golden("llada-tiny-a.archer_saber", 2)
    changed = bad["states"][4] if field == "states" else bad["response"]
    changed[0] += 1
    file = write(tmp_path / "a.jsonl", [good, bad])
    assert main(["replay", file, "--checkpoints", checkpoints()]) == 1
    where = "differs first at update 5" if field == "states" else "differs"
    lines = [f"{bad['id']}: {field} {where}", "1 of 2 identical"]
    assert capsys.readouterr().out.splitlines() == lines
    assert main(["replay", file, "--checkpoints", checkpoints(), "--json"]) == 1
    update = 5 if field == "states" else None
    found = json.loads(capsys.readouterr().out)
    assert found["mismatches"] == [{"id": bad["id"], "field": field, "update": update}]


def test_methods_that_are_not_built_count_unless_skipped(tmp_path: Path, capsys: Capture) -> None:
    (case,) = golden("llada-tiny-a.archer_saber")
    strange = case | {"id": "strange", "method": "crystal_ball"}
    argv = ["replay", write(tmp_path / "a.jsonl", [case, strange]), "--checkpoints", checkpoints()]
    assert main(argv) == 1
    assert capsys.readouterr().out.splitlines() == [
        "strange: the method 'crystal_ball' is not supported",
        "1 of 2 identical",
    ]
    assert main([*argv, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["unsupported"] == 1
    assert main([*argv, "--skip-unsupported"]) == 0
    assert capsys.readouterr().out == "1 of 1 identical\n"


def test_nan_logits_exit_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    load = archer.model.load

    def poison(*args: Any, **options: Any) -> Model:
        model = load(*args, **options)
        model.network.embedding.data.fill_(math.nan)
        return model

    monkeypatch.setattr("archer.checks.replay.load", poison)
    file = write(tmp_path / "a.jsonl", golden("llada-tiny-a.archer_saber"))
    assert main(["replay", file, "--checkpoints", checkpoints()]) == 1
    assert "The full pass of update 1 returned NaN" in capsys.readouterr().err
