"""Gaps in pocket's reference bodies: what was published, made anew, and graded."""

from collections import Counter

import pytest

from archer.errors import BadRequest
from archer.pocket import frozen, gaps
from archer.pocket.tokenizer import build
from archer.tasks import CodeTask, open_task
from archer.tasks.grading import GradingOptions, grade
from pocket_training.generator.gaps import cuts

NAMES = {kind: f"pocket-infill-{kind}" for kind in gaps.KINDS}


def opened(kind: gaps.Kind) -> CodeTask:
    task = open_task(NAMES[kind])
    assert isinstance(task, CodeTask)
    return task


def test_the_gaps_are_what_the_generator_makes() -> None:
    drawn = list(cuts(frozen.load("dev")))
    assert [cut for kind in gaps.KINDS for cut in gaps.load(kind)] == drawn
    assert Counter(cut.kind for cut in drawn) == {"line": 205, "lines": 135, "span": 400}
    assert len({(cut.problem, cut.start, cut.end) for cut in drawn if cut.kind != "span"}) == 340


def test_damaged_gaps_are_refused() -> None:
    with pytest.raises(BadRequest, match="The gaps of the dev set of pocket are damaged"):
        gaps.parse(b"{}\n")


def test_every_gap_has_text_around_it_and_none_is_empty() -> None:
    problems = {problem.name: problem for problem in frozen.load("dev")}
    for kind in gaps.KINDS:
        for cut in gaps.load(kind):
            before, middle, after = cut.parts(problems[cut.problem])
            assert middle
            assert after
            assert before + middle + after == problems[cut.problem].body
            if kind != "span":
                assert middle.startswith("\n")
                assert after.startswith("\n")
                assert (middle.count("\n") == 1) == (kind == "line")


def test_lines_are_cut_where_tokens_end_and_most_spans_are_not() -> None:
    tokenizer = build()

    def clean(kind: gaps.Kind) -> float:
        problems = {problem.name: problem for problem in frozen.load("dev")}
        parts = [cut.parts(problems[cut.problem]) for cut in gaps.load(kind)]
        same = [
            tokenizer.encode("".join(each)).ids
            == [id for part in each for id in tokenizer.encode(part).ids]
            for each in parts
        ]
        return sum(same) / len(same)

    assert clean("line") == clean("lines") == 1.0
    assert clean("span") < 0.5


@pytest.mark.parametrize("kind", gaps.KINDS)
def test_references_pass_and_a_gap_left_empty_seldom_does(kind: gaps.Kind) -> None:
    task = opened(kind)
    samples = task.samples()[::20]
    middles = [each.infill.middle for each in samples if each.infill is not None]
    given = list(zip(samples, middles, strict=True))
    report = grade(task, given, GradingOptions())
    assert report.score == report.score_as_published == 1.0
    whole = {reference.id: reference.text for reference in task.references()}
    assert all(task.extract(text, each, "repaired") == whole[each.id] for each, text in given)
    empty = grade(task, [(each, "") for each in samples], GradingOptions())
    assert (empty.score or 0.0) < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("kind", gaps.KINDS)
def test_all_references_pass_both_suites(kind: gaps.Kind) -> None:
    task = opened(kind)
    for suite in task.suites:
        task.suites = (suite,)  # type: ignore[misc]
        given = [(each, each.infill.middle) for each in task.samples() if each.infill is not None]
        assert grade(task, given, GradingOptions()).score == 1.0


def test_the_model_is_given_the_prompt_and_the_body_up_to_the_gap() -> None:
    task = opened("line")
    sample = task.samples()[0]
    assert sample.messages[0]["content"].endswith(sample.row["header"])
    assert sample.prefix + sample.infill.middle + sample.infill.suffix == sample.row["body"]  # type: ignore[union-attr]
    assert sample.cluster == sample.row["name"]
    shown = sample.messages[0]["content"]
    assert not any(each in shown for each in set(sample.row["hidden"]) - set(sample.row["visible"]))
