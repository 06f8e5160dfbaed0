"""How far the estimators of `Model.score` are off on answers of the bundled model, as JSON.

    python docs/measure_scores.py > docs/results/estimators.json

The answers are the references of the first problems of pocket-dev.  Of two tokens everything can be worked
out; of whole answers the mean over all seeds stands for the expectation.
"""

import json
import statistics
import sys
from typing import Any

import archer
from archer.machine.description import describe
from archer.results.score import TextScore
from archer.tasks.registry import open_task

PROBLEMS, SEEDS = 6, 6
DRAWS = (2, 8, 32, 128)


def mean(values: list[float]) -> float:
    return statistics.fmean(values)


def two_tokens(model: archer.Model, pairs: list[tuple[str, list[int]]]) -> list[dict[str, Any]]:
    """There are three ways to mask two tokens, so the expectation is had by drawing them very often."""
    rows = []
    first_two = [(prompt, ids[:2]) for prompt, ids in pairs]
    for by, often, tried in (
        ("elbo", 20_000, (2, 8, 32)),
        ("one-step", 256, (1, 8)),
        ("coupled", 20_000, (1, 8)),
        ("confidence", None, (None,)),
        ("replay", None, (None,)),
    ):
        expected = [each.log_likelihood for each in scores(model, first_two, by, often, SEEDS)]
        for draws in tried:
            seeds = range(SEEDS if draws else 1)
            made = [scores(model, first_two, by, draws, seed) for seed in seeds]
            answers = [list(each) for each in zip(*made, strict=True)]
            rows.append({"estimator": by, "draws": draws, **compared(answers, expected)})
    return rows


def compared(answers: list[list[TextScore]], expected: list[float]) -> dict[str, float | None]:
    """Means over answers, each of which has a score for every seed."""
    own = [[each.log_likelihood for each in seeds] for seeds in answers]
    errors = [each.standard_error for seeds in answers for each in seeds]
    known = [each for each in errors if each is not None]
    return {
        "mean": mean([mean(each) for each in own]),
        "spread": mean([statistics.stdev(each) if len(each) > 1 else 0.0 for each in own]),
        "bias": mean([mean(each) - goal for each, goal in zip(own, expected, strict=True)]),
        "standard_error": mean(known) if known else None,
    }


def scores(
    model: archer.Model,
    pairs: list[tuple[str, list[int]]],
    by: Any,
    draws: int | None,
    seed: int,
) -> list[TextScore]:
    prompts, texts = zip(*pairs, strict=True)
    return model.score(list(prompts), list(texts), by, draws=draws, seed=seed)


def whole_answers(model: archer.Model, pairs: list[tuple[str, list[int]]]) -> list[dict[str, Any]]:
    """By `elbo`, with every token computed anew and with the prompt's cache."""
    every = {
        (draws, cached): [
            [
                model.score(prompt, ids, "elbo", draws=draws, seed=seed, cached=cached)[0]
                for seed in range(SEEDS)
            ]
            for prompt, ids in pairs
        ]
        for draws in DRAWS
        for cached in (False, True)
    }
    expected = [mean([each.log_likelihood for each in own]) for own in every[DRAWS[-1], False]]
    rows = []
    for draws in DRAWS:
        plain, cached = (compared(every[draws, cached], expected) for cached in (False, True))
        assert plain["mean"] is not None
        assert cached["mean"] is not None
        rows.append({"draws": draws, **plain, "moved": cached["mean"] - plain["mean"]})
    return rows


def main() -> None:
    model = archer.load("pocket")
    pairs = [
        (
            str(sample.messages[0]["content"]),
            model.encode(sample.row["body"], chat=False),
        )
        for sample in open_task("pocket-dev").samples()[:PROBLEMS]
    ]
    found = {"two_tokens": two_tokens(model, pairs), "whole": whole_answers(model, pairs)}
    sizes = {"answers": PROBLEMS, "seeds": SEEDS, "machine": describe()}
    json.dump(sizes | found, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
