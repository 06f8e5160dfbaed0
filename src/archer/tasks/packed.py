"""Reads LiveCodeBench's packed tests without unpickling: base64, zlib, one pickled text, JSON.

The data set packs its hidden tests by pickle, which can run code. All it ever pickles is one string,
so this accepts the few forms in which pickle writes one string, and refuses everything else.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any

from archer.tasks.sources import BadData

LARGEST = 1 << 30
"""Bytes of unpacked tests; guards against a small field that unpacks to anything."""
PROTOCOL, FRAME, STOP, MEMOIZE = b"\x80", b"\x95", b".", b"\x94"
KNOWN_PROTOCOLS = range(2, 6)
TEXT_LENGTHS = {b"\x8c": 1, b"X": 4, b"\x8d": 8}
"""Opcode of a text -> bytes of its length."""
STORE_LENGTHS = {b"q": 1, b"r": 4}
"""Opcode that numbers the text -> bytes of the number."""


def read_tests(field: str) -> list[dict[str, str]]:
    """The tests of a field, packed or plain JSON; each has `input`, `output`, `testtype`."""
    text = field if field.lstrip().startswith("[") else _unpacked(field)
    try:
        tests = json.loads(text)
    except ValueError as error:
        raise BadData(f"The tests of a problem are not JSON ({error}).") from None
    if not isinstance(tests, list) or not all(map(_is_test, tests)):
        raise BadData("The tests of a problem are not a list of inputs and outputs.")
    return tests


def _is_test(test: Any) -> bool:
    fields = ("input", "output", "testtype")
    return isinstance(test, dict) and all(isinstance(test.get(name), str) for name in fields)


def _unpacked(field: str) -> str:
    try:
        packed = base64.b64decode(field, validate=True)
        inflater = zlib.decompressobj()
        content = inflater.decompress(packed, LARGEST)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise BadData(f"The packed tests of a problem are damaged ({error}).") from None
    if inflater.unconsumed_tail or not inflater.eof or inflater.unused_data:
        raise BadData("The packed tests of a problem are cut off, too long, or followed by more.")
    return pickled_text(content)


def pickled_text(content: bytes) -> str:
    """The text that a pickle of exactly one text holds."""
    reader = _Reader(content)
    if reader.take(1) != PROTOCOL or reader.take(1)[0] not in KNOWN_PROTOCOLS:
        raise _refusal()
    reader.skip_frame()
    length = TEXT_LENGTHS.get(reader.take(1))
    if length is None:
        raise _refusal()
    text = reader.take(int.from_bytes(reader.take(length), "little"))
    reader.skip_frame()
    operation = reader.take(1)
    if operation in STORE_LENGTHS:
        reader.take(STORE_LENGTHS[operation])
    elif operation != MEMOIZE:
        raise _refusal()
    if reader.take(1) != STOP or not reader.at_end:
        raise _refusal()
    try:
        return text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise _refusal() from None


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._content)

    def take(self, count: int) -> bytes:
        taken = self._content[self._at : self._at + count]
        if len(taken) != count:
            raise _refusal()
        self._at += count
        return taken

    def skip_frame(self) -> None:
        """Frames only help readers to buffer."""
        if self._content[self._at : self._at + 1] == FRAME:
            self.take(9)


def _refusal() -> BadData:
    return BadData(
        "The packed tests of a problem hold something else than one text; they are not unpickled."
    )
