"""Where the references of a schema lead: to its own parts, by their paths, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from archer.errors import BadRequest, quoted


def check_references(root: object) -> None:
    """Refuse references that another schema's name leads elsewhere: a part with an $id is one of its own."""
    waiting: list[tuple[object, object]] = [(root, None)]
    while waiting:
        here, owner = waiting.pop()
        parts: Iterable[object] = here if isinstance(here, list) else ()
        if isinstance(here, Mapping):
            parts, name, reference = here.values(), here.get("$id"), here.get("$ref")
            if here is not root and isinstance(name, str) and not name.startswith("#"):
                owner = name
            if owner is not None and isinstance(reference, str) and reference.startswith("#"):
                raise BadRequest(
                    f"The reference {quoted(reference)} stands in a part whose $id is {quoted(owner)}, so it "
                    "leads into that part, which is not supported. Leave out the $id."
                )
        waiting.extend((part, owner) for part in parts)


def target(root: Any, name: object) -> Any:
    """The part of a schema that a $ref names."""
    if not isinstance(name, str) or not name.startswith("#"):
        raise BadRequest(f"The reference {quoted(name)} leads outside of the schema.")
    first, *steps = name[1:].split("/")
    if first:
        raise BadRequest(
            f"The reference {quoted(name)} leads to an anchor, which is not supported. Write the path, "
            "such as #/$defs/name."
        )
    here = root
    for step in steps:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and key.isdecimal() and int(key) < len(here):
            here = here[int(key)]
        elif isinstance(here, Mapping) and key in here:
            here = here[key]
        else:
            raise BadRequest(f"The reference {quoted(name)} leads to nothing.")
    return here
