"""Running any named method on a test network, and what happened to each row."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from archer.engine.batch import Batch
from archer.engine.walk import Walk, steps_of
from archer.methods.build import Method, build
from archer.model import Model
from archer.network.network import Transformer
from archer.passes.canvas import Prompt
from archer.request.request import Form
from archer.results.completion import Completion, Tally, add
from archer.results.step import Step
from support.networks import Backbone

Rows = dict[int, list[tuple[Any, ...]]]


def walk(
    net: Backbone, name: str, prompts: list[list[int]], seed: int = 0, **settings: Any
) -> list[Step[Any]]:
    """All steps of a named method; a step's row is the place of its prompt."""
    method = build(name, settings)
    laid = prompts_of(prompts, net.mask, seed=seed, eos=(1,), ends=(1, 2))
    states = [method.decoder.start(prompt, method.length) for prompt in laid]
    return list(together(net.network, method, states))


def prompts_of(prompts: Sequence[Sequence[int]], mask: int, **options: Any) -> list[Prompt]:
    """Each by itself; the n-th repetition of one is its n-th sample."""
    repeated: Counter[tuple[int, ...]] = Counter()
    laid = []
    for prompt in map(tuple, prompts):
        laid.append(Prompt.of(prompt, mask, first=repeated[prompt], **options))
        repeated[prompt] += 1
    return laid


def together(network: Transformer, method: Method, states: Sequence[Any]) -> Iterator[Step[Any]]:
    """All updates of states of one row each, in shared passes; a step's row is the place of its state."""
    batch: Batch[int] = Batch(network)
    for place, state in enumerate(states):
        batch.walks[place] = Walk(network, method, state)
    while going := [place for place, walk in batch.walks.items() if not walk.done]:
        made = batch.turn(going, lambda: False)
        yield from (step.counted_from(place) for place, step in made.steps)
        for error in made.failed.values():
            raise error


def by_the_loop(model: Model, prompts: Any, method: Any = None, **options: Any) -> list[Completion]:
    """One prompt after the other, without an engine: the naive twin of `generate` and `stream`."""
    request = model.request(prompts, method, **options)
    language = request.language
    repeated: Counter[Form] = Counter()
    done = []
    for prompt in request.prompts:
        laid = language.prompt(prompt, request.seed, first=repeated[prompt])
        repeated[prompt] += 1
        tally, own = Tally(), request.only(prompt).method
        for step in steps_of(model.network, own, own.decoder.start(laid, own.length)):
            add({0: tally}, step)
        done.append(language.completion(tally, prompt.prompt_tokens, prompt))
    return done


def alone(model: Model, prompt: Any, method: str, **options: Any) -> Completion:
    return by_the_loop(model, prompt, method, **options)[0]


def same(found: Completion, wanted: Completion) -> bool:
    """Text, end and counts of passes."""
    names = ("tokens", "text", "finish_reason", "updates", "revised_positions")
    passes = ("full_passes", "cached_passes", "reused_passes")
    return all(getattr(found, name) == getattr(wanted, name) for name in names + passes)


def ids(seed: int, length: int) -> list[int]:
    """A prompt for the tiny models of support.folders, without their end ids."""
    draw = random.Random(seed)
    return [draw.choice(range(20, 200)) for _ in range(length)]


def texts(steps: list[Step[Any]]) -> Rows:
    """Response, accepted and re-masked positions of each row, update by update."""
    rows: Rows = {}
    for step in steps:
        for index, row in enumerate(step.rows):
            rows.setdefault(row, []).append(
                (
                    step.after.response[index].tolist(),
                    step.decision.accepted[index].tolist(),
                    step.decision.remasked[index].tolist(),
                )
            )
    return rows


def calls(steps: list[Step[Any]], row: int = 0) -> list[tuple[Any, ...]]:
    """Kind, columns fed and distance of one row's calls."""
    return [
        (call.kind, call.fed, call.distance)
        for step in steps
        for which, call in zip(step.rows, step.calls, strict=True)
        if which == row
    ]


def revised(steps: list[Step[Any]]) -> int:
    """Positions of the first row whose placed token changed between two updates."""
    mask = steps[0].before.prompt.mask
    changed = [
        (step.before.response[0] != mask) & (step.after.response[0] != step.before.response[0])
        for step in steps
    ]
    return int(np.any(changed, axis=0).sum())
