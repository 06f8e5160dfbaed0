"""Methods, decoders and caches with their settings, as plain data for whoever lists them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from archer.catalogue import ALIASES, COMMON, DECODERS, METHODS, POLICIES, PRESETS, Part


def method_list() -> dict[str, Any]:
    """All there is to choose from; a setting's value is its default, None where it follows the length."""
    return {
        "methods": {
            name: {"means": means, "summary": summary} for name, (means, summary) in METHODS.items()
        },
        "decoders": {name: _described(part) for name, part in DECODERS.items()},
        "policies": {name: _described(part) for name, part in POLICIES.items()},
        "presets": {name: dict(settings) for name, settings in PRESETS.items()},
        "aliases": dict(ALIASES),
        "common": _described(COMMON),
    }


def _described(part: Part) -> dict[str, Any]:
    declared = {
        item.name: item.default for item in fields(part.make) if item.name not in part.fixed
    }
    return {"summary": part.summary, "settings": declared}
