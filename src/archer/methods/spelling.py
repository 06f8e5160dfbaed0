"""How a method and its settings are spelled: names, values behind a colon, aliases, and what is refused.

A method is spelled `decoder`, `decoder+policy` or `decoder+policy:value`, or has a name of its own in the
catalogue, which takes a value as well: `archer:11`.  A part may be a class in a file: `./mine.py:Steady:5`.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from archer.errors import BadRequest, meant, quoted
from archer.methods.catalogue import (
    ALIASES,
    CANVASES,
    COMMON,
    HABITS,
    IMPLIED,
    LENGTHS,
    METHODS,
    Part,
)
from archer.methods.settings import DECODERS, POLICIES

SPELLED = re.compile(r"(?P<name>(?P<file>[^:]*\.py):(?P<member>[A-Za-z_]\w*))(:(?P<value>.*))?")
OWN_FILE = ".py:"
"""In a name that has a part from a file."""
MOST_CHARACTERS = 200
"""Of a method's name, values included."""
MOST_OWNERS = 3
"""Named in a refusal."""


class Spelling(NamedTuple):
    """A part of a method's name: what stands before the value, and the value; None where there is none."""

    name: str
    value: str | None


def cut(part: str) -> Spelling:
    """`archer:8` -> archer and 8; `./mine.py:Steady:5` -> ./mine.py:Steady and 5."""
    own = SPELLED.fullmatch(part)
    if own is not None:
        return Spelling(own["name"], own["value"])
    name, colon, value = part.partition(":")
    return Spelling(name, value if colon else None)


def implied(name: str) -> Mapping[str, Any]:
    """What a method's name stands for besides its parts."""
    return IMPLIED.get(name.partition(":")[0], {})


def says_length(settings: Mapping[str, Any]) -> bool:
    """Whether settings hold a length, by any of its names."""
    return any(settings.get(name) is not None for name in LENGTHS)


def over(newer: Mapping[str, Any], older: Mapping[str, Any]) -> dict[str, Any]:
    """Both, where the newer ones take precedence, a length by whatever name."""
    newer = spelled_out(newer)
    names = LENGTHS if says_length(newer) else frozenset()
    return {name: value for name, value in older.items() if name not in names} | newer


def spelled_out(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a length that is no number under its own name: `auto` is a kind of canvas."""
    result = dict(settings)
    for name in LENGTHS:
        if isinstance(result.get(name), str) and result[name] in CANVASES:
            result["canvas"] = result.pop(name)
    return result


def parse_setting(entry: str) -> tuple[str, Any] | None:
    """NAME=VALUE as it is typed: numbers, true, false and null as such, everything else as text."""
    name, equals, text = (part.strip() for part in entry.partition("="))
    if not equals or not name:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return name.replace("-", "_"), value


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON can hold them: an infinite one is spelled "inf", which the methods read back."""
    return {name: "inf" if value == math.inf else value for name, value in settings.items()}


def all_settings() -> set[str]:
    """Of any decoder or cache."""
    parts = (*DECODERS.values(), *POLICIES.values())
    return set().union(*(part.settings for part in parts))


def settings_taken(name: str) -> frozenset[str]:
    """The names of all settings that a method takes, without what they mean."""
    decoder, policy, _ = spelled(name)
    parts = (COMMON, DECODERS[decoder], POLICIES[policy])
    return frozenset().union(*(part.settings for part in parts))


def habit(name: str) -> str:
    """What a name of another library is here, as a sentence; nothing where it is no such name."""
    return f" Here that is {HABITS[name]}." if name in HABITS else ""


def owners(setting: str) -> str:
    """Which decoders and caches a setting belongs to, as a sentence; nothing where there are none."""
    owners = [
        repr(name)
        for table in (DECODERS, POLICIES)
        for name, part in table.items()
        if setting in part.settings
    ]
    if not owners:
        return ""
    more = " and others" if len(owners) > MOST_OWNERS else ""
    return f" That belongs to {', '.join(owners[:MOST_OWNERS])}{more}."


def in_full(name: str) -> str:
    """A method's name as decoder+cache, without values: `archer:11` -> `saber+archer`."""
    decoder, policy, _ = spelled(name)
    return f"{decoder}+{policy}"


def spelled(name: str) -> tuple[str, str, dict[str, Any]]:
    """Decoder name, policy name, and settings given as `part:value`."""
    if len(name) > MOST_CHARACTERS:
        raise BadRequest(
            f"A method's name has at most {MOST_CHARACTERS} characters, and {quoted(name)} has {len(name)}."
        )
    named, colon, value = name.partition(":")
    by_name = named in METHODS and "+" not in name
    parts = METHODS[named][0].split("+") if by_name else name.split("+")
    if by_name and colon:
        parts[0 if POLICIES[parts[1]].main is None else 1] += colon + value
    if len(parts) == 1:
        parts.append("eager")
    if len(parts) > 2:
        raise BadRequest(f"{name!r} has more than a decoder and a cache: write decoder+cache.")
    given: dict[str, Any] = {}
    names = []
    for part, table, what in zip(
        parts, (DECODERS, POLICIES), ("decoder", "cache policy"), strict=True
    ):
        bare, setting = cut_from(part, name, table, what)
        names.append(bare)
        given |= setting
    return names[0], names[1], given


def cut_from(
    part: str, name: str, table: Mapping[str, Part], what: str
) -> tuple[str, dict[str, Any]]:
    """A part of a method's name without its value, and the setting that the value is of."""
    bare, value = cut(part)
    if bare not in table:
        raise BadRequest(_unknown(name, bare, table, what))
    if value is None:
        return bare, {}
    main = table[bare].main
    if main is None or not value:
        raise BadRequest(f"{part!r} means nothing: {bare!r} takes {_main(table[bare])}.")
    return bare, {main: value}


def _main(part: Part) -> str:
    return "no value" if part.main is None else f"its {part.main} after the colon"


def _unknown(name: str, part: str, table: Mapping[str, Part], what: str) -> str:
    hint = meant(part, table if "+" in name else (*METHODS, *table))
    return (
        f"There is no method {name!r}: {part!r} is not a {what}.{hint} "
        f"Methods: {', '.join(METHODS)}; or decoder+policy with decoders {', '.join(DECODERS)} "
        f"and policies {', '.join(POLICIES)}. {how_to_bring(part, what)}"
    )


def canonical(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Translate aliases and drop what was left unset."""
    chosen: dict[str, Any] = {}
    for key, value in settings.items():
        target = ALIASES.get(key, key)
        if value is None:
            continue
        if target in chosen:
            alias = next(
                name for name in settings if name != target and ALIASES.get(name) == target
            )
            raise BadRequest(f"{alias!r} and {target!r} are the same setting; give one of them.")
        chosen[target] = value
    return chosen


def how_to_bring(part: str, what: str) -> str:
    """What to do about a name that is in no table, as a sentence."""
    if part.endswith(".py"):
        return f"Name the {what} in that file: {part}:CLASS."
    if SPELLED.fullmatch(part) is not None:
        return (
            f"{part!r} is code in a file, which runs only where you name it yourself as the method of a "
            "command; a server needs allow_own_code=True as well. In Python give an object of the class, or "
            "call archer.bring with this name first."
        )
    return (
        f"A {what} of your own goes by its file, ./FILE.py:CLASS, as the method of a command, by an entry "
        "point of an installed package, or in Python as an object (docs/add-a-decoder.md)."
    )
