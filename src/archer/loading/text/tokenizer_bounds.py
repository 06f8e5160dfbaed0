"""What a tokenizer.json may ask for. It is a small program from outside: it replaces, splits and joins.

Every part must be of a kind that tokenizers of language models use, there may be only so many, and all
of them together may only make a text so much longer. Split patterns must not be able to backtrack
without end. What passes here and is still unusual is tried in a limited process (`tokenizer_child`).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeGuard

from archer.errors import BadModel
from archer.loading.model_files import Json, kind_of

KINDS: Mapping[str, frozenset[str]] = {
    "normalizer": frozenset(
        {"Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents"}
        | {"BertNormalizer", "ByteLevel", "Prepend", "Replace"}
    ),
    "pre_tokenizer": frozenset(
        {"Sequence", "ByteLevel", "Split", "Whitespace", "WhitespaceSplit", "Digits"}
        | {"Punctuation", "Metaspace", "BertPreTokenizer"}
    ),
    "post_processor": frozenset(
        {"Sequence", "ByteLevel", "TemplateProcessing", "BertProcessing", "RobertaProcessing"}
    ),
    "decoder": frozenset(
        {"Sequence", "ByteLevel", "Fuse", "Strip", "ByteFallback", "Replace", "Metaspace"}
        | {"WordPiece", "BPEDecoder"}
    ),
    "model": frozenset({"BPE", "WordPiece", "WordLevel", "Unigram"}),
}
PLAIN: frozenset[str] = frozenset(
    {"Sequence", "NFC", "ByteLevel", "Split", "Fuse", "BPE", "WordPiece", "WordLevel"}
)
"""Kinds that are safe as far as they are bounded here; a file with others is tried out as well."""
INNER = ("normalizers", "pretokenizers", "processors", "decoders")
MOST_PARTS = 16
DEEPEST = 4
MOST_GROWTH = 64.0
LONGEST_PIECE = 64
"""Characters of a text that is put in or taken off."""
LONGEST_TOKEN = 4096
LONGEST_WORD = 10_000
"""Characters of a word that a WordPiece model says it takes apart; `text` allows fewer in one word."""
MOST_ADDED = 1 << 14
MOST_ADDED_CHARACTERS = 1 << 20
"""Of all added tokens together; the library takes some seventy bytes for each."""
MOST_CUTS = 8
"""Added tokens that are tried out one by one."""
MOST_PROBED = 256
LONGEST_CUT = 2000
LONGEST_PATTERN = 2048
MOST_REPEATS = 64


@dataclass(frozen=True)
class Bounds:
    """What is left to find out about a tokenizer that may be loaded."""

    unusual: bool
    """Whether it has parts that must be tried out."""
    triggers: tuple[str, ...]
    """Texts that its parts look for, characters of its patterns, and its shortest added tokens, which cut a
    text into most pieces."""


def check_tokenizer(value: Json, where: str, known_patterns: frozenset[str]) -> Bounds:
    """Refuse a tokenizer.json that could hurt whoever uses it."""
    parts = [
        (section, part) for section in KINDS for part in _few(value.get(section), section, where)
    ]
    growth = 1.0
    triggers: list[str] = []
    unusual = False
    for section, part in parts:
        _check_numbers(part, where)
        growth *= _growth(section, part, where)
        triggers += _literals(part)
        strange = set(_patterns(part, where)) - known_patterns
        triggers += [sign for pattern in sorted(strange) for sign in signs(pattern)]
        unusual = unusual or part["type"] not in PLAIN or bool(strange)
    if growth > MOST_GROWTH:
        raise _refused(
            where,
            f"its parts can make a text {growth:.3g} times as long; at most {MOST_GROWTH:g} times is "
            "allowed",
        )
    unusual = _check_model(value.get("model"), where) or unusual
    added = _check_added(value.get("added_tokens"), where)
    return Bounds(unusual, (*triggers, *_cuts(added)))


def _few(value: object, section: str, where: str) -> list[Json]:
    """The parts of a section, sequences counted too: only so many, however they are nested."""
    parts = list(islice(_parts(value, section, where), MOST_PARTS + 1))
    if len(parts) > MOST_PARTS:
        raise _refused(where, f"its {section} has more than {MOST_PARTS} parts")
    return parts


def _parts(value: object, section: str, where: str, depth: int = 0) -> Iterator[Json]:
    """The parts of a section, out of their sequences."""
    if value is None and section != "model":
        return
    kind = value.get("type", "BPE" if section == "model" else None) if _is(value) else None
    if not _is(value) or not isinstance(kind, str):
        raise _refused(where, f"its {section} is {kind_of(value)}, not an object with a type")
    if kind not in KINDS[section]:
        allowed = ", ".join(sorted(KINDS[section]))
        raise _refused(
            where, f"its {section} has the type {kind_of(kind)}; those used here are {allowed}"
        )
    yield {**value, "type": kind}
    if kind != "Sequence":
        return
    inner = next((value[name] for name in INNER if name in value), None)
    if not isinstance(inner, list) or depth >= DEEPEST:
        raise _refused(where, f"its {section} is not a sequence, at most {DEEPEST} deep")
    for each in inner:
        yield from _parts(each, section, where, depth + 1)


def _check_numbers(part: Json, where: str) -> None:
    """Numbers and texts of a part that the library takes as they are, whatever comes of it."""
    for name in ("prepend", "suffix", "prefix", "content", "replacement"):
        text = part.get(name, "")
        if not isinstance(text, str) or len(text) > LONGEST_PIECE:
            raise _refused(where, f"{name} of its {part['type']} is not a text of a few characters")
    start, stop = part.get("start", 0), part.get("stop", 0)
    if type(start) is not int or not 0 <= start <= LONGEST_PIECE:
        raise _refused(where, f"its {part['type']} takes {kind_of(start)} characters off a text")
    if stop != 0:
        raise _refused(
            where,
            f"its {part['type']} takes characters off the end, which fails on a text without others",
        )


def _growth(section: str, part: Json, where: str) -> float:
    """By which factor a part can make a text longer, in bytes; refused where that has no measure.

    What is put before a text is put before every piece between two added tokens, even if that is one
    letter.
    """
    match section, part["type"]:
        case _, "NFKC" | "NFKD" | "NFD" | "BertNormalizer":
            return 4.0
        case _, "Prepend":
            return 1.0 + _size(part.get("prepend"))
        case "pre_tokenizer", "Metaspace":
            return 1.0 + _size(part.get("replacement"))
        case "pre_tokenizer", "ByteLevel":
            return 4.0 if part.get("add_prefix_space", True) else 2.0
        case "normalizer" | "decoder", "ByteLevel":
            return 2.0
        case "decoder", "WordPiece":
            return 2.0
        case "decoder", "BPEDecoder":
            return 1.0 if part.get("suffix", "</w>") else 3.0
        case _, "Replace":
            return _replaced(part, where)
    return 1.0


def _replaced(part: Json, where: str) -> float:
    content = _size(part.get("content"))
    match part.get("pattern"):
        case {"String": str(text)} if text:
            return max(1.0, content / _size(text))
        case {"Regex": str()}:
            return 1.0 + content
        case other:
            raise _refused(where, f"a Replace looks for {kind_of(other)}, not for a text")


def _size(text: object) -> int:
    return len(str(text or "").encode("utf-8", "replace"))


def _literals(part: Json) -> list[str]:
    match part.get("pattern"):
        case {"String": str(text)}:
            return [text[:LONGEST_PIECE]]
    return []


def _patterns(part: Json, where: str) -> Iterator[str]:
    """The regular expressions of a part, each of which must be harmless."""
    match part.get("pattern"):
        case {"Regex": str(pattern)}:
            reason = endless(pattern)
            if reason is not None:
                raise _refused(where, f"the pattern {kind_of(pattern)} {reason}")
            yield pattern


ELEMENT = re.compile(
    r"\\p\{\^?\w+\}|\\x\{[0-9A-Fa-f]+\}|\\.|\[(?:\^?\]?)(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|."
    r"|\n",
    re.DOTALL,
)
REPEAT = re.compile(r"(?:[*+]|\{\d*,?\d*\})[?+]?")


def endless(pattern: str) -> str | None:
    """Why a search for a pattern may never end, as the end of a sentence; None if it always will.

    Time without end takes a repetition of something that can itself match in several ways, so groups
    may be optional but not repeated, and there are no references back.
    """
    if len(pattern) > LONGEST_PATTERN:
        return f"is longer than {LONGEST_PATTERN} characters"
    at, repeats, closed = 0, 0, False
    while at < len(pattern):
        repeat = REPEAT.match(pattern, at)
        if repeat is not None and at > 0:
            if closed:
                return "repeats a group, which can take for ever"
            repeats += 1
            at, closed = repeat.end(), True
            continue
        element = ELEMENT.match(pattern, at)
        assert element is not None
        text = element[0]
        if re.fullmatch(r"\\[1-9kgKGRX]", text) or pattern.startswith(("(?R", "(?&", "(*"), at):
            return "refers back to itself, which can take for ever"
        if pattern.startswith(("(?P>", "(?(", "(?~"), at):
            return "uses a construct that no tokenizer needs"
        closed = text == ")" or (closed and text == "?")
        at = element.end()
    return f"has more than {MOST_REPEATS} repetitions" if repeats > MOST_REPEATS else None


LARGEST_CODE = 0x110000
CODE = re.compile(r"\\x\{([0-9A-Fa-f]{1,6})\}|\\x([0-9A-Fa-f]{1,2})|\\u([0-9A-Fa-f]{4})")
PROPERTY = re.compile(r"\\[pP]\{\^?(\w+)\}")
SCRIPTS = range(0x370, 0x3100)
"""Where the letters of most scripts are."""


def signs(pattern: str) -> list[str]:
    """Characters that a pattern looks for: a search slow over one letter is only noticed with that letter."""
    numbers = ["".join(found.groups("")) for found in CODE.finditer(pattern)]
    named = [chr(int(number, 16)) for number in numbers if int(number, 16) < LARGEST_CODE]
    scripts = [name.replace("_", " ").upper() for name in PROPERTY.findall(pattern)]
    letters = (_letter(name) for name in dict.fromkeys(scripts) if len(name) > 2)
    plain = PROPERTY.sub("", CODE.sub("", pattern))
    every = dict.fromkeys([*named, *filter(None, letters), *plain])
    return [sign for sign in every if not 0xD800 <= ord(sign) < 0xE000]


def _letter(script: str) -> str | None:
    return next((c for c in map(chr, SCRIPTS) if unicodedata.name(c, "").startswith(script)), None)


def _check_model(model: object, where: str) -> bool:
    """Whether the model has to be tried out, as one must that does not say what it is."""
    assert _is(model)
    if model.get("dropout"):
        raise _refused(where, "its model has dropout, which makes a text of ids a matter of chance")
    for name in ("continuing_subword_prefix", "end_of_word_suffix", "unk_token"):
        text = model.get(name)
        if text is not None and (not isinstance(text, str) or len(text) > LONGEST_PIECE):
            raise _refused(where, f"{name} of its model is not a text of a few characters")
    word = model.get("max_input_chars_per_word", 0)
    if not isinstance(word, int) or not 0 <= word <= LONGEST_WORD:
        raise _refused(where, f"max_input_chars_per_word is not at most {LONGEST_WORD}")
    vocabulary = model.get("vocab", {})
    tokens = vocabulary if _is(vocabulary) else _first_of_pairs(vocabulary, where)
    longest = max(map(len, tokens), default=0)
    if longest > LONGEST_TOKEN:
        raise _refused(where, f"one of its tokens has {longest} characters")
    unknown = model.get("unk_token")
    lacking = unknown is not None and unknown not in tokens
    if lacking and model.get("type") in ("WordLevel", "WordPiece"):
        raise _refused(
            where, f"its token for the unknown, {kind_of(unknown)}, is not in its vocabulary"
        )
    return lacking or "type" not in model


def _first_of_pairs(vocabulary: object, where: str) -> list[str]:
    """The tokens of a Unigram model, which lists them with their scores."""
    pairs: list[Any] = vocabulary if isinstance(vocabulary, list) else [None]
    if not all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
        raise _refused(where, "its vocabulary is neither an object nor a list of pairs")
    return [pair[0] for pair in pairs]


def _check_added(added: object, where: str) -> list[str]:
    """The texts of the added tokens."""
    entries = [] if added is None else added
    if not isinstance(entries, list) or len(entries) > MOST_ADDED:
        raise _refused(where, f"its added tokens are not a list of at most {MOST_ADDED}")
    found = []
    for entry in entries:
        content = entry.get("content") if _is(entry) else None
        if not isinstance(content, str) or not 0 < len(content) <= LONGEST_TOKEN:
            raise _refused(where, f"an added token is {kind_of(content)}, not a short text")
        found.append(content)
    check_added_length(found, where)
    return found


def check_added_length(added: Iterable[str], where: str) -> None:
    """Refuse more text in added tokens than the library can look for at once."""
    length = sum(map(len, added))
    if length > MOST_ADDED_CHARACTERS:
        raise _refused(
            where,
            f"its added tokens have {length} characters; at most {MOST_ADDED_CHARACTERS} are allowed",
        )


def _cuts(added: list[str]) -> Iterator[str]:
    """The shortest added tokens, alone and between letters; and many of them in one text."""
    shortest = sorted(set(added), key=lambda text: (len(text), text))
    for text in shortest[:MOST_CUTS]:
        yield text
        yield f"a{text}"
    if shortest:
        yield "".join(f"a{text}" for text in shortest[:MOST_PROBED])[:LONGEST_CUT]


def _is(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)


def _refused(where: str, reason: str) -> BadModel:
    return BadModel(
        f"{where} is refused: {reason}. Take the file from the model's original repository, or leave "
        "it out and use token ids."
    )
