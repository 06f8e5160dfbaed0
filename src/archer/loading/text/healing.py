"""Token healing: a gap may begin and end inside a token.

Texts around a gap are tokenised on their own. Where the cut is inside a word, the last token before the gap
and the first one after it are seldom those of the finished text: `ret` and `urn` for `return`. So they are
given up: their columns join the gap, and the tokens there must begin, or end, with the bytes given up. These
tokens include the one that was given up, so every answer can still be written.

What the decoding side has to keep:

- A set belongs to a column and to nothing else. It is applied to the logits before the decoder sees them:
  every other token gets minus infinity, after guidance and before temperature, noise and confidence.
- So rollback needs nothing. A token at a seam that is taken back becomes a mask, and the same set holds when
  it is written again; two seams may be written in one update. This is why a cut has one restricted column:
  sets that depend on a neighbour would not survive tokens that are written at the same time.
- A token that is replaced, or shadowed by a scratch column, is drawn from the same restricted logits.
- Where a gap changes its length, ask for the sets of the new length and mask the column that was the last.
- The text handed out is the texts as they were given with the answers between them, never decoded ids.

How much is given up: one token for byte-pair tokenizers. A whole cut word in more than one token would
bring more references within reach of one token, but loses every answer that no single token continues. A
tokenizer with a closed vocabulary (WordPiece) spells a cut word in single letters that its model has hardly
seen; there the whole word is given up if any token begins, or ends, with it.

There is no healing where a tokenizer does more than join its tokens, nor at a text that its tokens do not
spell (by a normal form, or an unknown character), nor of a marker. The only token of the first text stays,
since a canvas begins with something given. The gap's columns are free there.
"""

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from tokenizers.models import WordPiece
from torch import Tensor

from archer.errors import BadRequest
from archer.loading.text.text import Text
from archer.loading.text.token_bytes import TokenBytes


@dataclass(frozen=True)
class Gap:
    """One gap: the given bytes that its first column begins with and its last one ends with."""

    text: Text
    before: bytes = b""
    after: bytes = b""

    @cached_property
    def shortest(self) -> int:
        """Columns that the gap needs; two where both ends are healed and no token has both."""
        return 1 if not (self.before and self.after) or len(self._single) else 2

    @property
    def _pieces(self) -> TokenBytes | None:
        return self.text.pieces

    @cached_property
    def _single(self) -> Tensor:
        """(n,) ids that may fill a gap of one column."""
        assert self._pieces is not None
        return self._pieces.around(self.before, self.after)

    def allowed(self, length: int) -> dict[int, Tensor]:
        """Column of the gap -> (n,) ids that may stand there, in order; other columns are free."""
        if length < self.shortest:
            raise BadRequest(
                f"The gap has {length} columns, but the tokens cut at its ends need {self.shortest}; "
                "give it more."
            )
        if self._pieces is None or not (self.before or self.after):
            return {}
        if length == 1:
            return {0: self._single}
        sets = {}
        if self.before:
            sets[0] = self._pieces.beginning_with(self.before)
        if self.after:
            sets[length - 1] = self._pieces.ending_with(self.after)
        return sets

    def tokens_of(self, answer: str) -> int:
        """Columns that an answer takes with the given bytes around it: the oracle's length."""
        spelled = (self.before + answer.encode() + self.after).decode("utf-8", "replace")
        return max(self.shortest, len(self.text.encode_raw(spelled)) if spelled else 0)

    def answer(self, ids: Iterable[int]) -> str:
        """The text of all columns of the gap without the given bytes."""
        if self._pieces is None:
            return self.text.decode(ids)
        written = self._begun(ids)
        if not written.endswith(self.after):
            raise BadRequest(
                f"The gap does not end with the given {self.after!r}; its last column was written "
                "without the tokens that it is restricted to."
            )
        return written[: len(written) - len(self.after)].decode("utf-8", "replace")

    def certain(self, ids: Iterable[int]) -> str:
        """The beginning of the answer that stays, from the leading columns; not from the last one."""
        if self._pieces is None:
            return self.text.decode_certain(ids)
        leading = list(ids)
        return _decoded(self._begun(leading)) if leading else ""

    def _begun(self, ids: Iterable[int]) -> bytes:
        assert self._pieces is not None
        written = self._pieces.join(ids)
        if not written.startswith(self.before):
            raise BadRequest(
                f"The gap does not begin with the given {self.before!r}; its first column was written "
                "without the tokens that it is restricted to."
            )
        return written[len(self.before) :]


