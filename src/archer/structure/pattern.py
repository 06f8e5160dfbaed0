"""The regular expressions of JSON schemas, as expressions over JSON texts.

A schema's `pattern` speaks of the characters of a string and may match anywhere in it.  What is written is
JSON, in which some characters are escaped.  The result is in the syntax of Rust's `regex`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from archer.errors import BadRequest, quoted

Ranges = list[tuple[int, int]]
"""Code points, both ends included."""
CHARACTER = r'(?:[^"\\\x00-\x1f]|\\["\\bfnrt]|\\u00(?:0[0-7bef]|1[0-9a-f]))'
"""Any character of a JSON string."""
ESCAPES = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 34: '"', 92: "\\"}
LAST = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)
DIGIT: Ranges = [(48, 57)]
WORD: Ranges = [(48, 57), (65, 90), (95, 95), (97, 122)]
SPACE: Ranges = [
    *((9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
    *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
]
BREAKS: Ranges = [(10, 10), (13, 13), (0x2028, 0x2029)]
CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
MOST_NESTED = 50
"""Groups inside groups."""
MOST_REPEATED = 1000
COUNTS = re.compile(r"\{([0-9]{1,9})(,?)([0-9]{0,9})\}")


def characters(ranges: Ranges) -> str:
    """An expression for one character of a set, as JSON writes it."""
    plain: list[str] = []
    escaped: list[str] = []
    for low, high in _tidy(ranges):
        for code in range(low, min(high, 31) + 1):
            escaped.append(_escape(code))
        escaped.extend(_escape(code) for code in (34, 92) if low <= code <= high)
        for first, last in _without([(max(low, 32), high)], [(34, 34), (92, 92), SURROGATES]):
            plain.append(_point(first) if first == last else f"{_point(first)}-{_point(last)}")
    choices = ([f"[{''.join(plain)}]"] if plain else []) + escaped
    if not choices:
        return r"[^\s\S]"
    return choices[0] if not escaped else f"(?:{'|'.join(choices)})"


def inside(pattern: str) -> str:
    """An expression for the JSON strings, without their quotes, that hold a match of a schema's pattern."""
    return _Reader(pattern).whole()


def _escape(code: int) -> str:
    return re.escape("\\" + ESCAPES[code]) if code in ESCAPES else rf"\\u{code:04x}"


def _point(code: int) -> str:
    return f"\\x{{{code:x}}}"


