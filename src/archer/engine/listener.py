"""What others may learn while an engine works; called by whoever makes the turns, so never to block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archer.errors import ArcherError
from archer.results.completion import Completion
from archer.results.step import Kind, Step


class Listener:
    """What happens to one request; override what you want to hear.

    Exactly one of `finished` and `failed` ends every request.
    """

    hears_text = False
    """Whether `settled` is to be called; following the text has a price."""

    def admitted(self) -> None:
        """It has memory and takes part in turns from now on."""

    def stepped(self, step: Step[Any]) -> None:
        """One update; its rows are numbers of the request's samples."""

    def settled(self, row: int, text: str) -> None:
        """More of a sample's text is certain; the pieces add up to the final text."""

    def finished(self, completions: Sequence[Completion]) -> None:
        """All samples have ended; one that failed by itself says so in its completion."""

    def failed(self, error: ArcherError) -> None:
        """The request ended without completions."""


@dataclass(frozen=True)
class PassRecord:
    """One pass over the network."""

    seconds: float
    columns: int
    rows: int
    """Requests' rows that took part."""
    kinds: Mapping[Kind, int]
    """How these rows got their logits."""


class Observer:
    """What the engine does, for metrics; override what you want to count."""

    def passed(self, record: PassRecord) -> None:
        """A turn with its passes has been made."""

    def skipped(self, rows: int) -> None:
        """So many running rows did not take part in a turn."""
