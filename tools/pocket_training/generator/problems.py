"""Problems: a drafted task with a name, a reference program and tests; made anew from a split and an index.

The same split and index give the same bytes on any machine: all choices come from a generator seeded with
their text. A structure belongs to one split, by its hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from functools import partial
from random import Random
from typing import Any, Literal

from archer.pocket.frozen import HeldOut
from archer.pocket.problems import Problem
from pocket_training.generator import chains, pipelines
from pocket_training.generator.inputs import Value, edges, ordinary
from pocket_training.generator.operations import Draft

Split = Literal["train", "dev", "test", "confirm", "confirm3"]

VERSION = 2
"""Raised whenever the generator changes: it is part of every seed."""

LONGEST_BODY = 160
"""Characters of a reference at most: about 56 tokens, so that a response of 64 can hold it."""

FUNCTIONS = ("solve", "compute", "task", "answer", "process", "work", "apply", "run")

FAMILIES: dict[str, tuple[int, Callable[[Random], Draft]]] = {
    "numbers": (24, partial(pipelines.draw, family="numbers")),
    "range": (8, partial(pipelines.draw, family="range")),
    "members": (7, partial(pipelines.draw, family="members")),
    "words": (10, partial(pipelines.draw, family="words")),
    "zip": (8, partial(pipelines.draw, family="zip")),
    "neighbours": (5, partial(pipelines.draw, family="neighbours")),
    "entries": (7, partial(pipelines.draw, family="entries")),
    "arithmetic": (8, chains.draw_arithmetic),
    "combination": (5, chains.draw_combination),
    "string": (12, chains.draw_string),
    "choice": (7, chains.draw_choice),
    "comparison": (4, chains.draw_comparison),
}
"""Share of each family, and how a task of it is drawn."""


HOMES: dict[Split, HeldOut] = {"confirm": "test", "confirm3": "dev"}
"""Where the structures of a split come from, if not from its own."""


def split_of(structure: str) -> Split:
    """One structure in sixteen is kept for test, one for dev, the others are trained on."""
    drawn = hashlib.blake2b(structure.encode(), digest_size=2).digest()[0] % 16
    held_out: dict[int, Split] = {0: "test", 1: "dev"}
    return held_out.get(drawn, "train")


def problem(split: Split, index: int, *, hidden: bool = True) -> Problem:
    """The `index`-th problem of a split. Without hidden asserts it is made faster."""
    rng = Random(f"pocket-{VERSION}-{split}-{index}")
    weights = [weight for weight, _ in FAMILIES.values()]
    while True:
        family = rng.choices(list(FAMILIES), weights)[0]
        draft = FAMILIES[family][1](rng)
        if split_of(draft.structure) != HOMES.get(split, split):
            continue
        made = _finish(rng, draft, f"pocket-{split}-{index}", hidden)
        if made is not None:
            return made


def distinct(split: Split, number: int, without: Collection[str] = ()) -> Iterator[Problem]:
    """The first problems of a split that differ in structure; structures in `without` are passed over."""
    seen = set(without)
    index, total = 0, number + len(seen)
    while len(seen) < total:
        made = problem(split, index)
        index += 1
        if made.structure not in seen:
            seen.add(made.structure)
            yield made


def run_body(header: str, body: str, function: str) -> Callable[..., Any]:
    """Compile one of our own programs. Never used on what a model wrote."""
    scope: dict[str, Any] = {}
    exec(f"{header}{body}\n", scope)
    made: Callable[..., Any] = scope[function]
    return made


def _finish(rng: Random, draft: Draft, name: str, hidden: bool) -> Problem | None:
    """Add names and tests; None when no telling inputs were found."""
    function = rng.choice(FUNCTIONS)
    header = f"def {function}({', '.join(item.name for item in draft.parameters)}):"
    solve = run_body(header, draft.bodies[0], function)
    kinds = tuple(item.kind for item in draft.parameters)
    shown = _telling(rng, solve, kinds, 2 if rng.random() < 0.6 else 3)
    if shown is None:
        return None
    body = rng.choice([body for body in draft.bodies if len(body) <= LONGEST_BODY])
    tests = [] if not hidden else [*edges(kinds), *(_arguments(rng, kinds) for _ in range(5))]
    return Problem(
        name=name,
        family=draft.family,
        structure=draft.structure,
        statement=draft.statement,
        header=header,
        body=body,
        visible=tuple(_assertion(function, solve, arguments) for arguments in shown),
        hidden=tuple(_assertion(function, solve, arguments) for arguments in tests),
    )


def _arguments(rng: Random, kinds: tuple[str, ...]) -> tuple[Value, ...]:
    values = [ordinary(rng, kind) for kind in kinds]
    if kinds == ("numbers", "numbers"):
        values[1] = _overlapping(rng, values[0], values[1])
    return tuple(values)


def _overlapping(rng: Random, first: list[int], second: list[int]) -> list[int]:
    """The second list with some of the first one's numbers in it."""
    mixed = [rng.choice(pair) for pair in zip(first, second, strict=False)]
    mixed += second[len(first) :]
    rng.shuffle(mixed)
    return mixed


def _telling(
    rng: Random, solve: Callable[..., Any], kinds: tuple[str, ...], number: int
) -> list[tuple[Value, ...]] | None:
    """Argument tuples with short and not all equal answers."""
    for _ in range(12):
        shown = [_arguments(rng, kinds) for _ in range(number)]
        answers = [repr(solve(*arguments)) for arguments in shown]
        short = sum(map(len, answers)) <= 30 * number
        if short and len(set(answers)) > 1:
            return shown
    return None


def _assertion(function: str, solve: Callable[..., Any], arguments: tuple[Value, ...]) -> str:
    shown = ", ".join(map(repr, arguments))
    return f"assert {function}({shown}) == {solve(*arguments)!r}"
