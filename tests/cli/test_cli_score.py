"""`archer score` against `Model.score`."""

import json
from pathlib import Path

import pytest

from archer.cli import main
from archer.model import load

PROMPT = "Write a function to add all numbers in nums.\nassert solve([1, 2]) == 3\ndef solve(nums):"
ANSWERS = ("\n    return sum(nums)", "\n    return len(nums)")


def test_answers_are_scored(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text(PROMPT)
    asked = ["score", *ANSWERS, "--prompt-file", str(path), "--draws", "8", "--seed", "3"]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    wanted = load("pocket").score(PROMPT, list(ANSWERS), draws=8, seed=3)
    assert [each["log_likelihood"] for each in told["scores"]] == pytest.approx(
        [each.log_likelihood for each in wanted], abs=1e-3
    )
    assert wanted[0].log_likelihood > wanted[1].log_likelihood
    assert main(asked) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "±" in first
    assert first.endswith(repr(ANSWERS[0]))
    assert second.endswith(repr(ANSWERS[1]))


def test_a_replay_takes_a_method(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["score", ANSWERS[0], "--prompt", PROMPT, "--by", "replay", "--json"]
    assert main([*asked, "--method", "margin", "--temperature", "0.5"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["scores"]
    (wanted,) = load("pocket").score(PROMPT, ANSWERS[0], "replay", method="margin", temperature=0.5)
    assert told["log_likelihood"] == pytest.approx(wanted.log_likelihood, abs=1e-3)


def test_a_replay_takes_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["score", ANSWERS[0], "--prompt", PROMPT, "--preset", "paper", "--method"]
    replayed = [*given, "entropy+archer", "--by", "replay", "--temperature", "1", "--json"]
    assert main(replayed) == 0
    (scored,) = json.loads(capsys.readouterr().out)["scores"]
    (wanted,) = load("pocket").score(
        PROMPT, ANSWERS[0], "replay", method="entropy+archer", radius=8, temperature=1.0
    )
    assert scored["log_likelihood"] == pytest.approx(wanted.log_likelihood, abs=1e-3)
    assert scored["columns"] == wanted.columns


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--preset", "paper"], "preset belongs to by='replay'"),
        (["--trace", "trace.jsonl"], "Unknown option"),
        (["--out", "answers.jsonl"], "Unknown option"),
        (["--quiet"], "Unknown option"),
    ],
)
def test_what_a_score_does_not_use_is_refused(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", ANSWERS[0], "--prompt", PROMPT, *options]) != 0
    assert sentence in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a"], "either as --prompt or as --prompt-file"),
        (["--prompt", "b"], "There is no text to score"),
    ],
)
def test_nothing_to_score_is_refused(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", *arguments]) != 0
    assert sentence in " ".join(capsys.readouterr().err.split())
