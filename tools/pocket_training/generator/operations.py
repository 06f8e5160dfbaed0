"""What the programs are made of: one record per operation, with its words and its code.

Code and phrases are templates. `{v}` is the element (or `{a}` and `{b}` for pairs), `{c}` and `{d}` are
constants, `{o}` is a second list. Several codes or phrases in one record mean the same.

This file draws constants and names; it knows no operation by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol, TypeVar

CONSTANTS: dict[str, tuple[str, ...]] = {
    "limit": tuple(str(number) for number in range(1, 11)),
    "factor": tuple(str(number) for number in range(2, 10)),
    "amount": tuple(str(number) for number in range(1, 11)),
    "count": tuple(str(number) for number in range(2, 6)),
    "digit": tuple(str(number) for number in range(10)),
    "low": tuple(str(number) for number in range(6)),
    "high": tuple(str(number) for number in range(7, 13)),
    "letter": tuple(f"'{letter}'" for letter in "abcdeilmnoprst"),
}
"""The pools that constants are drawn from; numbers are written as in Python, letters with quotes."""

SECOND = 0.3
"""How likely an operation with a constant is, compared with others, once a task has one."""


class HasConstants(Protocol):
    """What may need constants: an operation or a reduction."""

    @property
    def constants(self) -> tuple[str, ...]: ...


Weighed = TypeVar("Weighed", bound=HasConstants)


@dataclass(frozen=True)
class Operation:
    """One part of a structure: a condition, a mapping, a step of a chain."""

    key: str
    codes: tuple[str, ...]
    phrases: tuple[str, ...]
    """A condition: what follows "that". A mapping or step: an order, with `{it}` for its object."""
    constants: tuple[str, ...] = ()
    """The pools of `{c}` and `{d}`."""
    negated: str = ""
    """A condition's opposite; empty where it cannot be used as a claim about all elements."""
    kind: str = ""
    """The kind of the result when it is not the kind of the input."""
    atomic: bool = True
    """Whether the code can be continued by a method call or an operator without brackets."""


@dataclass(frozen=True)
class Parameter:
    """An argument of the function: its name, the kind of its values."""

    name: str
    kind: str


@dataclass(frozen=True)
class Draft:
    """A task before it has tests: what it says, what it takes, and every program that solves it."""

    family: str
    parts: tuple[str, ...]
    """The operations in order; together with the family they are the structure."""
    statement: str
    parameters: tuple[Parameter, ...]
    bodies: tuple[str, ...]
    """Equally valid bodies, each starting with a line break."""

    @property
    def structure(self) -> str:
        return "|".join((self.family, *self.parts))


@dataclass
class Bound:
    """An operation whose constants have been drawn."""

    operation: Operation
    values: dict[str, str]

    def code(self, rng: Random, **names: str) -> str:
        return rng.choice(self.operation.codes).format(**self.values, **names)

    def negated(self, **names: str) -> str:
        return self.operation.negated.format(**self.values, **names)

    def phrase(self, rng: Random, **names: str) -> str:
        return rng.choice(self.operation.phrases).format(**self.values, **names)


@dataclass
class Binder:
    """Draws constants; now and then the first one becomes an argument of the function instead."""

    rng: Random
    as_argument: bool = False
    taken: set[str] = field(default_factory=set)
    spent: int = 0
    """Constants drawn so far."""
    parameters: list[Parameter] = field(default_factory=list)

    def pick(self, operations: Sequence[Weighed]) -> Weighed:
        """One of several operations; after the first constant, those without one are preferred."""
        weights = [SECOND if item.constants and self.spent else 1.0 for item in operations]
        return self.rng.choices(operations, weights)[0]

    def bind(self, operation: Operation, **given: str) -> Bound:
        values = dict(given)
        for slot, pool in zip("cd", operation.constants, strict=False):
            values[slot] = self._constant(pool, values)
        return Bound(operation, values)

    def _constant(self, pool: str, earlier: dict[str, str]) -> str:
        if self.as_argument and pool in ("limit", "factor", "amount"):
            self.as_argument = False
            self.spent += 1
            name = self.name(("k", "bound"))
            self.parameters.append(Parameter(name, pool))
            return name
        self.spent += 1
        return self.rng.choice(
            [value for value in CONSTANTS[pool] if value not in earlier.values()]
        )

    def name(self, names: Sequence[str]) -> str:
        """A name that is not used yet in this function."""
        chosen = self.rng.choice([name for name in names if name not in self.taken])
        self.taken.add(chosen)
        return chosen
