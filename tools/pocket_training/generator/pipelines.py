"""Select, map, reduce: how the tasks that walk over an iterable are drawn."""

from __future__ import annotations

from random import Random

from pocket_training.generator import elements
from pocket_training.generator.forms import Pipeline, bodies
from pocket_training.generator.operations import Binder, Bound, Draft, Operation, Parameter
from pocket_training.generator.reductions import REDUCTIONS, TABLE, Reduction
from pocket_training.generator.sources import SOURCES, Source
from pocket_training.generator.wording import pipeline_statement

QUANTIFIERS = ("all", "any")


def draw(rng: Random, family: str) -> Draft:
    """Draw one task of a family."""
    source = SOURCES[family]
    binder = Binder(rng, as_argument=rng.random() < 0.2 and len(source.parameters) == 1)
    names = []
    for choices, kind in source.parameters:
        names.append(binder.name(choices))
        binder.parameters.append(Parameter(names[-1], kind))
    places = {"p": names[0], "q": names[-1]}
    pipeline = _draw_operations(rng, binder, source, places)
    return Draft(
        family=family,
        parts=pipeline.parts(),
        statement=pipeline_statement(rng, pipeline, places),
        parameters=tuple(binder.parameters),
        bodies=tuple(bodies(rng, binder, pipeline)),
    )


def _draw_operations(
    rng: Random, binder: Binder, source: Source, places: dict[str, str]
) -> Pipeline:
    conditions = _draw_conditions(rng, binder, source, {"o": places["q"]})
    taken = [condition.operation for condition in conditions]
    claims = [item for item in source.conditions if item.negated and item not in taken]
    claim, mapping = None, None
    if len(conditions) < 2 and claims and rng.random() < 0.12:
        claim = binder.bind(binder.pick(claims), o=places["q"])
        reduction = Reduction(rng.choice(QUANTIFIERS), (), (), "", "")
    else:
        mapping, reduction = _draw_end(rng, binder, source)
    constant = binder.bind(Operation("", (), (), reduction.constants)).values
    return Pipeline(
        source=source,
        iterable=source.iterable.format(**places),
        conditions=conditions,
        joint=rng.choice(("and", "or")),
        mapping=mapping,
        reduction=reduction,
        constant=constant,
        claim=claim,
    )


def _draw_conditions(
    rng: Random, binder: Binder, source: Source, other: dict[str, str]
) -> tuple[Bound, ...]:
    number = rng.choices((0, 1, 2), (22, 68, 10))[0]
    if source.family == "members":
        tables = [elements.MEMBER_CONDITIONS, elements.NUMBER_CONDITIONS][: max(1, number)]
    else:
        tables = [source.conditions] * number
    chosen: list[Bound] = []
    for table in tables:
        left = [item for item in table if item not in [bound.operation for bound in chosen]]
        chosen.append(binder.bind(binder.pick(left), **other))
    return tuple(chosen)


def _draw_end(rng: Random, binder: Binder, source: Source) -> tuple[Bound | None, Reduction]:
    mapping = binder.bind(binder.pick(source.maps)) if rng.random() < 0.7 else None
    kind = source.kind if mapping is None else mapping.operation.kind or source.kind
    endings = [
        reduction
        for reduction in REDUCTIONS
        if kind in reduction.kinds
        and reduction.mapped in (None, mapping is not None)
        and (reduction is not TABLE or source.key)
    ]
    return mapping, binder.pick(endings)
