"""Tokens as terminal cells, which can steer no terminal: how a token looks, and how tokens fill lines."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from archer.errors import printable

MASKED_SIGN = "·"
TAKEN_SIGN = "\N{MULTIPLICATION SIGN}"
END_SIGN = "∎"
BREAK_SIGN = "↵"
BRACKETS = (
    "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
    "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
)
"""Around a fresh token where styles cannot be relied on."""
TAB = "    "
QUIET = "dim"


class Mark(Enum):
    """The state of a position; the value is its style, which must not rely on colour alone."""

    MASKED = QUIET
    FRESH = "bold reverse green"
    SETTLED = ""
    TAKEN = "bold red"


@dataclass(frozen=True)
class Look:
    """How ids are shown."""

    piece: Callable[[int], str]
    """The text of one id."""
    ends: frozenset[int] = frozenset()
    """Ids that end a response; a run of them is shown as one sign and their number."""
    cell: int | None = None
    """Width of a column for ids that are shown as numbers; None for running text."""

    def spelled(self, token: int | None, mark: Mark, bracketed: bool, times: int = 1) -> str:
        """A token as text that may hold line breaks; `bracketed` marks fresh ones without style.

        An end stands for the run of `times` ends that it is the first of.
        """
        if mark is Mark.TAKEN:
            text = TAKEN_SIGN
        elif token is None:
            text = MASKED_SIGN
        else:
            ends = END_SIGN if times == 1 else f"{END_SIGN} x {times}"
            text = ends if token in self.ends else printable(self.piece(token))
        left, right = BRACKETS if bracketed and mark is Mark.FRESH else ("", "")
        if self.cell is None:
            return f"{left}{text}{right}"
        return f"{left or ' '}{text:>{self.cell}}{right or ' '}"


@dataclass
class Line:
    """One line of the terminal."""

    text: Text = field(default_factory=lambda: Text(no_wrap=True, end=""))
    width: int = 0
    fresh: bool = False
    """Whether something on it was placed or taken back in the latest update."""

    def add(self, text: str, mark: Mark, style: str) -> None:
        self.text.append(text, style)
        self.width += cell_len(text)
        self.fresh |= mark in (Mark.FRESH, Mark.TAKEN)


def folded(
    tokens: Iterable[tuple[int | None, Mark]], look: Look
) -> Iterator[tuple[int | None, Mark, int]]:
    """The same tokens and how many each stands for: a run of ends is one, fresh if one of them is."""
    for ended, run in groupby(tokens, lambda each: each[0] in look.ends):
        if not ended or look.cell is not None:
            yield from ((token, mark, 1) for token, mark in run)
            continue
        ends = list(run)
        fresh = any(mark is Mark.FRESH for _, mark in ends)
        yield ends[0][0], Mark.FRESH if fresh else Mark.SETTLED, len(ends)


def fill(tokens: Iterable[tuple[str, Mark]], width: int) -> list[Line]:
    """Set spelled tokens in lines of at most `width` cells.

    A token moves to the next line as a whole; only one that is wider than a line is cut.
    Line breaks break lines and leave a sign.
    """
    lines = [Line()]
    for spelled, mark in tokens:
        *closed, last = spelled.replace("\t", TAB).split("\n")
        for part in closed:
            _place(lines, part, mark, mark.value, width)
            _place(lines, BREAK_SIGN, mark, mark.value or QUIET, width)
            lines.append(Line())
        _place(lines, last, mark, mark.value, width)
    return lines


def _place(lines: list[Line], text: str, mark: Mark, style: str, width: int) -> None:
    if lines[-1].width and lines[-1].width + cell_len(text) > width:
        lines.append(Line())
    for chunk in _chunks(text, width):
        if lines[-1].width + cell_len(chunk) > width and lines[-1].width:
            lines.append(Line())
        lines[-1].add(chunk, mark, style)


def _chunks(text: str, width: int) -> list[str]:
    """Cut a text that is wider than a line."""
    chunks = [""]
    for character in text:
        if chunks[-1] and cell_len(chunks[-1] + character) > width:
            chunks.append("")
        chunks[-1] += character
    return chunks
