"""`archer replay`: exit codes, the last line, and what is said about a trace that was tampered with."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
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


def later(case: Case) -> None:
    case["states"][4][0] += 1


def cut(case: Case) -> None:
    case["fed"].pop()


def bar(case: Case) -> None:
    case["tau"][2] += 2e-4


def other(case: Case) -> None:
    case["response"][0] += 1


TAMPERED: dict[str, tuple[Callable[[Case], None], str, int | None]] = {
    "a later state": (later, "states", 5),
    "a call less": (cut, "fed", None),
    "another bar": (bar, "tau", 3),
    "another response": (other, "response", None),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_mismatches_exit_1_and_say_where(name: str, tmp_path: Path, capsys: Capture) -> None:
    tamper, field, update = TAMPERED[name]
    good, bad = golden("llada-tiny-a.archer_saber", 2)
    tamper(bad)
    if field == "fed":
        update = bad["updates"]
    file = write(tmp_path / "a.jsonl", [good, bad])
    assert main(["replay", file, "--checkpoints", checkpoints()]) == 1
    first, last = capsys.readouterr().out.splitlines()
    where = "differs" if update is None else f"differs first at update {update}"
    assert first == f"{bad['id']}: {field} {where}"
    assert last == "1 of 2 identical"
    assert main(["replay", file, "--checkpoints", checkpoints(), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["mismatches"] == [{"id": bad["id"], "field": field, "update": update}]


def test_a_small_difference_of_the_bar_is_none(tmp_path: Path) -> None:
    (case,) = golden("llada-tiny-a.archer_saber")
    case["tau"][2] += 5e-5
    file = write(tmp_path / "a.jsonl", [case])
    assert main(["replay", file, "--checkpoints", checkpoints()]) == 0


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


def unknown_checkpoint(case: Case) -> None:
    case["checkpoint"] = "nowhere"


def escaping_checkpoint(case: Case) -> None:
    case["checkpoint"] = "../checkpoints/llada-tiny-a"


def bad_radius(case: Case) -> None:
    case["settings"]["radius"] = 0


def no_states(case: Case) -> None:
    del case["states"]


def mask_in_prompt(case: Case) -> None:
    case["prompt"].append(199)


BAD: dict[str, tuple[Callable[[Case], None], str]] = {
    "unknown checkpoint": (unknown_checkpoint, "There is no checkpoint 'nowhere'"),
    "escaping checkpoint": (escaping_checkpoint, "There is no checkpoint '../"),
    "radius 0": (bad_radius, "cannot be run: radius"),
    "field missing": (no_states, "states: Field required"),
    "mask in the prompt": (mask_in_prompt, "the mask id 199"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_traces_exit_2(name: str, tmp_path: Path, capsys: Capture) -> None:
    tamper, sentence = BAD[name]
    (case,) = golden("llada-tiny-a.archer_saber")
    tamper(case)
    file = write(tmp_path / "a.jsonl", [case])
    assert main(["replay", file, "--checkpoints", checkpoints()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("archer: ")
    assert sentence in err


@pytest.mark.parametrize("content", [b"", b"{", b"[1]\n", b"\xff\n", b"[" * 100_000])
def test_files_that_are_no_traces_exit_2(content: bytes, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(content)
    assert main(["replay", str(file), "--checkpoints", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_missing_arguments_exit_2(tmp_path: Path, capsys: Capture) -> None:
    assert main(["replay", str(tmp_path / "none.jsonl"), "--checkpoints", str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["replay", "--checkpoints", str(tmp_path)]) == 2
    assert "no recorded trajectory" in capsys.readouterr().err
    assert main(["replay", str(tmp_path)]) == 2
    assert "--checkpoints" in capsys.readouterr().err


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
