"""What a tokenizer.json may ask for. It is a small program from outside: it replaces, splits and joins.

Texts are encoded here only by parts that need no trust: few of them, of plain kinds, with split patterns that
models of the table have.  All others encode in a process with limits (`child_process`), whatever they are.
Joining tokens happens here for every tokenizer, so what a decoder may do is bounded: its parts must be of a
kind that language models use, may only make a text so much longer, and search by no pattern.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeGuard

from archer.errors import BadModel
from archer.loading.model_files import Json, kind_of

DECODERS = frozenset(
    {"Sequence", "ByteLevel", "Fuse", "Strip", "ByteFallback", "Replace", "Metaspace"}
    | {"WordPiece", "BPEDecoder"}
)
PLAIN = frozenset({"Sequence", "NFC", "ByteLevel", "Split", "BPE", "WordPiece", "WordLevel"})
"""Kinds that encode in time that grows with the text, and make it longer by little."""
INNER = ("normalizers", "pretokenizers", "processors", "decoders")
MOST_PLAIN = 4
"""Parts of a section, sequences counted too; each may double a text."""
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


def check_tokenizer(value: Json, where: str, known_patterns: frozenset[str]) -> bool:
    """Refuse a tokenizer.json that could hurt whoever uses it; whether it may encode in this process."""
    growth = 1.0
    for part in _few(value.get("decoder"), where):
        _check_numbers(part, where)
        growth *= _growth(part, where)
    if growth > MOST_GROWTH:
        raise _refused(
            where,
            f"its decoder can make a text {growth:.3g} times as long; at most {MOST_GROWTH:g} times is "
            "allowed",
        )
    _check_added(value.get("added_tokens"), where)
    sections = (value.get(name) for name in ("normalizer", "pre_tokenizer", "post_processor"))
    plain = [_is_plain(section, known_patterns) for section in sections]
    return _check_model(value.get("model"), where) and all(plain)


def _is_plain(section: object, known_patterns: frozenset[str]) -> bool:
    waiting, parts = [] if section is None else [section], 0
    while waiting:
        part = waiting.pop()
        parts += 1
        if not _is(part) or part.get("type") not in PLAIN or parts > MOST_PLAIN:
            return False
        inner = next((part[name] for name in INNER if name in part), [])
        if not isinstance(inner, list) or bool(inner) != (part["type"] == "Sequence"):
            return False
        match part.get("pattern"):
            case None | {"String": str()}:
                waiting += inner
            case {"Regex": str(pattern)} if pattern in known_patterns:
                waiting += inner
            case _:
                return False
    return True


def _few(value: object, where: str) -> list[Json]:
    """The parts of a decoder, sequences counted too: only some, however they are nested."""
    parts = list(islice(_parts(value, where), MOST_PARTS + 1))
    if len(parts) > MOST_PARTS:
        raise _refused(where, f"its decoder has more than {MOST_PARTS} parts")
    return parts


def _parts(value: object, where: str, depth: int = 0) -> Iterator[Json]:
    """The parts of a decoder, out of their sequences."""
    if value is None:
        return
    kind = value.get("type") if _is(value) else None
    if not _is(value) or not isinstance(kind, str):
        raise _refused(where, f"its decoder is {kind_of(value)}, not an object with a type")
    if kind not in DECODERS:
        allowed = ", ".join(sorted(DECODERS))
        raise _refused(
            where, f"its decoder has the type {kind_of(kind)}; those used here are {allowed}"
        )
    yield value
    if kind != "Sequence":
        return
    inner = next((value[name] for name in INNER if name in value), None)
    if not isinstance(inner, list) or depth >= DEEPEST:
        raise _refused(where, f"its decoder is not a sequence, at most {DEEPEST} deep")
    for each in inner:
        yield from _parts(each, where, depth + 1)


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


def _growth(part: Json, where: str) -> float:
    """By which factor a part can make a text longer, in bytes; refused where that has no measure."""
    match part["type"]:
        case "ByteLevel" | "WordPiece":
            return 2.0
        case "BPEDecoder":
            return 1.0 if part.get("suffix", "</w>") else 3.0
        case "Replace":
            return _replaced(part, where)
    return 1.0


def _replaced(part: Json, where: str) -> float:
    content = _size(part.get("content"))
    match part.get("pattern"):
        case {"String": str(text)} if text:
            return max(1.0, content / _size(text))
        case other:
            raise _refused(
                where, f"a Replace of its decoder looks for {kind_of(other)}, not for a text"
            )


def _size(text: object) -> int:
    return len(str(text or "").encode("utf-8", "replace"))


def _check_model(model: object, where: str) -> bool:
    """Whether the model may encode here; one that does not say what it is may not."""
    if not _is(model):
        raise _refused(where, f"its model is {kind_of(model)}, not an object with a type")
    if model.get("dropout"):
        raise _refused(where, "its model has dropout, which makes a text of ids a matter of chance")
    vocabulary = model.get("vocab", {})
    tokens = vocabulary if _is(vocabulary) else _first_of_pairs(vocabulary, where)
    longest = max(map(len, tokens), default=0)
    if longest > LONGEST_TOKEN:
        raise _refused(where, f"one of its tokens has {longest} characters")
    names = ("continuing_subword_prefix", "end_of_word_suffix", "unk_token")
    texts = [model.get(name) or "" for name in names]
    short = all(isinstance(text, str) and len(text) <= LONGEST_PIECE for text in texts)
    word = model.get("max_input_chars_per_word", 0)
    unknown = model.get("unk_token")
    return (
        short
        and model.get("type") in PLAIN
        and isinstance(word, int)
        and 0 <= word <= LONGEST_WORD
        and (unknown is None or unknown in tokens)
    )


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
    contents = []
    for entry in entries:
        content = entry.get("content") if _is(entry) else None
        if not isinstance(content, str) or not 0 < len(content) <= LONGEST_TOKEN:
            raise _refused(where, f"an added token is {kind_of(content)}, not a short text")
        contents.append(content)
    check_added_length(contents, where)


def check_added_length(added: Iterable[str], where: str) -> None:
    """Refuse more text in added tokens than the library can look for at once."""
    length = sum(map(len, added))
    if length > MOST_ADDED_CHARACTERS:
        raise _refused(
            where,
            f"its added tokens have {length} characters; at most {MOST_ADDED_CHARACTERS} are allowed",
        )


def _is(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)


def _refused(where: str, reason: str) -> BadModel:
    return BadModel(
        f"{where} is refused: {reason}. Take the file from the model's original repository, or leave "
        "it out and use token ids."
    )
