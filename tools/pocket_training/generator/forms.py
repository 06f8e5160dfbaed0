"""A drawn pipeline and the programs that carry it out.

Up to four forms: one expression, a named list, an accumulator loop, map and filter with lambdas. Names of
variables are drawn for each form.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from pocket_training.generator.operations import Binder, Bound
from pocket_training.generator.reductions import TABLE, Reduction
from pocket_training.generator.sources import Source


@dataclass(frozen=True)
class Pipeline:
    """A drawn pipeline: everything but the names inside the body."""

    source: Source
    iterable: str
    conditions: tuple[Bound, ...]
    joint: str
    mapping: Bound | None
    reduction: Reduction
    constant: dict[str, str]
    claim: Bound | None
    """What is claimed of all or any of the elements, for the two quantifiers."""

    def parts(self) -> tuple[str, ...]:
        conditions = [f"if-{condition.operation.key}" for condition in self.conditions]
        mapping = [] if self.mapping is None else [f"map-{self.mapping.operation.key}"]
        claim = [] if self.claim is None else [f"claim-{self.claim.operation.key}"]
        joint = [self.joint] if len(conditions) > 1 else []
        return (*joint, *conditions, *mapping, f"to-{self.reduction.key}", *claim)


def bodies(rng: Random, binder: Binder, pipeline: Pipeline) -> list[str]:
    """Every form that the pipeline can take."""
    if pipeline.claim is not None:
        return _claim_forms(rng, binder, pipeline, pipeline.claim)
    forms = [_expression(rng, binder, pipeline), _loop(rng, binder, pipeline)]
    if pipeline.reduction is not TABLE:
        forms.append(_staged(rng, binder, pipeline))
        single = len(pipeline.source.variables[0]) == 1
        if single and bool(pipeline.conditions) != (pipeline.mapping is not None):
            forms.append(_lazy(rng, binder, pipeline))
    return forms


def _names(rng: Random, binder: Binder, pipeline: Pipeline) -> dict[str, str]:
    usable = [v for v in pipeline.source.variables if not binder.taken.intersection(v)]
    variables = rng.choice(usable)
    return {"v": variables[0], "a": variables[0], "b": variables[-1], "loop": ", ".join(variables)}


def _test(rng: Random, pipeline: Pipeline, names: dict[str, str]) -> str:
    tests = [condition.code(rng, **names) for condition in pipeline.conditions]
    return f" {pipeline.joint} ".join(tests)


def _element(rng: Random, pipeline: Pipeline, names: dict[str, str]) -> str:
    if pipeline.mapping is not None:
        return pipeline.mapping.code(rng, **names)
    return names["v"] if pipeline.source.kind != "pair" else f"({names['a']}, {names['b']})"


def _generator(element: str, names: dict[str, str], iterable: str, test: str) -> str:
    tail = f" if {test}" if test else ""
    return f"{element} for {names['loop']} in {iterable}{tail}"


def _expression(rng: Random, binder: Binder, pipeline: Pipeline) -> str:
    names = _names(rng, binder, pipeline)
    element = _element(rng, pipeline, names)
    if pipeline.reduction is TABLE:
        element = f"{names['v']}: {element}"
    inner = _generator(element, names, pipeline.iterable, _test(rng, pipeline, names))
    answer = rng.choice(pipeline.reduction.inline).format(g=inner, **pipeline.constant)
    return f"\n    return {answer}"


def _staged(rng: Random, binder: Binder, pipeline: Pipeline) -> str:
    names = _names(rng, binder, pipeline)
    kept = rng.choice(("kept", "out", "result"))
    inner = _generator(
        _element(rng, pipeline, names), names, pipeline.iterable, _test(rng, pipeline, names)
    )
    answer = pipeline.reduction.named.format(l=kept, **pipeline.constant)
    return f"\n    {kept} = [{inner}]\n    return {answer}"


def _loop(rng: Random, binder: Binder, pipeline: Pipeline) -> str:
    names = _names(rng, binder, pipeline)
    reduction = pipeline.reduction
    pool = ("total", "result", "acc") if reduction.loop else ("out", "result", "found")
    acc = rng.choice(pool)
    start, update = reduction.loop or ("[]", "{acc}.append({e})")
    change = update.format(acc=acc, e=_element(rng, pipeline, names), key=names["v"])
    test = _test(rng, pipeline, names)
    head = f"\n    {acc} = {start}\n    for {names['loop']} in {pipeline.iterable}:"
    inner = f"\n        if {test}:\n            {change}" if test else f"\n        {change}"
    answer = acc if reduction.loop else reduction.named.format(l=acc, **pipeline.constant)
    return f"{head}{inner}\n    return {answer}"


def _lazy(rng: Random, binder: Binder, pipeline: Pipeline) -> str:
    names = _names(rng, binder, pipeline)
    variable, test = names["v"], _test(rng, pipeline, names)
    chosen = pipeline.iterable
    if test:
        chosen = f"filter(lambda {variable}: {test}, {chosen})"
    if pipeline.mapping is not None:
        chosen = f"map(lambda {variable}: {_element(rng, pipeline, names)}, {chosen})"
    return f"\n    return {pipeline.reduction.lazy.format(m=chosen, **pipeline.constant)}"


def _claim_forms(rng: Random, binder: Binder, pipeline: Pipeline, claim: Bound) -> list[str]:
    every = pipeline.reduction.key == "all"
    names = _names(rng, binder, pipeline)
    test = _test(rng, pipeline, names)
    inner = _generator(claim.code(rng, **names), names, pipeline.iterable, test)
    names = _names(rng, binder, pipeline)
    test = _test(rng, pipeline, names)
    hit = claim.negated(**names) if every else claim.code(rng, **names)
    check = f"{test} and {hit}" if test else hit
    return [
        f"\n    return {pipeline.reduction.key}({inner})",
        f"\n    for {names['loop']} in {pipeline.iterable}:\n        if {check}:"
        f"\n            return {not every}\n    return {every}",
    ]
