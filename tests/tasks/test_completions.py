"""Files of completions: read line by line, and no more of them than grading can hold."""

import json
from pathlib import Path

import pytest

from archer.errors import BadRequest
from archer.tasks import grading as completions
from archer.tasks.base import Sample, user
from archer.tasks.grading import read_completions

SAMPLES = [Sample(number, user("?"), "", {}) for number in range(3)]


def lines(*texts: str) -> str:
    return "".join(
        json.dumps({"task_id": number, "completion": text}) + "\n"
        for number, text in enumerate(texts)
    )


def test_every_completion_comes_with_its_problem(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text("\n" + lines("a", "b") + '  \n{"task_id": "2", "completion": "\u2028c"}')
    assert [(sample.id, text) for sample, text in read_completions(path, SAMPLES)] == [
        (0, "a"),
        (1, "b"),
        (2, "\u2028c"),
    ]


def test_a_line_without_end_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    with path.open("wb") as file:
        file.write(lines("a").encode())
        file.truncate(1 << 40)  # a terabyte of nothing in one line
    with pytest.raises(BadRequest, match=r"Line 2 of .* is longer than 4194304 bytes"):
        read_completions(path, SAMPLES)


def test_more_than_grading_can_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completions, "LARGEST_FILE", 100)
    path = tmp_path / "c.jsonl"
    path.write_text(lines("a" * 30, "b" * 30))
    with pytest.raises(BadRequest, match="Give it in parts"):
        read_completions(path, SAMPLES)
    path.write_text(lines("a" * 30))
    assert len(read_completions(path, SAMPLES)) == 1
    with pytest.raises(BadRequest, match="cannot be read"):
        read_completions(tmp_path, SAMPLES)
