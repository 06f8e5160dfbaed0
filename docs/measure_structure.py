"""What a constraint does to the bundled model: answers, updates and passes with and without it, as JSON.

    python docs/measure_structure.py 100 > docs/results/structured.json

Bodies: the first 100 problems of pocket-dev, free and held to a grammar of the bodies of the language.
Scaffold: answers of some schemas where text that is certain is placed at once, where only what every answer
begins with is, and where nothing is.
"""

import json
import re
import statistics
import sys
from dataclasses import replace
from typing import Any

import numpy as np

import archer
from archer.bench.structure import SCHEMAS
from archer.engine.generate import generate
from archer.judge import Judge
from archer.machine.description import describe
from archer.results.completion import Completion
from archer.structure.constraint import Constraint
from archer.structure.structures import Structure
from archer.tasks.base import CodeTask
from archer.tasks.registry import open_task

METHODS = ("archer-doubt", "saber")
DEPTH = 4
"""Brackets inside brackets."""
PLAIN = r"[a-zA-Z_0-9 +\-*/%<>=!.,:]"
NAME = "[a-z]+"


def expression(depth: int = DEPTH) -> str:
    """Plain characters, strings and brackets that close in order."""
    parts = [PLAIN, r"'[ -&(-~]*'"]
    if depth:
        inner = expression(depth - 1)
        parts += [rf"\((?:{inner})?\)", rf"\[(?:{inner})?\]", rf"\{{(?:{inner})?\}}"]
    return f"(?:{'|'.join(parts)})+"


def body() -> str:
    """Lines in their places: statements, loops and branches with something in them, a return at the end."""
    some = expression()
    simple = rf"(?:return {some}|{NAME}(?:\[{some}\])? \+?= {some}|{NAME}\.append\({some}\))"

    def branch(indent: str) -> str:
        inside = rf"(?:\n{indent}    {simple})+"
        return rf"\n{indent}if {some}:{inside}(?:\n{indent}else:{inside})?"

    four, eight = " " * 4, " " * 8
    loop = rf"\n{four}for {NAME}(?:, {NAME})* in {some}:(?:\n{eight}{simple}|{branch(eight)})+"
    return rf"(?:\n{four}{simple}|{branch(four)}|{loop})*\n{four}return {some}"


def bodies(
    model: archer.Model, task: CodeTask, judge: Judge, problems: int
) -> list[dict[str, Any]]:
    """Pass@1 and cost by method, free and held."""
    grammar = body()
    samples = task.samples()[:problems]
    prompts = [list(sample.messages) for sample in samples]
    rows = []
    for method in METHODS:
        for held in (False, True):
            options: dict[str, Any] = {"regex": grammar} if held else {}
            made = model.generate(prompts, method, length=task.length, **options)
            texts = [each.text or "" for each in made]
            programs = [
                task.extract(text, sample, "as_published")
                for text, sample in zip(texts, samples, strict=True)
            ]
            checks = [
                task.checks(sample, program, "extended", "as_published")[0]
                for sample, program in zip(samples, programs, strict=True)
            ]
            verdicts = dict(judge.grade_many(checks))
            rows.append(
                {
                    "method": method,
                    "held": held,
                    "problems": len(samples),
                    "solved": sum(each.outcome == "pass" for each in verdicts.values()),
                    "valid": sum(bool(re.fullmatch(grammar, text)) for text in texts),
                    "parsed": sum(map(parsed, programs)),
                    **costs(made),
                }
            )
    return rows


def parsed(program: str) -> bool:
    try:
        compile(program, "answer", "exec")
    except SyntaxError:
        return False
    return True


def costs(made: list[Completion]) -> dict[str, float]:
    """Means of all answers."""
    names = ("updates", "full_passes", "cached_passes")
    seconds = statistics.fmean(each.seconds.total for each in made)
    return {
        **{name: statistics.fmean(getattr(each, name) for each in made) for name in names},
        "seconds": seconds,
    }


def scaffold(model: archer.Model) -> list[dict[str, Any]]:
    """Updates by schema and method: as it is, without what is certain, and without what is given either."""
    rows = []
    for name, schema in SCHEMAS.items():
        for method in METHODS:
            plain = model.request("Tell me.", method, schema=schema, length=96)
            (form,) = plain.prompts
            constraint = form.constraint
            assert isinstance(constraint, Constraint)
            given = len(form.opened)
            structure = Structure.of(schema=schema)
            assert structure is not None
            whole = structure.tokens(model.spelling())
            bare = replace(
                form,
                prefix=form.prefix[: len(form.prefix) - given],
                opening="",
                opened=(),
                constraint=Constraint(unsure(whole)),
            )
            forms = {
                "scaffold": form,
                "updates_given": replace(form, constraint=Constraint(unsure(constraint.automaton))),
                "none": bare,
            }
            row: dict[str, Any] = {"schema": name, "method": method, "given": given}
            for way, each in forms.items():
                (done,) = generate(model, replace(plain, prompts=(each,)))
                text = (done.text or "").removeprefix(each.opening)
                json.loads(each.opening + text)
                row[way] = done.updates
            rows.append(row)
    return rows


def unsure(automaton: Any) -> Any:
    """The same texts; nothing is known to be certain."""
    return replace(automaton, certain=np.zeros_like(automaton.certain))


def main() -> None:
    model = archer.load("pocket")
    task = open_task("pocket-dev")
    assert isinstance(task, CodeTask)
    with Judge(task.limits) as judge:
        found = {"bodies": bodies(model, task, judge, int(sys.argv[1]))}
    found["scaffold"] = scaffold(model)
    json.dump({"machine": describe(), **found}, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
