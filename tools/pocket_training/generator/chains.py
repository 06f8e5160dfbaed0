"""Steps that follow each other on one value: arithmetic on numbers, operations on strings, a choice.

Every task is written as one expression, or step by step with the argument or a new name.
"""

from __future__ import annotations

from random import Random

from pocket_training.generator import elements
from pocket_training.generator.operations import Binder, Bound, Draft, Operation, Parameter
from pocket_training.generator.operations import Operation as Op
from pocket_training.generator.wording import branch_statement, chain_statement

NUMBERS = ("n", "num", "m")
STRINGS = ("s", "text", "word")
PAIRS = (("a", "b"), ("x", "y"), ("n", "m"))

_LOOSE = {
    "square",
    "cube",
    "double",
    "half",
    "negate",
    "plus",
    "minus",
    "times",
    "from",
    "mod",
    "over",
}

NUMBER_STEPS = (
    *(
        Op(op.key, op.codes, op.phrases, op.constants, kind=op.kind, atomic=op.key not in _LOOSE)
        for op in elements.NUMBER_MAPS
        if op.key not in ("text", "double")
    ),
    Op("digits", ("sum(int(ch) for ch in str(abs({v})))",), ("take the digit sum of {it}",)),
)

COMBINE_STEPS = (
    Op("sum", ("{a} + {b}",), ("add {a} and {b}", "take the sum of {a} and {b}"), atomic=False),
    Op("difference", ("{a} - {b}",), ("subtract {b} from {a}",), atomic=False),
    Op(
        "product",
        ("{a} * {b}",),
        ("multiply {a} by {b}", "take the product of {a} and {b}"),
        atomic=False,
    ),
    Op("larger", ("max({a}, {b})",), ("take the larger of {a} and {b}",)),
    Op("smaller", ("min({a}, {b})",), ("take the smaller of {a} and {b}",)),
    Op("gap", ("abs({a} - {b})",), ("take the absolute difference of {a} and {b}",)),
)

STRING_STEPS = (
    Op("reverse", ("{v}[::-1]",), ("reverse {it}",)),
    Op("upper", ("{v}.upper()",), ("convert {it} to upper case",)),
    Op("lower", ("{v}.lower()",), ("convert {it} to lower case",)),
    Op("swapcase", ("{v}.swapcase()",), ("swap the case of {it}",)),
    Op(
        "replace", ("{v}.replace({c}, {d})",), ("replace {c} by {d} in {it}",), ("letter", "letter")
    ),
    Op("drop", ("{v}.replace({c}, '')",), ("remove the letter {c} from {it}",), ("letter",)),
    Op("head", ("{v}[:{c}]",), ("take the first {c} letters of {it}",), ("count",)),
    Op("tail", ("{v}[-{c}:]",), ("take the last {c} letters of {it}",), ("count",)),
    Op("skip", ("{v}[{c}:]",), ("remove the first {c} letters of {it}",), ("count",)),
    Op("chop", ("{v}[:-{c}]",), ("remove the last {c} letters of {it}",), ("count",)),
    Op("every", ("{v}[::{c}]",), ("take every letter number {c} of {it}",), ("factor",)),
    Op("repeat", ("{v} * {c}",), ("repeat {it} {c} times",), ("count",), atomic=False),
    Op("append", ("{v} + {c}",), ("append {c} to {it}",), ("letter",), atomic=False),
    Op("prepend", ("{c} + {v}",), ("put {c} before {it}",), ("letter",), atomic=False),
    Op("sort", ("''.join(sorted({v}))",), ("sort the letters of {it}",)),
    Op("spell", ("'-'.join({v})",), ("put '-' between the letters of {it}",)),
)

STRING_ENDS = (
    Op("length", ("len({v})",), ("take the length of {it}",), kind="int"),
    Op("tally", ("{v}.count({c})",), ("count the letter {c} in {it}",), ("letter",), kind="int"),
    Op("find", ("{v}.find({c})",), ("find the position of {c} in {it}",), ("letter",), kind="int"),
    Op("letters", ("list({v})",), ("split {it} into letters",), kind="list"),
    Op("distinct", ("len(set({v}))",), ("count the distinct letters of {it}",), kind="int"),
    Op("contains", ("{c} in {v}",), ("check whether {it} contains {c}",), ("letter",), kind="bool"),
    Op("starts", ("{v}.startswith({c})",), ("check whether {it} starts with {c}",), ("letter",)),
    Op("finishes", ("{v}.endswith({c})",), ("check whether {it} ends with {c}",), ("letter",)),
)

NUMBER_TESTS = elements.NUMBER_CONDITIONS
PAIR_TESTS = (
    Op("first", ("{a} > {b}",), ("{a} is greater than {b}", "{a} is above {b}")),
    Op("second", ("{a} < {b}",), ("{a} is less than {b}", "{a} is below {b}")),
    Op("same", ("{a} == {b}",), ("{a} is equal to {b}",)),
    Op("other", ("{a} != {b}",), ("{a} is different from {b}",)),
    Op("divides", ("{b} != 0 and {a} % {b} == 0",), ("{b} is not 0 and {a} is divisible by {b}",)),
    Op("total", ("{a} + {b} > {c}",), ("the sum of {a} and {b} is above {c}",), ("limit",)),
)


def draw_arithmetic(rng: Random) -> Draft:
    """Two or three steps on one number."""
    binder = Binder(rng, as_argument=rng.random() < 0.15)
    name = binder.name(NUMBERS)
    binder.parameters.append(Parameter(name, "number"))
    steps = _draw_steps(binder, NUMBER_STEPS, rng.choices((1, 2, 3), (2, 8, 3))[0])
    return _chain("arithmetic", rng, binder, steps, {"v": name})