@dataclass(frozen=True)
class Healed:
    """Given ids and the gaps between them: `given` has one more than `gaps`."""

    given: tuple[tuple[int, ...], ...]
    gaps: tuple[Gap, ...]


def heal(
    text: Text,
    parts: Sequence[str | Sequence[int]],
    *,
    healing: bool = True,
    allow_special: bool = False,
) -> Healed:
    """The canvas of given texts with a gap between each two; an empty text gives nothing.

    The first part may be ids, such as a rendered chat. Without `healing` no token is given up.
    """
    if len(parts) < 2:
        raise BadRequest("There is no gap; give at least two texts, which may be empty.")
    written = [part for part in parts if isinstance(part, str) and part]
    encoded = iter(text.encode_raws(written, allow_special=allow_special))
    spelled = [next(encoded) if isinstance(part, str) and part else [] for part in parts]
    if not isinstance(parts[0], str):
        spelled[0] = list(parts[0])
    last = len(parts) - 1
    given, starts, ends = [], [b""] * last, [b""] * last
    for place, (part, ids) in enumerate(zip(parts, spelled, strict=True)):
        seams = Seams(text, part, ids) if healing and text.pieces is not None else None
        front = seams.front() if seams and place > 0 else 0
        rear = seams.rear(front if place else 1) if seams and place < last else 0
        if seams and front:
            ends[place - 1] = seams.pieces.join(ids[:front])
        if seams and rear:
            starts[place] = seams.pieces.join(ids[len(ids) - rear :])
        given.append(tuple(ids[front : len(ids) - rear]))
    return Healed(tuple(given), tuple(map(Gap, [text] * last, starts, ends)))


class Seams:
    """How many tokens of one given text are given up at its ends."""

    def __init__(self, text: Text, part: str | Sequence[int], ids: Sequence[int]) -> None:
        assert text.pieces is not None
        self.pieces = text.pieces
        self._text = text
        spells = not isinstance(part, str) or self.pieces.join(ids) == part.encode()
        self._ids = ids if spells else []

    def front(self) -> int:
        """From the front, for the gap before the text."""
        run = list(takewhile(self.pieces.ordinary.__contains__, self._ids))
        word = self._word(run, at=0)
        count = _tokens_of(word, map(self.pieces.spelled.__getitem__, run))
        if count > 1 and len(self.pieces.ending_with(word)):
            return count
        return int(bool(run) and len(self.pieces.ending_with(self.pieces.spelled[run[0]])) > 1)

    def rear(self, kept: int) -> int:
        """From the rear, for the gap behind it; the first `kept` tokens are out of reach."""
        reach = reversed(self._ids[kept:])
        run = list(takewhile(self.pieces.ordinary.__contains__, reach))[::-1]
        word = self._word(run, at=-1)
        backwards = (self.pieces.spelled[id] for id in reversed(run))
        count = _tokens_of(word, backwards)
        if count > 1 and len(self.pieces.beginning_with(word)):
            return count
        return int(bool(run) and len(self.pieces.beginning_with(self.pieces.spelled[run[-1]])) > 1)

    def _word(self, run: Sequence[int], at: int) -> bytes:
        """The first or last word of the text, where words are given up whole; else nothing."""
        tokenizer = self._text.tokenizer
        if not run or tokenizer.pre_tokenizer is None or not isinstance(tokenizer.model, WordPiece):
            return b""
        return self._text.words(self.pieces.join(run).decode("utf-8", "replace"))[at].encode()


def _tokens_of(word: bytes, pieces: Iterable[bytes]) -> int:
    """How many of the pieces, from one end on, have the length of the word; 0 where none do."""
    length = 0
    for count, piece in enumerate(pieces, start=1):
        length += len(piece)
        if length >= len(word):
            return count if length == len(word) else 0
    return 0


def _decoded(written: bytes) -> str:
    """Without a character at the end that is not whole yet."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(written)
