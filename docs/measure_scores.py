"""How far the estimators of `Model.score` are off on answers of the bundled model, as Markdown tables.

    python docs/measure_scores.py

The answers are the references of the first problems of pocket-dev.  Of two tokens everything can be worked
out; of whole answers the mean over all seeds stands for the expectation.
"""

import statistics
import sys
from typing import Any

import archer
from archer.results.score import TextScore
from archer.tasks.registry import open_task

PROBLEMS, SEEDS = 6, 6
DRAWS = (2, 8, 32, 128)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def mean(values: list[float]) -> float:
    return statistics.fmean(values)


def two_tokens(model: archer.Model, pairs: list[tuple[str, list[int]]]) -> None:
    """There are three ways to mask two tokens, so the expectation is had by drawing them very often."""
    say("| estimator | draws | mean, 2 tokens | sd over seeds | bias | mean standard error |")
    say("|---|---|---|---|---|---|")
    asked = [(prompt, ids[:2]) for prompt, ids in pairs]
    for by, often, tried in (
        ("elbo", 20_000, (2, 8, 32)),
        ("one-step", 256, (1, 8)),
        ("coupled", 20_000, (1, 8)),
        ("confidence", None, (None,)),
        ("replay", None, (None,)),
    ):
        wanted = [each.log_likelihood for each in scores(model, asked, by, often, SEEDS)]
        for draws in tried:
            found = [scores(model, asked, by, draws, seed) for seed in range(SEEDS if draws else 1)]
            own = [[each.log_likelihood for each in seeds] for seeds in zip(*found, strict=True)]
            bias = mean([mean(each) - goal for each, goal in zip(own, wanted, strict=True)])
            spread = mean([statistics.stdev(each) if len(each) > 1 else 0.0 for each in own])
            errors = [each.standard_error for seeds in found for each in seeds]
            known = [each for each in errors if each is not None]
            told = f"{mean(known):.2f}" if known else "none"
            average = mean([mean(each) for each in own])
            say(f"| {by} | {draws or ''} | {average:.3f} | {spread:.3f} | {bias:+.2f} | {told} |")


def scores(
    model: archer.Model,
    pairs: list[tuple[str, list[int]]],
    by: Any,
    draws: int | None,
    seed: int,
) -> list[TextScore]:
    prompts, texts = zip(*pairs, strict=True)
    return model.score(list(prompts), list(texts), by, draws=draws, seed=seed)


def whole_answers(model: archer.Model, pairs: list[tuple[str, list[int]]]) -> None:
    say("\n| draws | bias | sd over seeds | mean standard error | cached minus exact |")
    say("|---|---|---|---|---|")
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
    for draws in DRAWS:
        plain, kept = (
            [[each.log_likelihood for each in own] for own in every[draws, cached]]
            for cached in (False, True)
        )
        errors = [
            each.standard_error
            for own in every[draws, False]
            for each in own
            if each.standard_error is not None
        ]
        bias = mean([mean(own) - wanted for own, wanted in zip(plain, expected, strict=True)])
        spread = mean([statistics.stdev(own) for own in plain])
        moved = mean([mean(b) - mean(a) for a, b in zip(plain, kept, strict=True)])
        told = f"{mean(errors):.2f}" if errors else "none"
        say(f"| {draws} | {bias:+.2f} | {spread:.2f} | {told} | {moved:+.3f} |")
    say(f"\nMean over answers at {DRAWS[-1]} draws: {mean(expected):.2f} nats.")


def main() -> None:
    model = archer.load("pocket")
    pairs = [
        (
            str(sample.messages[0]["content"]),
            model.encode(sample.row["body"], chat=False),
        )
        for sample in open_task("pocket-dev").samples()[:PROBLEMS]
    ]
    two_tokens(model, pairs)
    whole_answers(model, pairs)


if __name__ == "__main__":
    main()
