"""What manifests and journals must hold, so that whoever reads them further can rely on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Literal, TypeGuard, get_args

from archer.judge import Outcome
from archer.runs.faults import BadRun

Kind = Literal["sample", "grade"]
OUTCOMES = tuple(set(get_args(Outcome)) - {"harness_error"})
"""What is recorded; a fault of the judge is no verdict."""
COUNTS = ("updates", "full_passes", "cached_passes", "reused_passes", "revised_positions")


def check_record(record: Mapping[str, Any], where: str) -> tuple[Kind, str]:
    """The kind of a record and the problem that it is about; BadRun where anything is amiss."""
    kind = record.get("event")
    if kind not in ("sample", "grade"):
        raise BadRun(f"{where} holds a record of no known kind: {str(record)[:60]!r}.")
    key = record.get("id")
    _require(isinstance(key, str) or _is_count(key), where, "id", "a number or a text", key)
    fields = SAMPLE if kind == "sample" else GRADE
    for name, (holds, wanted) in fields.items():
        _require(name in record and holds(record[name]), where, name, wanted, record.get(name))
    return kind, str(key)


def check_manifest(manifest: Mapping[str, Any], where: str) -> None:
    """BadRun unless a manifest says what is needed to go on with a run, or to compare it."""
    for name in ("identity", "circumstances"):
        held = manifest.get(name)
        _require(isinstance(held, dict), where, name, "an object", held)
    identity = manifest["identity"]
    problems, method = identity.get("problems"), identity.get("method")
    _require(
        _is_object(problems) and _is_count(problems.get("n")),
        *(where, "identity.problems", "an object with the number n", problems),
    )
    _require(
        _is_object(method)
        and isinstance(method.get("name"), str)
        and isinstance(method.get("settings"), dict),
        *(where, "identity.method", "an object with name and settings", method),
    )


def _require(holds: bool, where: str, name: str, wanted: str, found: Any) -> None:
    if not holds:
        raise BadRun(
            f"{where} is damaged: {name} must be {wanted}, not {str(found)[:40]!r}. Restore the file "
            "from a copy, or start again in another folder."
        )


def _is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, dict)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_time(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and isfinite(value) and value >= 0


def _is_timed(value: Any) -> bool:
    return _is_object(value) and _is_time(value.get("total"))


def _are_tokens(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_count, value))


def _are_suites(value: Any) -> bool:
    return _is_object(value) and bool(value) and all(map(_is_graded, value.values()))


def _is_graded(value: Any) -> bool:
    readings = ("verdict", "verdict_as_published")
    return (
        _is_object(value)
        and all(value.get(name) in OUTCOMES for name in readings)
        and value.get("verdict_clean", "pass") in OUTCOMES
    )


Field = tuple[Callable[[Any], bool], str]
SAMPLE: dict[str, Field] = {
    "completion": (lambda value: isinstance(value, str), "a text"),
    "tokens": (_are_tokens, "a list of token ids"),
    "seconds": (_is_timed, "an object with a total of at least 0"),
    **dict.fromkeys(COUNTS, (_is_count, "a whole number of at least 0")),
}
GRADE: dict[str, Field] = {
    "tier": (lambda value: value is None or isinstance(value, str), "a text or null"),
    "suites": (_are_suites, "an object of suites with their verdicts"),
}
