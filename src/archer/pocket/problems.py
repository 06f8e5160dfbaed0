"""A problem of the bundled models, as the model and the judge see it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Problem:
    """A task as the model and the judge see it."""

    name: str
    family: str
    structure: str
    statement: str
    header: str
    body: str
    """The reference, from its first line break on."""
    visible: tuple[str, ...]
    """Asserts shown in the prompt: the base suite."""
    hidden: tuple[str, ...]
    """Asserts never shown; with the visible ones they are the extended suite."""

    def program(self, body: str) -> str:
        """A whole program from a body that continues the header."""
        return f"{self.header}{body.rstrip()}\n"

    def record(self) -> dict[str, Any]:
        """What one line of a frozen set holds."""
        return asdict(self)

    @classmethod
    def of(cls, record: dict[str, Any]) -> Problem:
        """The problem that a record describes."""
        visible, hidden = tuple(record["visible"]), tuple(record["hidden"])
        return cls(**{**record, "visible": visible, "hidden": hidden})
