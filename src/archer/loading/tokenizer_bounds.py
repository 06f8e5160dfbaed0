"""What a tokenizer.json may ask for. It is a small program from outside: it replaces, splits and joins.

Every part must be of a kind that tokenizers of language models use, there may be only so many, and all
of them together may only make a text so much longer. Split patterns must not be able to backtrack
without end. What passes here and is still unusual is tried in a limited process (`tokenizer_child`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
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
"""Characters of a word that WordPiece takes apart; its time grows with their square."""
MOST_ADDED = 1 << 14
LONGEST_PATTERN = 2048
MOST_REPEATS = 64


@dataclass(frozen=True)
class Bounds:
    """What is left to find out about a tokenizer that may be loaded."""

    unusual: bool
    """Whether it has parts that must be tried out."""
    triggers: tuple[str, ...]
    """Texts that its parts look for."""


def check_tokenizer(value: Json, where: str, known_patterns: frozenset[str]) -> Bounds:
    """Refuse a tokenizer.json that could hurt whoever uses it."""
    parts = [
        (section, part) for section in KINDS for part in _parts(value.get(section), section, where)
    ]
    grown = dict.fromkeys(("normalizer", "decoder"), 1.0)
    triggers: list[str] = []
    unusual = False
    for section, part in parts:
        grown[section] = grown.get(section, 1.0) * _growth(part, where)
        triggers += _literals(part)
        patterns = set(_patterns(part, where))
        unusual = unusual or part["type"] not in PLAIN or not patterns <= known_patterns
    if prod(grown.values()) > MOST_GROWTH:
        raise _refused(
            where,
            f"its replacements can make a text {prod(grown.values()):.3g} times as long; at most "
            f"{MOST_GROWTH:g} times is allowed",
        )
    _check_model(value.get("model"), where)
    _check_added(value.get("added_tokens"), where)
    return Bounds(unusual, tuple(triggers))


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
    if not isinstance(inner, list) or len(inner) > MOST_PARTS or depth >= DEEPEST:
        raise _refused(
            where, f"its {section} is not a sequence of at most {MOST_PARTS} parts, {DEEPEST} deep"
        )
    for each in inner:
        yield from _parts(each, section, where, depth + 1)


def _growth(part: Json, where: str) -> float:
    """By which factor a part can make a text longer; refused where that has no measure."""
    for name in ("prepend", "suffix", "prefix", "content", "replacement"):
        text = part.get(name, "")
        if not isinstance(text, str) or len(text) > LONGEST_PIECE:
            raise _refused(where, f"{name} of its {part['type']} is not a text of a few characters")
    if part["type"] in ("NFKC", "NFKD", "NFD"):
        return 4.0
    if part["type"] != "Replace":
        return 1.0
    content = len(str(part.get("content", "")).encode("utf-8", "replace"))
    match part.get("pattern"):
        case {"String": str(text)} if text:
            return max(1.0, content / len(text.encode("utf-8", "replace")))
        case {"Regex": str()}:
            return 1.0 + content
        case other:
            raise _refused(where, f"a Replace looks for {kind_of(other)}, not for a text")


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


def _check_model(model: object, where: str) -> None:
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


def _first_of_pairs(vocabulary: object, where: str) -> list[str]:
    """The tokens of a Unigram model, which lists them with their scores."""
    pairs: list[Any] = vocabulary if isinstance(vocabulary, list) else [None]
    if not all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
        raise _refused(where, "its vocabulary is neither an object nor a list of pairs")
    return [pair[0] for pair in pairs]


def _check_added(added: object, where: str) -> None:
    entries = [] if added is None else added
    if not isinstance(entries, list) or len(entries) > MOST_ADDED:
        raise _refused(where, f"its added tokens are not a list of at most {MOST_ADDED}")
    for entry in entries:
        content = entry.get("content") if _is(entry) else None
        if not isinstance(content, str) or not 0 < len(content) <= LONGEST_TOKEN:
            raise _refused(where, f"an added token is {kind_of(content)}, not a short text")


def _is(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)


def _refused(where: str, reason: str) -> BadModel:
    return BadModel(
        f"{where} is refused: {reason}. Take the file from the model's original repository, or leave "
        "it out and use token ids."
    )
