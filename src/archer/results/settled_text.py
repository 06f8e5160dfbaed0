"""The text of one response as it settles: what is said once is never taken back.

Axes: G response columns.  Fed after each update with the response and the decoder's `settled` flags; it knows
neither the loop that makes them nor who listens.  Stop strings are sought in settled text only, so the order
in which positions are filled does not matter.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from archer.passes.canvas import Flags, Ints
from archer.results.language import Language

if TYPE_CHECKING:
    from archer.request.request import Form


class SettledText:
    """All that is certain of the visible text, piece by piece; together they are the final text."""

    def __init__(self, language: Language, stop: Sequence[str] = (), opening: str = "") -> None:
        """`stop` holds no empty text; the language has a tokenizer; `opening` stands before the response."""
        assert language.text is not None
        self.text = ""
        """All that was returned so far."""
        self.stopped = False
        """An end id or a stop string is settled: the text is final, whatever is still masked."""
        self.tokens = 0
        """Settled tokens of the visible text, with the end id or with what completes the stop string."""
        self._language, self._codec = language, language.text
        self._stop = tuple(stop)
        self._opening = opening
        self._settled = 0

    def feed(self, response: Ints, settled: Flags) -> str:
        """What has become certain: `response` and `settled` [G] after an update; masks are not settled."""
        count = len(settled) if settled.all() else int(settled.argmin())
        if self.stopped or count == self._settled:
            return ""
        self._settled = count
        ids: list[int] = response[:count].tolist()
        end = self._language.ends_at(ids)
        last = end is not None or count == len(settled)
        text = self._codec.decode(ids[:end]) if last else self._codec.decode_certain(ids)
        text = self._opening + text
        stop = first_stop(text, self._stop)
        certain = len(text) if last else _may_begin_stop(text, self._stop)
        self.tokens, self.stopped = count if end is None else end + 1, end is not None
        if stop is not None and stop <= certain:
            certain, self.stopped = stop, True
            self.tokens = self._language.fewest(
                ids[:end], lambda part: first_stop(self._opening + part, self._stop) is not None
            )
        new = text[len(self.text) : certain]
        self.text += new
        return new


class SettledGaps:
    """The same for a prompt with gaps: gap after gap, and between them what is given.

    End marks leave no trace in a gap, so its text is final when all of it is settled; a gap that nothing
    follows ends at its first end mark.  A stop string ends the gap in which it stands.
    """

    def __init__(self, language: Language, form: Form, stop: Sequence[str] = ()) -> None:
        self.text = ""
        """All that was returned so far."""
        self._language, self._form, self._stop = language, form, tuple(stop)
        self.texts = [""] * len(form.lengths)
        """What is certain of each gap."""
        self.counts = [0] * len(form.lengths)
        """Settled tokens of each, up to what completes a stop string."""
        self.cut = False
        """A gap ended before its last token: by a stop string, or by an end mark with nothing behind it."""
        self._over = [False] * len(form.lengths)

    @property
    def stopped(self) -> bool:
        """The text of every gap is final."""
        return all(self._over)

    def feed(self, response: Ints, settled: Flags) -> str:
        """What has become certain: `response` and `settled` [G] after an update; masks are not settled."""
        for at, span in enumerate(self._form.spans):
            if not self._over[at]:
                self._follow(at, response[span], settled[span])
        certain = ""
        for at, text in enumerate(self.texts):
            certain += text
            if not self._over[at] or at == len(self.texts) - 1:
                break
            certain += self._form.parts[at + 1]
        new = certain[len(self.text) :]
        self.text = certain
        return new

    def _follow(self, at: int, response: Ints, settled: Flags) -> None:
        """Read what is settled at the beginning of one gap."""
        count = len(settled) if settled.all() else int(settled.argmin())
        gap, ids, last = self._form.gaps[at], response[:count].tolist(), count == len(settled)
        if self._form.ends_open and at == len(self.texts) - 1:
            end = self._language.ends_at(ids)
            if end is not None:
                ids, last, count, self.cut = ids[:end], True, end + 1, True
        text = gap.answer(ids) if last else gap.certain(ids)
        stop = first_stop(text, self._stop)
        certain = len(text) if last else _may_begin_stop(text, self._stop)
        self.counts[at], self._over[at] = count, last
        if stop is not None and stop <= certain:
            certain, self._over[at], self.cut = stop, True, True
            self.counts[at] = bisect_left(
                range(len(ids)),
                True,
                key=lambda few: first_stop(gap.certain(ids[:few]), self._stop) is not None,
            )
        self.texts[at] = text[:certain]


def first_stop(text: str, stop: Sequence[str]) -> int | None:
    """Where the first stop string begins."""
    return min((at for each in stop if (at := text.find(each)) >= 0), default=None)


def _may_begin_stop(text: str, stop: Sequence[str]) -> int:
    """Where the longest end of `text` begins that a stop string may begin with; at its end if none does."""
    longest = max(map(len, stop), default=0) - 1
    for at in range(max(0, len(text) - longest), len(text)):
        if any(each.startswith(text[at:]) for each in stop):
            return at
    return len(text)
