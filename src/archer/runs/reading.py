"""Objects of run folders from plain data; BadRun names the place where anything is amiss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from archer.runs.faults import BadRun
from archer.runs.records import GradeLine, Held, Manifest, SampleLine

Kind = TypeVar("Kind", bound=Held)


def as_line(record: Mapping[str, Any], where: str) -> SampleLine | GradeLine:
    """A line of a journal, of either kind."""
    match record.get("event"):
        case "sample":
            return as_held(SampleLine, record, where)
        case "grade":
            return as_held(GradeLine, record, where)
    raise BadRun(f"{where} holds a record of no known kind: {shown(record)}.")


def as_manifest(manifest: Mapping[str, Any], where: str) -> Manifest:
    """A manifest with what is needed to go on with a run, or to compare it."""
    return as_held(Manifest, manifest, where)


def as_held(kind: type[Kind], value: Mapping[str, Any], where: str) -> Kind:
    """The value as an object of this kind."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise BadRun(f"{where} is damaged: {_fault(kind, value, error)}. {REMEDY}") from error


REMEDY = "Restore the file from a copy, or start again in another folder."
MOST_SHOWN = 60


def _fault(kind: type[Held], value: Mapping[str, Any], error: ValidationError) -> str:
    """The first field that is wrong and what it must be."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = str(first["loc"][0])
    field = kind.model_fields.get(name)
    wanted = None if field is None else field.description
    if wanted is None:
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{name} must be {wanted}, not {shown(value.get(name))}"


def shown(value: object) -> str:
    """The beginning of a value from a file, whatever it is."""
    try:
        return repr(str(value)[:MOST_SHOWN])
    except RecursionError:
        return "something nested too deeply"
