"""Sentences: how a drawn task is said in English, from a closed list of words."""

from __future__ import annotations

from random import Random

from pocket_training.generator.forms import Pipeline

OPENINGS = (
    "Write a function to",
    "Write a python function to",
    "Define a function to",
    "Create a function to",
    "Implement a function to",
)


def pipeline_statement(rng: Random, pipeline: Pipeline, places: dict[str, str]) -> str:
    """One sentence for select, map, reduce; the order of telling varies."""
    noun = rng.choice(pipeline.source.nouns).format(**places)
    clause = f" {pipeline.joint} ".join(c.phrase(rng) for c in pipeline.conditions)
    chosen = f"the {noun} that {clause}" if clause else f"the {noun}"
    opening = rng.choice(OPENINGS)
    if pipeline.claim is not None:
        claim = pipeline.claim.phrase(rng)
        return f"{opening} check whether {pipeline.reduction.key} of {chosen} {claim}."
    reduction = rng.choice(pipeline.reduction.phrases)
    words = {**pipeline.constant, "key": pipeline.source.key}
    if pipeline.mapping is None:
        return (
            f"{opening} {rng.choice(('return', 'find'))} {reduction.format(them=chosen, **words)}."
        )
    if rng.random() < 0.5:
        order = pipeline.mapping.phrase(rng, it=rng.choice(("each", "each one")))
        first = rng.choice(("take", "go over"))
        result = reduction.format(them=rng.choice(("the results", "these")), **words)
        return f"{opening} {first} {chosen}, {order} and return {result}."
    order = pipeline.mapping.phrase(rng, it=f"each of {chosen}")
    result = reduction.format(them=rng.choice(("the results", "these")), **words)
    return f"{opening} {order} and return {result}."


def chain_statement(rng: Random, orders: list[str]) -> str:
    """One sentence for steps that follow each other."""
    opening = rng.choice(OPENINGS)
    joint = rng.choice((", then", " and then", ","))
    return f"{opening} {f'{joint} '.join(orders)} and return the result."


def branch_statement(rng: Random, condition: str, first: str, second: str) -> str:
    """One sentence for a choice between two results."""
    opening = rng.choice(OPENINGS)
    if rng.random() < 0.5:
        return f"{opening} {first} if {condition}, otherwise {second}."
    return f"{opening} check if {condition}: if so {first}, else {second}."
