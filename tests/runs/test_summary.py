"""What a summary says of problems that fill gaps: exact matches, and intervals by clusters."""

from collections.abc import Sequence

import pytest

from archer.runs.folder import Recorded
from archer.runs.records import GradeLine, RecordedOutcome, SampleLine, SampleSeconds, SuiteVerdict
from archer.runs.statistics import clustered, wilson
from archer.runs.summary import lines, summarise
from archer.tasks import Sample, open_task

METHOD = {"name": "saber", "settings": {"length": 8}}


def recorded(samples: Sequence[Sample], texts: Sequence[str], passed: Sequence[bool]) -> Recorded:
    done = {
        str(each.id): sample_line(each, text) for each, text in zip(samples, texts, strict=True)
    }
    grades = {str(each.id): grade_line(each, ok) for each, ok in zip(samples, passed, strict=True)}
    return Recorded(done, grades)


def sample_line(sample: Sample, text: str) -> SampleLine:
    return SampleLine(
        event="sample",
        id=sample.id,
        prompt_sha256="",
        completion=text,
        tokens=[],
        finish_reason="stop",
        updates=2,
        full_passes=1,
        cached_passes=1,
        reused_passes=0,
        revised_positions=0,
        prompt_tokens=3,
        seconds=SampleSeconds(full=0.0, cached=0.0, control=0.0, total=0.0),
        refresh_fraction=0.5,
        tokens_per_forward=1.0,
        operations=1,
    )


def grade_line(sample: Sample, passed: bool) -> GradeLine:
    outcome: RecordedOutcome = "pass" if passed else "fail"
    verdict = SuiteVerdict(
        verdict=outcome,
        reason="",
        seconds=0.0,
        verdict_as_published=outcome,
        reason_as_published="",
    )
    return GradeLine(event="grade", id=sample.id, tier=None, suites={"base": verdict})


def middle(sample: Sample) -> str:
    assert sample.infill is not None
    return sample.infill.middle


@pytest.mark.parametrize("name", ["pocket-infill-line", "pocket-infill-span"])
def test_gaps_have_exact_matches_and_intervals_by_function(name: str) -> None:
    task = open_task(name)
    samples = task.samples()
    passed = [number % 3 > 0 for number in range(len(samples))]
    texts = [middle(each) if ok else "x" for each, ok in zip(samples, passed, strict=True)]
    texts[1] += "\n"  # white space around it does not matter
    texts[2] += " # said otherwise"
    summary = summarise(task, METHOD, samples, recorded(samples, texts, passed))
    clusters = [each.cluster for each in samples]
    assert summary.scores["pass@1"].interval == clustered(passed, clusters)
    assert summary.scores["pass@1"].interval != wilson(sum(passed), len(passed))
    exact = summary.scores["exact_match"]
    assert exact.value == (sum(passed) - 1) / len(samples)
    assert exact.interval is not None
    assert any(line.startswith("  exact_match") for line in lines(summary))
    part = recorded(samples[1:], texts[1:], passed[1:])
    assert summarise(task, METHOD, samples, part).scores["exact_match"].value is None


def test_problems_of_their_own_have_wilsons_interval() -> None:
    task = open_task("pocket-dev")
    samples = task.samples()[:30]
    passed = [number % 3 > 0 for number in range(30)]
    summary = summarise(task, METHOD, samples, recorded(samples, ["x"] * 30, passed))
    assert summary.scores["pass@1"].interval == wilson(20, 30)
    assert "exact_match" not in summary.scores
