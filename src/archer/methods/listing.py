"""Methods, decoders and caches with their settings, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from archer.errors import ArcherError
from archer.methods.catalogue import ALIASES, COMMON, METHODS, PRESETS, Part

if TYPE_CHECKING:
    from archer.methods.extensions import Extended

Entry = TypeVar("Entry")


def method_list(decoders: Mapping[str, Part], policies: Mapping[str, Part]) -> dict[str, Any]:
    """All there is to choose from; a setting's value is its default, None where it follows the length."""
    return {
        "methods": {
            name: {"means": means, "summary": summary} for name, (means, summary) in METHODS.items()
        },
        "decoders": {name: _described(part) for name, part in decoders.items()},
        "policies": {name: _described(part) for name, part in policies.items()},
        "presets": {name: dict(settings) for name, settings in PRESETS.items()},
        "aliases": dict(ALIASES),
        "common": _described(COMMON),
    }


def usable(table: Extended[Entry], tell: Callable[[str], object]) -> Iterator[tuple[str, Entry]]:
    """Every entry; if one from another package cannot be imported, the reason is reported instead."""
    for name in table:
        try:
            yield name, table[name]
        except ArcherError as error:
            tell(str(error))


def _described(part: Part) -> dict[str, Any]:
    declared = {
        item.name: item.default for item in fields(part.make) if item.name not in part.fixed
    }
    return {"summary": part.summary, "settings": declared}