def _tidy(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """In order, without overlaps."""
    merged: Ranges = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return merged


def _without(ranges: Ranges, others: Iterable[tuple[int, int]]) -> Ranges:
    for start, stop in others:
        parts = [((low, min(high, start - 1)), (max(low, stop + 1), high)) for low, high in ranges]
        ranges = [part for pair in parts for part in pair if part[0] <= part[1]]
    return ranges


def _others(ranges: Ranges) -> Ranges:
    return _without([(0, LAST)], _tidy(ranges))


class _Reader:
    """Reads a pattern from left to right and writes it anew."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._at = pattern, 0

    def whole(self) -> str:
        choices = list(self._choices(0))
        if self._at < len(self._pattern):
            raise self._refused("a parenthesis is closed that was not opened")
        written = []
        for anchored, text, ended in choices:
            before = "" if anchored else f"{CHARACTER}*"
            behind = "" if ended else f"{CHARACTER}*"
            written.append(before + text + behind)
        return f"(?:{'|'.join(written)})"

    def _refused(self, why: str) -> BadRequest:
        return BadRequest(f"The pattern {quoted(self._pattern)} cannot be kept: {why}.")

    def _peek(self, text: str) -> bool:
        return self._pattern.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        taken = self._peek(text)
        self._at += len(text) * taken
        return taken

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            raise self._refused("it ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _choices(self, depth: int) -> Iterator[tuple[bool, str, bool]]:
        """Alternatives up to a closing parenthesis, and whether each is tied to the start and to the end."""
        if depth > MOST_NESTED:
            raise self._refused(f"its groups are nested more than {MOST_NESTED} deep")
        while True:
            yield self._sequence(depth)
            if not self._take("|"):
                return

    def _sequence(self, depth: int) -> tuple[bool, str, bool]:
        anchored, ended = False, False
        parts: list[str] = []
        while self._at < len(self._pattern) and not self._peek("|") and not self._peek(")"):
            if self._take("^"):
                if parts or depth:
                    raise self._refused("^ stands elsewhere than at the start")
                anchored = True
            elif self._take("$"):
                ended = True
                if depth or not (self._at == len(self._pattern) or self._peek("|")):
                    raise self._refused("$ stands elsewhere than at the end")
            else:
                parts.append(self._atom(depth) + self._count())
        return anchored, "".join(parts), ended

    def _atom(self, depth: int) -> str:
        letter = self._next()
        if letter == "(":
            return self._group(depth)
        if letter == "[":
            return characters(self._set())
        if letter == ".":
            return characters(_others(BREAKS))
        if letter in "*+?" or COUNTS.match(self._pattern, self._at - 1):
            raise self._refused(f"nothing stands before {letter}")
        ranges = self._escaped() if letter == "\\" else [(ord(letter), ord(letter))]
        return characters(ranges)

    def _group(self, depth: int) -> str:
        if self._take("?"):
            if self._take("<") and not (self._peek("=") or self._peek("!")):
                while self._next() != ">":
                    pass
            elif not self._take(":"):
                raise self._refused("it looks ahead or back, or changes its own flags")
        choices = "|".join(text for _, text, _ in self._choices(depth + 1))
        if not self._take(")"):
            raise self._refused("a parenthesis is not closed")
        return f"(?:{choices})"

    def _count(self) -> str:
        for sign in "*+?":
            if self._take(sign):
                self._take("?")
                return sign
        count = COUNTS.match(self._pattern, self._at)
        if count is None:
            return ""
        self._at = count.end()
        self._take("?")
        least, comma, most = count.groups()
        if max(int(least), int(most or 0)) > MOST_REPEATED:
            raise self._refused(f"it repeats something more than {MOST_REPEATED} times")
        if most and int(most) < int(least):
            raise self._refused("a count ends before it begins")
        return f"{{{least}{comma}{most}}}"

    def _escaped(self) -> Ranges:
        letter = self._next()
        known = {"d": DIGIT, "w": WORD, "s": SPACE}
        if letter.lower() in known:
            ranges = known[letter.lower()]
            return ranges if letter.islower() else _others(ranges)
        if letter in CONTROLS:
            return [(CONTROLS[letter], CONTROLS[letter])]
        if letter in "xu":
            code = self._hexadecimal({"x": 2, "u": 4}[letter])
            return [(code, code)]
        if letter.isalnum():
            raise self._refused(f"\\{letter} has no meaning here")
        return [(ord(letter), ord(letter))]

    def _hexadecimal(self, digits: int) -> int:
        spelled = self._pattern[self._at : self._at + digits]
        if not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", spelled):
            raise self._refused("a character is named by no number")
        self._at += digits
        return int(spelled, 16)

    def _set(self) -> Ranges:
        """What stands between brackets."""
        negated, ranges = self._take("^"), []
        while not self._take("]"):
            low = self._member()
            if (
                len(low) == 1
                and low[0][0] == low[0][1]
                and self._peek("-")
                and not self._peek("-]")
            ):
                self._at += 1
                high = self._member()
                if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
                    raise self._refused("a range of characters ends before it begins")
                low = [(low[0][0], high[0][0])]
            ranges.extend(low)
        return _others(ranges) if negated else ranges

    def _member(self) -> Ranges:
        letter = self._next()
        if letter != "\\":
            return [(ord(letter), ord(letter))]
        if self._take("b"):
            return [(8, 8)]
        return self._escaped()
