"""A preset file: a method with all its settings under a name of the user's, such as `archer tune` writes.

    {"format": "archer-preset", "version": 1, "method": "saber+late", "settings": {...}, "about": {...}}

JSON and nothing else: it is read as data and checked like settings that were typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from archer.errors import BadRequest
from archer.files import read_json
from archer.methods.build import Choice, Method, build
from archer.methods.spelling import in_full, over, plain

FORMAT, VERSION = "archer-preset", 1
ENDING = ".json"


@dataclass(frozen=True)
class Preset:
    """What such a file holds."""

    method: str
    settings: Mapping[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    """Where it comes from; shown to users, never used."""

    @classmethod
    def of(cls, method: Method, about: Mapping[str, Any]) -> Preset:
        """Every setting is kept, so that a default that changes later changes nothing."""
        return cls(in_full(method.name), plain(method.settings), about)

    def under(self, settings: Mapping[str, Any]) -> Choice:
        """Its method with these settings over its own."""
        return Choice(self.method, over(settings, self.settings))

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, **asdict(self)}


def is_file(preset: str) -> bool:
    """Whether a preset is meant as a file; a name of the catalogue has no ending."""
    return preset.endswith(ENDING)


def open_preset(path: Path) -> Preset:
    """Read and check a file; refuses whatever `build` would refuse."""
    held = read_json(path)
    if held.get("format") != FORMAT:
        raise BadRequest(
            f"{path} is not a preset: it does not say {FORMAT!r} as its format. `archer tune` writes one."
        )
    if held.get("version") != VERSION:
        raise BadRequest(
            f"The preset {path} has version {held.get('version')!r}; this Archer reads {VERSION}."
        )
    method, settings, about = held.get("method"), held.get("settings"), held.get("about", {})
    if not (isinstance(method, str) and isinstance(settings, dict) and isinstance(about, dict)):
        raise BadRequest(
            f"The preset {path} is damaged: it must name a method and hold its settings as an object."
        )
    try:
        build(method, settings)
    except BadRequest as error:
        raise BadRequest(f"The preset {path} cannot be used. {error}") from error
    return Preset(method, settings, about)


def read_preset(path: Path | str) -> Method:
    """The method of a preset file: goes wherever a method's name goes, as `method=`."""
    preset = open_preset(Path(path))
    return build(preset.method, preset.settings)
