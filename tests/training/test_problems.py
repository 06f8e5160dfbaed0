"""The generator: same bytes everywhere, sound references, honest splits."""

import hashlib
import json
from random import Random
from typing import Any

import pytest

from archer.pocket import frozen
from archer.pocket.problems import Problem
from pocket_training.generator.inputs import edges
from pocket_training.generator.problems import (
    FAMILIES,
    LONGEST_BODY,
    problem,
    run_body,
    split_of,
)
from pocket_training.generator.published import problem_set, worked_examples

FIRST_THOUSAND = "11cdb288af896ebbbad1fcf4bfddffd39ad7e27a6898de7c48f5e870235f39ba"


def check(task: Problem, body: str) -> None:
    """Run a body against both suites; the assertion names the program that fails."""
    scope: dict[str, Any] = {}
    exec(task.program(body), scope)
    for line in (*task.visible, *task.hidden):
        try:
            exec(line, scope)
        except AssertionError:
            pytest.fail(f"{line} fails for {task.program(body)}")


def test_the_first_thousand_problems_are_the_same_bytes_everywhere() -> None:
    digest = hashlib.sha256()
    for index in range(1000):
        digest.update(json.dumps(problem("train", index).record()).encode("ascii"))
    assert digest.hexdigest() == FIRST_THOUSAND


@pytest.mark.parametrize(
    "split",
    [
        "dev",
        "test",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("confirm", "confirm3")),
    ],
)
def test_frozen_sets_are_what_the_generator_makes(split: frozen.HeldOut) -> None:
    tasks = problem_set(split)
    assert tasks == frozen.load(split)
    assert {task.name: worked_examples(task) for task in tasks} == frozen.load_examples(split)


@pytest.mark.parametrize(("split", "size"), [("dev", 200), ("test", 400)])
def test_frozen_sets_have_distinct_held_out_structures(split: frozen.HeldOut, size: int) -> None:
    structures = [task.structure for task in frozen.load(split)]
    assert len(structures) == len(set(structures)) == size
    assert {split_of(structure) for structure in structures} == {split}


@pytest.mark.parametrize("split", ["confirm", "confirm3"])
def test_a_confirmation_has_structures_of_its_own(split: frozen.HeldOut) -> None:
    """Held out from training like those of test or dev, and in no set that was decoded before it."""
    found = frozen.load(split)
    structures = {task.structure for task in found}
    assert len(found) == len(structures) == frozen.SIZES[split]
    assert "train" not in {split_of(structure) for structure in structures}
    for other in list(frozen.SIZES)[: list(frozen.SIZES).index(split)]:
        assert not structures & {task.structure for task in frozen.load(other)}
    for task in found[:5]:
        assert problem(split, int(task.name.rpartition("-")[2])) == task


@pytest.mark.parametrize("split", frozen.SIZES)
def test_references_pass_their_own_tests(split: frozen.HeldOut) -> None:
    for task in frozen.load(split):
        assert len(task.visible) in (2, 3)
        assert len(task.hidden) == 10
        check(task, task.body)


@pytest.mark.parametrize(
    "indices", [range(500), pytest.param(range(500, 10_500), marks=pytest.mark.slow)], ids=str
)
def test_training_references_pass_their_own_tests(indices: range) -> None:
    for index in indices:
        task = problem("train", index)
        assert split_of(task.structure) == "train"
        check(task, task.body)


def test_every_form_of_a_task_answers_alike() -> None:
    rng = Random("forms")
    several = 0
    for family, (_, draw) in FAMILIES.items():
        for _ in range(40):
            draft = draw(rng)
            assert draft.family == family
            names = ", ".join(parameter.name for parameter in draft.parameters)
            task = problem_of(draft.bodies[0], names, tuple(p.kind for p in draft.parameters))
            several += len(draft.bodies) > 1
            for body in draft.bodies:
                check(task, body)
    assert several > 400


def problem_of(body: str, names: str, kinds: tuple[str, ...]) -> Problem:
    """A problem whose hidden asserts are what one body answers on edge cases."""
    header = f"def solve({names}):"
    solve = run_body(header, body, "solve")
    asserts = tuple(
        f"assert solve({', '.join(map(repr, values))}) == {solve(*values)!r}"
        for values in edges(kinds)
    )
    return Problem("", "", "", "", header, body, (), asserts)


@pytest.fixture(scope="module")
def trained() -> list[str]:
    return [problem("train", index, hidden=False).structure for index in range(16_000)]


def parts_of(structure: str) -> set[str]:
    """The operations by family; reductions are common to the families that walk over something."""
    family, *keys = structure.split("|")
    return {key if key.startswith("to-") else f"{family} {key}" for key in keys}


@pytest.mark.slow
def test_every_part_of_a_held_out_structure_is_trained_on(trained: list[str]) -> None:
    parts = set().union(*map(parts_of, trained))
    for split in frozen.SIZES:
        for task in frozen.load(split):
            assert parts_of(task.structure) <= parts


def test_there_are_thousands_of_structures(trained: list[str]) -> None:
    assert len(set(trained)) > 4000


def test_hidden_asserts_do_not_change_the_rest() -> None:
    for index in range(20):
        whole = problem("train", index)
        quick = problem("train", index, hidden=False)
        assert (quick.statement, quick.body, quick.visible) == (
            whole.statement,
            whole.body,
            whole.visible,
        )
        assert quick.hidden == ()


def test_bodies_are_short_enough() -> None:
    assert all(len(problem("train", i, hidden=False).body) <= LONGEST_BODY for i in range(500))
