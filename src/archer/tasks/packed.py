"""Reads LiveCodeBench's packed tests without unpickling: base64, zlib, one pickled text, JSON.

The data set packs its hidden tests by pickle, which can run code. All it ever pickles is one string,
so this accepts the few forms in which pickle writes one string, and refuses everything else.
"""

from __future__ import annotations

import base64
import binascii
import json
import pickletools
import zlib
from itertools import islice
from typing import Any

from archer.tasks.sources import BadData

LARGEST = 1 << 30
"""Bytes of unpacked tests; guards against a small field that unpacks to anything."""
PROTOCOLS = range(2, 6)
TEXTS = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
STORES = ("MEMOIZE", "BINPUT", "LONG_BINPUT")
"""Numbering the text, in case it came again."""
MOST_OPERATIONS = 6
"""Protocol, text, store and stop, and frames around the text, which only help readers to buffer."""


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
    """The text that a pickle of exactly one text holds; its operations are listed, never carried out."""
    try:
        listed = list(islice(pickletools.genops(content), MOST_OPERATIONS))
    except ValueError:
        raise _refusal() from None
    operations = [(kind.name, value, at) for kind, value, at in listed if kind.name != "FRAME"]
    match operations:
        case [("PROTO", protocol, _), (kind, str(text), _), (store, _, _), ("STOP", _, end)]:
            whole = end == len(content) - 1
            if protocol in PROTOCOLS and kind in TEXTS and store in STORES and whole:
                return text
    raise _refusal()


def _refusal() -> BadData:
    return BadData(
        "The packed tests of a problem hold something else than one text; they are not unpickled."
    )
