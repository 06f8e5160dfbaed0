"""Texts with gaps: what a user gives around them, and how long each may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from archer.errors import BadRequest, quoted
from archer.passes.bounds import MOST_TOKENS

Given = str | Sequence[int]
Length = int | str
AUTO, SEARCH, DELETE = "auto", "search", "delete"
"""What may stand for the length of a gap."""
BY_ITSELF = SEARCH
"""What "auto" means."""
MOST = 64
"""Tokens of a gap whose length is not said, at the most."""
GAP = "{}"
"""What stands for a gap in a text."""
MOST_GAPS = 1000
"""Of one prompt."""


@dataclass(frozen=True)
class Fill:
    """A prompt with gaps; goes wherever a prompt goes: `model.stream(Fill.marked("1, {}, 3"))`."""

    parts: Sequence[Given]
    """What is given, as texts or ids, with a gap between each two; the first and the last may be empty."""
    length: Length | Sequence[Length] | None = None
    """Tokens of each gap: one number for all, or one for each; the request's length when left out.

    "search" finds a length up to the most by a few passes on masks.  "delete" gives the gap as many tokens
    as it may have, and end marks among them leave no trace.  "auto" is the same as "search".
    """
    prompt: Any = None
    """A text, messages or ids before it, where it is an answer; nothing where it is a text by itself."""

    @classmethod
    def marked(cls, text: object, gap: object = GAP, **more: Any) -> Fill:
        """A text in which `gap` stands for every gap."""
        if not isinstance(text, str):
            raise BadRequest(f"A text with gaps must be text, not {type(text).__name__}.")
        if not isinstance(gap, str) or not gap:
            raise BadRequest(f"A gap is marked by some text, such as {GAP!r}, not {quoted(gap)}.")
        if text.count(gap) > MOST_GAPS:
            raise BadRequest(_too_many(text.count(gap)))
        if gap not in text:
            raise BadRequest(
                f"There is no gap in the text: it does not hold {quoted(gap)}, which stands for one. "
                "Mark the place, or say with gap=... how gaps are marked."
            )
        return cls(tuple(text.split(gap)), **more)

    @classmethod
    def of_ids(cls, ids: Sequence[int | None], **more: Any) -> Fill:
        """Token ids with None for each token that is to be written."""
        parts: list[list[int]] = [[]]
        lengths = []
        for open_, run in groupby(ids, lambda token: token is None):
            if open_:
                lengths.append(len(list(run)))
                parts.append([])
            else:
                parts[-1] = [token for token in run if token is not None]
        return cls(parts, **({"length": lengths} | more))

    @property
    def one_open_gap(self) -> bool:
        """One gap and nothing behind it: a response like any other, which has begun."""
        return len(self.parts) == 2 and not self.parts[1]

    def with_prompt(self, prompt: Any) -> Fill:
        return replace(self, prompt=prompt)

    def sizes(self, usual: object, most: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Tokens of each gap, and which gaps are searched for up to that; refuses what is no fill."""
        gaps = len(self.parts) - 1
        if gaps < 1:
            raise BadRequest("There is no gap: give at least two texts, which may be empty.")
        if gaps > MOST_GAPS:
            raise BadRequest(_too_many(gaps))
        if not all(len(part) for part in self.parts[1:-1]):
            raise BadRequest("Two gaps have no text between them. Make them one gap.")
        if self.prompt is None and not any(len(part) for part in self.parts):
            raise BadRequest(
                "Nothing is given around the gap. Write what stands before or behind it."
            )
        lengths = usual if self.length is None else self.length
        each = list(lengths) if isinstance(lengths, list | tuple) else [lengths] * gaps
        if len(each) != gaps:
            raise BadRequest(
                f"There are {len(each)} lengths for {gaps} gaps. Give one for each gap, or one for all."
            )
        each = [BY_ITSELF if length == AUTO else length for length in each]
        searched = tuple(at for at, length in enumerate(each) if length == SEARCH)
        return tuple(_tokens(most if name in (SEARCH, DELETE) else name) for name in each), searched


def _tokens(length: object) -> int:
    """The length of a gap, if it is one."""
    if isinstance(length, int) and not isinstance(length, bool) and 1 <= length <= MOST_TOKENS:
        return length
    raise BadRequest(
        f"The length of a gap is a whole number from 1 to {MOST_TOKENS}, {AUTO!r}, {SEARCH!r} or "
        f"{DELETE!r}, not {quoted(length)}."
    )


def _too_many(gaps: int) -> str:
    return f"{gaps} gaps are too many for one text: at most {MOST_GAPS}. Fill it in pieces."
