"""What a schema costs: the automaton once, and every update beside a cached pass.

Axes: G response columns, V vocabulary.

Measured is the first update of a response of masks, which has the most to weigh; the logits are drawn.
"""

from __future__ import annotations

import statistics
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch

from archer.bench.facts import Result
from archer.bench.repeating import interleaved, spread
from archer.bench.step_variants import NEVER, StepVariants
from archer.bench.subject import Subject
from archer.decoders.saber import Saber
from archer.errors import BadRequest
from archer.loading.text.token_bytes import TokenBytes
from archer.pages.tables import Field, Table, percent, table_of
from archer.passes.canvas import Prompt
from archer.passes.logits import Logits, RowLogits
from archer.structure.constraint import Constraint, constrained
from archer.structure.lattice import OPEN
from archer.structure.schema import automaton_of
from archer.structure.token_automaton import TokenAutomaton, Vocabulary, kept_bytes, over_tokens

TEXT: Mapping[str, Any] = {"type": "string"}
PLACE: Mapping[str, Any] = {"street": TEXT, "city": TEXT, "zip": {"pattern": "^[0-9]{5}$"}}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


SCHEMAS: Mapping[str, Any] = {
    "flat": _object(
        name={"type": "string", "maxLength": 40},
        age={"type": "integer", "minimum": 0, "maximum": 150},
        email={"type": "string", "format": "email"},
        active={"type": "boolean"},
    ),
    "nested": _object(
        title=TEXT,
        author=_object(name=TEXT, address=_object(**PLACE)),
        published={"type": "string", "format": "date"},
    ),
    "array": {
        "type": "array",
        "items": _object(item=TEXT, count={"type": "integer"}, kind={"enum": ["new", "used"]}),
        "minItems": 1,
    },
}
DRAWN = 0.7
"""A temperature; at 1 the weights of the greedy text are used again."""
FREE = "free"
"""An update without a constraint."""
WIDTH = 3.0
"""Standard deviation of the drawn logits."""


@dataclass(frozen=True)
class StructureRow:
    """One schema."""

    schema: str
    states: int
    classes: int
    transitions: int
    schema_ms: float
    """Until its automaton over bytes stands."""
    tokens_ms: float
    """From there to the one over tokens."""
    peak_mb: float
    """Memory that both take at most, the vocabulary's own aside."""
    kept_mb: float
    """Memory that the automaton takes afterwards, with what updates work out of it."""
    update_ms: float
    """What the constraint adds to an update of the rule at temperature 0."""
    drawn_ms: float
    """The same at temperature 0.7; below 0 where drawing one text is cheaper than drawing every token."""
    cached_ms: float
    """A cached pass at the depth of the model, in turn with the others."""
    share: float
    """Of the update in that pass."""
    share_drawn: float
    spread: float


def vocabulary_of(pieces: TokenBytes | None, subject: Subject) -> Vocabulary:
    """The tokens of a tokenizer, in the vocabulary of a network that it belongs to."""
    size = subject.network.shape.vocabulary
    if pieces is None:
        raise BadRequest("The tokens of this tokenizer have no bytes of their own. Give another.")
    if max(pieces.ordinary) >= size:
        raise BadRequest(
            f"The tokenizer has ids up to {max(pieces.ordinary)}, but the network's vocabulary ends at "
            f"{size - 1}. Give the tokenizer of a model of this shape."
        )
    spelled = {id: pieces.spelled[id] for id in pieces.ordinary if id != subject.mask}
    end = next(id for id in reversed(range(size)) if id not in spelled and id != subject.mask)
    return Vocabulary(spelled, [end], size)


def measure(
    subject: Subject, vocabulary: Vocabulary, prompt: int, response: int, repeats: int
) -> Iterator[StructureRow]:
    """One row per schema; updates and cached passes are made in turn."""
    assert vocabulary.levels
    made = {name: _made(schema, vocabulary) for name, schema in SCHEMAS.items()}
    for automaton, _ in made.values():
        Constraint(automaton).refuse_impossible(np.full(response, OPEN), OPEN, name="schema")
    variants = StepVariants.at(subject, prompt, response)
    logits = WIDTH * torch.randn(
        response, vocabulary.size, generator=torch.Generator().manual_seed(0)
    )
    cached = variants.refreshing(NEVER)
    timed: dict[str, Callable[[], float]] = {"cached": lambda: cached().at_depth(subject.depth)}
    held: dict[str, Constraint | None] = {FREE: None}
    held |= {name: Constraint(automaton) for name, (automaton, _) in made.items()}
    for name, constraint in held.items():
        for temperature in (0.0, DRAWN):
            timed[f"{name} {temperature:g}"] = partial(
                _update, constraint, logits, subject.mask, temperature
            )
    seconds = interleaved(timed, repeats)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    for name, (automaton, costs) in made.items():
        update, drawn = (
            middle[f"{name} {temperature:g}"] - middle[f"{FREE} {temperature:g}"]
            for temperature in (0.0, DRAWN)
        )
        yield StructureRow(
            schema=name,
            states=automaton.states,
            classes=len(automaton.first) - 1,
            transitions=len(automaton.source),
            **costs,
            kept_mb=kept_bytes(automaton) / 1e6,
            update_ms=1e3 * update,
            drawn_ms=1e3 * drawn,
            cached_ms=1e3 * middle["cached"],
            share=update / middle["cached"],
            share_drawn=drawn / middle["cached"],
            spread=spread(seconds[f"{name} 0"]),
        )


def _made(schema: Any, vocabulary: Vocabulary) -> tuple[TokenAutomaton, dict[str, float]]:
    """An automaton, and what it cost: made once for the time and once more for the memory."""
    marks = [perf_counter()]
    over_bytes = automaton_of(schema)
    marks.append(perf_counter())
    made = over_tokens(over_bytes, vocabulary)
    marks.append(perf_counter())
    tracemalloc.start()
    try:
        over_tokens(automaton_of(schema), vocabulary)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    first, second = np.diff(marks).tolist()
    costs = {"schema_ms": 1e3 * first, "tokens_ms": 1e3 * second}
    return made, costs | {"peak_mb": peak / 1e6}


def _update(
    constraint: Constraint | None, logits: torch.Tensor, mask: int, temperature: float
) -> float:
    """Seconds of an update from logits [G, V], the rule's own part included."""
    saber = Saber(temperature=temperature)
    rule = saber if constraint is None else constrained(saber)
    length = len(logits)
    state = rule.start(Prompt.of([0], mask, constraint=constraint), length)
    row = RowLogits(logits, tuple(range(length)))
    started = perf_counter()
    rule.step(state, Logits([row], length, mask))
    return perf_counter() - started


def table(result: Result) -> Table:
    fields = (
        Field("schema"),
        *(Field(name) for name in ("states", "classes", "transitions")),
        Field("schema_ms", "schema ms", 0),
        Field("tokens_ms", "tokens ms", 0),
        Field("peak_mb", "peak MB", 0),
        Field("kept_mb", "kept MB", 1),
        Field("update_ms", "added ms", 0),
        Field("drawn_ms", "added, drawn ms", 0),
        Field("cached_ms", "cached pass ms", 0),
        percent("share", "added / pass"),
        percent("share_drawn", "added, drawn / pass"),
    )
    return table_of("Schemas", fields, result["rows"])