def draw_combination(rng: Random) -> Draft:
    """Two numbers become one, then one or two steps follow."""
    binder = Binder(rng)
    a, b = rng.choice(PAIRS)
    binder.parameters += [Parameter(a, "number"), Parameter(b, "number")]
    first = binder.bind(binder.pick(COMBINE_STEPS))
    steps = [first, *_draw_steps(binder, NUMBER_STEPS, rng.choice((1, 1, 2)))]
    return _chain("combination", rng, binder, steps, {"v": a, "a": a, "b": b})


def draw_string(rng: Random) -> Draft:
    """One to three steps on a string; the last one may leave strings."""
    binder = Binder(rng)
    name = binder.name(STRINGS)
    binder.parameters.append(Parameter(name, "string"))
    steps = _draw_steps(binder, STRING_STEPS, rng.choices((1, 2, 3), (3, 7, 2))[0])
    if len(steps) < 3 and rng.random() < 0.5:
        steps.append(binder.bind(binder.pick(STRING_ENDS)))
    return _chain("string", rng, binder, steps, {"v": name})


def draw_choice(rng: Random) -> Draft:
    """One of two results, depending on a condition on one number."""
    binder = Binder(rng, as_argument=rng.random() < 0.15)
    name = binder.name(NUMBERS)
    binder.parameters.append(Parameter(name, "number"))
    test = binder.bind(binder.pick(NUMBER_TESTS))
    condition = test.phrase(rng).replace("are not multiples", "is not a multiple")
    condition = (
        condition.replace("are multiples", "is a multiple")
        .replace("are ", "is ")
        .replace("have ", "has ")
    )
    results = _draw_steps(binder, NUMBER_STEPS, 2)
    return _branch("choice", rng, binder, test, f"{name} {condition}", results, {"v": name})


def draw_comparison(rng: Random) -> Draft:
    """One of two results, depending on a condition on two numbers."""
    binder = Binder(rng)
    a, b = rng.choice(PAIRS)
    binder.parameters += [Parameter(a, "number"), Parameter(b, "number")]
    names = {"v": a, "a": a, "b": b}
    test = binder.bind(binder.pick(PAIR_TESTS))
    results = _draw_steps(binder, (*COMBINE_STEPS, *NUMBER_STEPS), 2)
    return _branch("comparison", rng, binder, test, test.phrase(rng, **names), results, names)


def _draw_steps(binder: Binder, table: tuple[Operation, ...], number: int) -> list[Bound]:
    """Different operations of a table, with their constants."""
    steps: list[Bound] = []
    for _ in range(number):
        left = [item for item in table if item not in [step.operation for step in steps]]
        steps.append(binder.bind(binder.pick(left)))
    return steps


def _chain(
    family: str, rng: Random, binder: Binder, steps: list[Bound], names: dict[str, str]
) -> Draft:
    orders = []
    later = rng.choice(("it", "the result"))
    for index, step in enumerate(steps):
        orders.append(step.phrase(rng, it=names["v"] if index == 0 else later, **_pair(names)))
    bodies = [_nested(rng, steps, names), _stepwise(rng, steps, names, rng.choice(("result", "r")))]
    if len(steps) > 1:
        bodies.append(_stepwise(rng, steps, names, names["v"]))
    return Draft(
        family=family,
        parts=tuple(step.operation.key for step in steps),
        statement=chain_statement(rng, orders),
        parameters=tuple(binder.parameters),
        bodies=tuple(bodies),
    )


def _pair(names: dict[str, str]) -> dict[str, str]:
    return {key: names[key] for key in ("a", "b") if key in names}


def _nested(rng: Random, steps: list[Bound], names: dict[str, str]) -> str:
    value, atomic = names["v"], True
    for step in steps:
        inner = value if atomic or _bracketed(step) else f"({value})"
        code = step.code(rng, v=inner, **_pair(names))
        value, atomic = code, step.operation.atomic
    return f"\n    return {value}"


def _bracketed(step: Bound) -> bool:
    """Whether the code puts its operand between brackets or commas of its own."""
    return all("({v}" in code for code in step.operation.codes)


def _stepwise(rng: Random, steps: list[Bound], names: dict[str, str], local: str) -> str:
    lines, value = [], names["v"]
    for step in steps[:-1]:
        lines.append(f"\n    {local} = {step.code(rng, v=value, **_pair(names))}")
        value = local
    last = steps[-1].code(rng, v=value, **_pair(names))
    if len(steps) > 1 and local == names["v"]:
        return "".join(lines) + f"\n    return {last}"
    return "".join(lines) + f"\n    {local} = {last}\n    return {local}"


def _branch(
    family: str,
    rng: Random,
    binder: Binder,
    test: Bound,
    condition: str,
    results: list[Bound],
    names: dict[str, str],
) -> Draft:
    words = [result.phrase(rng, it=names["v"], **_pair(names)) for result in results]
    check = test.code(rng, **names)
    yes, no = (result.code(rng, **names) for result in results)
    return Draft(
        family=family,
        parts=(f"if-{test.operation.key}", *(result.operation.key for result in results)),
        statement=branch_statement(rng, condition, *words),
        parameters=tuple(binder.parameters),
        bodies=(
            f"\n    return {yes} if {check} else {no}",
            f"\n    if {check}:\n        return {yes}\n    return {no}",
            f"\n    if {check}:\n        result = {yes}\n    else:\n        result = {no}\n    return result",
        ),
    )
