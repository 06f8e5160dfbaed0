"""The parts of methods by name, Archer's own and those of other packages, and what their settings are."""

import ast
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import pydantic
from pydantic.dataclasses import is_pydantic_dataclass

from archer.decoders.base import Decoder
from archer.methods import catalogue
from archer.methods.catalogue import Part
from archer.methods.extensions import Extended
from archer.passes.canvas import Scope
from archer.policies.base import Policy

TRUE_OR_FALSE = "true or false"


def _members(declaring: type) -> tuple[str, ...]:
    """What a class declares for others to use, in the order in which it stands there."""
    named = {**inspect.get_annotations(declaring), **vars(declaring)}
    return tuple(name for name in named if not name.startswith("_"))


DECODER_VERBS, POLICY_VERBS = _members(Decoder), _members(Policy)
"""All that the engine asks of a part: a class that has less is refused when it is named, not when it runs."""


@dataclass(frozen=True)
class Setting:
    """One setting of a method: what it is if nothing is said, what it may be, and what it does."""

    name: str
    default: Any
    allowed: str
    meaning: str

    @property
    def shown_default(self) -> str:
        return "auto" if self.default is None else f"{self.default}"


class Settings(dict[str, Setting]):
    """The settings of a method by name; as text a line each."""

    def __repr__(self) -> str:
        rows = [(f"{each.name}={each.shown_default}", each) for each in self.values()]
        width = max((len(shown) for shown, _ in rows), default=0) + 2
        return "\n".join(
            f"{shown:<{width}}{each.allowed}{'. ' if each.meaning else ''}{each.meaning}"
            for shown, each in rows
        )


def described(part: Part) -> Settings:
    """The settings of one part that its name leaves open."""
    make: Any = part.make
    meanings = _meanings(make)
    return Settings(
        (
            item.name,
            Setting(item.name, item.default, allowed(part, item.name), meanings.get(item.name, "")),
        )
        for item in fields(part.make)
        if item.name not in part.fixed
    )


def allowed(part: Part, name: str) -> str:
    """What a setting may be, in words, from its declaration."""
    make: Any = part.make
    schema = _declared(make)[name]
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    return " or ".join(_in_words(kind) for kind in kinds)


@cache
def _declared(kind: type) -> Mapping[str, Mapping[str, Any]]:
    """The schema of each setting; made once, because a refusal asks for it while others wait."""
    properties: dict[str, dict[str, Any]] = pydantic.TypeAdapter(kind).json_schema()["properties"]
    return properties


def _in_words(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    words = {"integer": "a whole number", "number": "a number", "boolean": TRUE_OR_FALSE}
    bounds = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    limits = [f"{word} {schema[key]:.10g}" for key, word in bounds.items() if key in schema]
    kind = schema.get("description") or words.get(
        schema.get("type", ""), "a list of lists of numbers"
    )
    return ", ".join([kind, *limits])


def missing(part: object, verbs: Iterable[str]) -> list[str]:
    return [verb for verb in verbs if not hasattr(part, verb)]


def _adopter(verbs: tuple[str, ...]) -> Callable[[object], Part]:
    """Makes a row of the catalogue of a class, or takes one as it is."""

    def adopted(candidate: object) -> Part:
        part = candidate if isinstance(candidate, Part) else None
        make = candidate if part is None else part.make
        if not isinstance(make, type) or not is_pydantic_dataclass(make):
            raise TypeError("it must be a pydantic dataclass, or a Part with one")
        absent = missing(make, verbs)
        if absent:
            raise TypeError(f"it has no {', '.join(absent)}")
        return part or Part(make, _first_line(make), {}, getattr(make, "main", None))

    return adopted


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or kind.__name__).partition("\n")[0].rstrip(".")


@cache
def _meanings(kind: type) -> Mapping[str, str]:
    """The sentence under each field, from the source of the class and of those it inherits from."""
    return {k: v for base in reversed(kind.__mro__) for k, v in _own_meanings(base).items()}


def _own_meanings(kind: type) -> dict[str, str]:
    """Of the fields that a class declares itself; nothing where there is no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, SyntaxError, TypeError):
        return {}
    (definition,) = tree.body
    assert isinstance(definition, ast.ClassDef)
    meanings = {}
    for above, below in itertools.pairwise(definition.body):
        match above, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                meanings[name] = " ".join(text.split())
    return meanings


DECODERS = Extended(catalogue.DECODERS, "archer.decoders", _adopter(DECODER_VERBS))
POLICIES = Extended(catalogue.POLICIES, "archer.policies", _adopter(POLICY_VERBS))
"""The names of the catalogue, and those of other packages."""


def method_list(decoders: Mapping[str, Part], policies: Mapping[str, Part]) -> dict[str, Any]:
    """All there is to choose from; a setting's value is its default, None where it follows the length."""
    return {
        "methods": {
            name: {"means": means, "summary": summary, "kind": _kind(means.partition("+")[0])}
            for name, (means, summary) in catalogue.METHODS.items()
        },
        "decoders": {name: _defaults(part) for name, part in decoders.items()},
        "policies": {name: _defaults(part) for name, part in policies.items()},
        "presets": {name: dict(settings) for name, settings in catalogue.PRESETS.items()},
        "aliases": dict(catalogue.ALIASES),
        "common": _defaults(catalogue.COMMON),
    }


def _kind(decoder: str) -> str:
    """What decoders are told apart by first: whether they may change their mind."""
    part = catalogue.DECODERS[decoder]
    rule = part.make(**part.fixed)
    return "keeps what it writes" if rule.reads is Scope.MASKS else "takes tokens back"


def _defaults(part: Part) -> dict[str, Any]:
    declared = {
        item.name: item.default for item in fields(part.make) if item.name not in part.fixed
    }
    return {"summary": part.summary, "settings": declared}
