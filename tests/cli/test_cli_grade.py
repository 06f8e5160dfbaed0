"""`archer grade`, in process: verdicts, scores, exit codes, and everything that is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from archer.judge import Judge, Verdict
from conftest import shared

Capture = pytest.CaptureFixture[str]
GOOD = "    return [x for x in strings if substring in x]\n```"


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = shared("data")
    monkeypatch.setenv("ARCHER_SHARED", str(folder.parent))
    return folder


def write(folder: Path, *rows: object) -> str:
    path = folder / "completions.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


def row(key: str | int, text: str) -> dict[str, Any]:
    return {"task_id": key, "completion": text}


def graded(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main(["grade", *arguments, "--json", "--workers", "1"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: Capture, *arguments: str) -> str:
    assert main(["grade", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("archer: ")
    assert err.count("\n") == 1
    return err


def test_verdicts_of_programs(tmp_path: Path, capsys: Capture) -> None:
    file = write(
        tmp_path,
        row("HumanEval/7", GOOD),
        row("HumanEval/1", "    return []\n```"),
        row("HumanEval/2", "    import os\n    os._exit(0)\n```"),
        row("HumanEval/3", "Sure:\n```python\ndef below_zero(operations):\n    return True\n```"),
    )
    found = graded(capsys, "humaneval", file)
    assert found["task"] == "humaneval"
    assert found["n"] == 4
    assert found["score"] == found["score_as_published"] == 0.25
    assert found["tier"] in "ABCDEF"
    assert [each["task_id"] for each in found["rows"]] == [f"HumanEval/{n}" for n in (7, 1, 2, 3)]
    assert [each["verdict"] for each in found["rows"]] == ["pass", "fail", "crash", "fail"]
    assert "AssertionError" in found["rows"][1]["reason"]
    assert all(each["seconds"] > 0 for each in found["rows"])
    assert found["details"]["judge"]["limits"]["cpu_seconds"] == 10
    assert list(found["details"]["data"]) == ["humaneval/HumanEval.jsonl.gz"]


def test_both_readings_are_reported(tmp_path: Path, capsys: Capture) -> None:
    text = "def similar_elements(a, b):\n    return tuple(set(a) & set(b))"
    found = graded(capsys, "mbpp", write(tmp_path, row("2", text)))
    assert (found["score"], found["score_as_published"]) == (1.0, 0.0)
    assert found["rows"][0]["task_id"] == 2
    assert found["rows"][0]["verdict_as_published"] == "fail"
    assert "unexpected indent" in found["rows"][0]["reason_as_published"]


def test_raw_takes_whole_programs(tmp_path: Path, capsys: Capture) -> None:
    text = "def similar_elements(a, b):\n    return tuple(set(a) & set(b))"
    file = write(tmp_path, row(2, text), row(3, f"```python\n{text}\n```"))
    found = graded(capsys, "mbpp", file, "--raw")
    assert [each["verdict"] for each in found["rows"]] == ["pass", "fail"]
    assert found["rows"][0]["verdict_as_published"] == "pass"


def test_the_extended_tests_have_names_of_their_own(tmp_path: Path, capsys: Capture) -> None:
    found = graded(capsys, "humaneval-et", write(tmp_path, row("HumanEval/7", GOOD)))
    assert found["score"] == found["details"]["score_clean"] == 1.0


def test_references_and_limit(capsys: Capture) -> None:
    found = graded(capsys, "humaneval", "--reference", "--limit", "3")
    assert [each["task_id"] for each in found["rows"]] == [f"HumanEval/{n}" for n in range(3)]
    assert found["score"] == 1.0


def test_answers_need_no_judge(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path, row(21645374, " yes"), row("16418930", " maybe"))
    found = graded(capsys, "pubmedqa", file)
    assert found["tier"] is None
    assert found["score"] == 0.5
    assert found["details"]["recall"]["yes"] == 1.0


def test_lines_for_people(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path, row(21645374, "no one knows. The answer is yes."))
    assert main(["grade", "pubmedqa", file]) == 0
    out = capsys.readouterr().out
    assert "21645374  pass  0.000 s  (as published: fail)\n" in out
    assert "accuracy (repaired)      1.0000\naccuracy (as published)  0.0000\n" in out
    assert "recall  yes 1.0000, no unknown, maybe unknown\n" in out


def test_samples_are_never_called_pass_at_1(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path, row("1873_A", "```python\nprint('YES')\n```"), row("abc337_e", ""))
    assert main(["grade", "livecodebench-samples", file]) == 0
    out = capsys.readouterr().out
    assert "samples_passed" in out
    assert "pass@1" not in out.lower()
    assert "abc337_e  fail" in out


def test_a_fault_of_the_judge_is_no_wrong_answer(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def broken(self: Judge, check: object, *, again: bool = True) -> Verdict:
        calls.append(check)
        return Verdict("harness_error", "The sandbox is gone.")

    monkeypatch.setattr(Judge, "grade", broken)
    file = write(tmp_path, row("HumanEval/7", GOOD))
    found = graded(capsys, "humaneval", file, code=1)
    assert found["score"] is None
    assert found["rows"][0]["verdict"] == "harness_error"
    assert len(calls) >= 2
    assert main(["grade", "humaneval", file]) == 1
    out, err = capsys.readouterr()
    assert "pass@1 (repaired)      unknown" in out
    assert "1 of 1 rows could not be judged" in err


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "lacks task_id or completion"),
        ('{"task_id": "HumanEval/1"}', "lacks task_id or completion"),
        ('{"task_id": 1.5, "completion": ""}', "neither a number nor a text"),
        ('{"task_id": true, "completion": ""}', "neither a number nor a text"),
        ('{"task_id": "HumanEval/1", "completion": null}', "not a text"),
        ('{"task_id": "HumanEval/999", "completion": ""}', "'HumanEval/999'"),
        ('{"task_id": "HumanEval/0", "completion": ""}', "as line 1 has already"),
        ("[" * 100_000, "not JSON"),
    ],
    ids=range(9),
)
def test_a_bad_line_is_refused_with_its_number(
    tmp_path: Path, capsys: Capture, line: str, reason: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"task_id": "HumanEval/0", "completion": ""}}\n\n{line}\n')
    err = refused(capsys, "humaneval", str(path))
    assert "Line 3 of" in err
    assert reason in err


def test_bytes_that_are_no_text_are_refused(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"task_id": "HumanEval/0", "completion": "\xff"}\n')
    assert "Line 1 of" in refused(capsys, "humaneval", str(path))


def test_no_completions_are_refused(tmp_path: Path, capsys: Capture) -> None:
    assert "no completions" in refused(capsys, "humaneval", write(tmp_path))
    assert "cannot be read" in refused(capsys, "humaneval", str(tmp_path / "none.jsonl"))
    assert "either" in refused(capsys, "humaneval")
    assert "either" in refused(capsys, "humaneval", write(tmp_path), "--reference")


@pytest.mark.parametrize("option", ["--limit", "--workers"])
def test_numbers_must_be_above_zero(capsys: Capture, option: str) -> None:
    said = refused(capsys, "pubmedqa", "--reference", option, "0")
    assert f"for {option}: give a whole number" in said
    assert "not 0." in said


def test_missing_data_says_where_to_get_them(tmp_path: Path, capsys: Capture) -> None:
    err = refused(capsys, "humaneval", "--reference", "--data", str(tmp_path))
    assert "openai/human-eval" in err
    err = refused(capsys, "livecodebench", "--reference", "--data", str(tmp_path))
    assert "livecodebench/code_generation_lite" in err
    err = refused(capsys, "finqa", "--reference", "--data", str(tmp_path / "none"))
    assert "There is no folder" in err


def test_damaged_data_are_refused_with_their_digest(
    tmp_path: Path, data: Path, capsys: Capture
) -> None:
    (tmp_path / "pubmedqa").mkdir()
    target = tmp_path / "pubmedqa" / "ori_pqal.json"
    shutil.copyfile(data / "pubmedqa" / "ori_pqal.json", target)
    with target.open("ab") as file:
        file.write(b" ")
    err = refused(capsys, "pubmedqa", "--reference", "--data", str(tmp_path))
    assert "8b3276be8942ebbd77f3ddcda12c1749bf0e490045a736fd8438ee40cf37a41d" in err
    assert "damaged" in err
