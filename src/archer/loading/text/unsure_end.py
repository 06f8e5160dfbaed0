"""How much of a decoded text is certain while more tokens are to come, for each kind of tokenizer.

A tokenizer's decoder turns all tokens into one text at once.  Most only append when a token is added; some
rewrite the end: bytes become a character only when it is complete, and a run of byte tokens becomes text only
if all of it is valid.  What is not known to append is taken to rewrite everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from tokenizers import Tokenizer


class UnsureEnd(Enum):
    """What further tokens may change of the text so far."""

    NOTHING = auto()
    CHARACTER = auto()
    """The last character, where it stands for bytes that are no whole one yet."""
    BYTES = auto()
    """What the byte tokens at the end make."""
    EVERYTHING = auto()


def unsure_end(tokenizer: Tokenizer) -> UnsureEnd:
    """Told from the declaration of the tokenizer's decoder."""
    if tokenizer.decoder is None:
        return UnsureEnd.NOTHING
    declared = json.loads(tokenizer.decoder.__getstate__())
    parts = declared["decoders"] if declared["type"] == "Sequence" else [declared]
    unsure, joined = UnsureEnd.NOTHING, False
    for part in parts:
        match part["type"], joined:
            case ("Fuse", _) | ("Replace" | "Metaspace" | "WordPiece", False):
                pass
            case ("Strip", _) if not (joined and part["stop"]):
                pass
            case "ByteLevel", False if unsure is UnsureEnd.NOTHING:
                unsure = UnsureEnd.CHARACTER
            case "ByteFallback", False if unsure is UnsureEnd.NOTHING:
                unsure = UnsureEnd.BYTES
            case _:
                return UnsureEnd.EVERYTHING
        joined = joined or _joins(part)
    return unsure


def is_byte(token: str) -> bool:
    """A token that stands for one byte, such as <0x0A>."""
    return len(token) == 6 and token.startswith("<0x") and token.endswith(">")


def _joins(part: Mapping[str, Any]) -> bool:
    """Makes one piece of all tokens; what comes after it sees the whole text."""
    return part["type"] in {"Fuse", "ByteLevel"}
