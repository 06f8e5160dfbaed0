"""The objects of run folders: they come back from their files as they were, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archer.judge import Verdict
from archer.runs.faults import BadRun
from archer.runs.folder import read_summary
from archer.runs.reading import as_line
from archer.runs.records import GradeLine, SampleLine, Score, Summary
from archer.runs.shown import lines
from archer.tasks.report import Row

SAMPLE = (
    '{"event":"sample","id":7,"prompt_sha256":"ab","completion":"return 1","tokens":[3,4],'
    '"finish_reason":"stop","updates":3,"full_passes":1,"cached_passes":2,"reused_passes":0,'
    '"revised_positions":1,"prompt_tokens":9,"seconds":{"full":0.1,"cached":0.2,"control":0.05,'
    '"total":0.35},"refresh_fraction":0.25,"tokens_per_forward":0.5}'
)
OLD_SAMPLE = (
    '{"event":"sample","id":"x/1","completion":"","tokens":[],"updates":0,"full_passes":0,'
    '"cached_passes":0,"reused_passes":0,"revised_positions":0,"seconds":{"total":0.0}}'
)
GRADE = (
    '{"event":"grade","id":7,"tier":"A","suites":{"base":{"verdict":"pass","reason":"",'
    '"seconds":0.01,"verdict_as_published":"fail","reason_as_published":"wrong",'
    '"verdict_clean":"pass"}}}'
)
OLD_GRADE = (
    '{"event":"grade","id":7,"tier":null,"suites":{"base":{"verdict":"timeout",'
    '"verdict_as_published":"crash"}},"of_a_later_version":[1]}'
)
SUMMARY = """\
{
  "task": "toy",
  "method": "archer",
  "settings": {
    "radius": 8
  },
  "n": 2,
  "complete": true,
  "completed": 2,
  "graded": 2,
  "pass@1": 0.5,
  "pass@1_interval": [
    0.1,
    0.9
  ],
  "pass@1_as_published": 0.5,
  "pass@1_clean": 1.0,
  "pass@1_extended": 0.0,
  "pass@1_extended_interval": [
    0.0,
    0.7
  ],
  "pass@1_extended_as_published": 0.0,
  "updates": 6,
  "full_passes": 2,
  "cached_passes": 4,
  "reused_passes": 0,
  "revised_positions": 1,
  "refresh_fraction": 0.25,
  "seconds": 1.5,
  "per_problem": {
    "updates": 3.0,
    "full_passes": 1.0,
    "cached_passes": 2.0,
    "reused_passes": 0.0,
    "revised_positions": 0.5,
    "seconds": 0.75
  },
  "tiers": [
    "A"
  ],
  "measures": {
    "rouge": 0.5
  }
}
"""


@pytest.mark.parametrize("text", [SAMPLE, OLD_SAMPLE, GRADE, OLD_GRADE])
def test_a_line_of_a_journal_is_written_as_it_was_read(text: str) -> None:
    line = as_line(json.loads(text), "Line 1")
    assert isinstance(line, SampleLine | GradeLine)
    assert json.dumps(line.plain(), separators=(",", ":")) == text


def test_a_summary_is_written_as_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(SUMMARY)
    found = read_summary(tmp_path)
    assert json.dumps(found.plain(), indent=2) + "\n" == SUMMARY
    assert list(found.scores) == ["pass@1", "pass@1_extended"]
    assert found.scores["pass@1"] == Score(
        value=0.5, interval=(0.1, 0.9), as_published=0.5, clean=1.0
    )
    assert next(lines(found)) == "toy by archer: 2 problems"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"n": 2', '"n": "2"', "n: Input should be a valid integer"),
        ('"pass@1": 0.5', '"pass@1": true', "scores"),
        ('"tiers": [', '"tears": [', "tiers: Field required"),
    ],
)
def test_a_damaged_summary_is_refused(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in SUMMARY
    (tmp_path / "summary.json").write_text(SUMMARY.replace(before, after, 1))
    with pytest.raises(BadRun, match=rf"summary\.json is damaged: {said}"):
        read_summary(tmp_path)


def test_a_graded_row_is_the_same_in_a_report_and_in_a_journal() -> None:
    row = Row(7, Verdict("pass"), Verdict("fail", "wrong"), Verdict("pass"))
    assert row.as_dict() == {"task_id": 7, **row.verdicts().plain()}


def test_records_are_taken_as_written() -> None:
    """No conversion: a count is no text, and nobody changes a record."""
    line = as_line(json.loads(SAMPLE), "Line 1")
    with pytest.raises(ValueError, match="frozen"):
        line.id = 8
    assert Summary.model_validate(json.loads(SUMMARY)).n == 2
