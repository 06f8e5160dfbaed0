"""Folders whose tokenizer.json is a program that hurts whoever loads or uses it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.folders import make_llada
from support.spoil import Case, Spoil, content, tokenizer_json

Change = Callable[[dict[str, Any]], Any]


def llada_text(folder: Path) -> Path:
    return make_llada(folder, tokenizer=True)


def replacing(old: str, new: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def sequence(section: str, parts: list[Any]) -> dict[str, Any]:
    name = {"normalizer": "normalizers", "decoder": "decoders", "pre_tokenizer": "pretokenizers"}
    return {"type": "Sequence", name[section]: parts}


def part(section: str, value: Any) -> Spoil:
    return tokenizer_json(lambda t: t.update({section: value}))


def parts(section: str, values: list[Any]) -> Spoil:
    return part(section, sequence(section, values))


def normal(kind: str, **fields: Any) -> Spoil:
    return part("normalizer", {"type": kind, **fields})


def added(content: str) -> Spoil:
    """With another text for the first added token."""
    return tokenizer_json(lambda t: t["added_tokens"][0].update(content=content))


def split(pattern: str) -> Spoil:
    regex = {"Regex": pattern}
    value = {"type": "Split", "pattern": regex, "behavior": "Isolated", "invert": False}
    return part("pre_tokenizer", value)


def model(**changes: Any) -> Spoil:
    return tokenizer_json(lambda t: t["model"].update(changes))


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "NFC"}
    for _ in range(depth):
        inner = sequence("normalizer", [inner])
    return inner


def bushy(width: int, depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "NFC"}
    for _ in range(depth):
        inner = sequence("normalizer", [inner] * width)
    return inner


def prefixes_between_added_tokens(tokenizer: dict[str, Any]) -> None:
    """16 sequences, each of 16 prefixes: none is long, and all stand before each piece of a text."""
    prefix = {"type": "Prepend", "prepend": "x" * 64}
    inner = sequence("normalizer", [prefix] * 16)
    tokenizer["normalizer"] = sequence("normalizer", [inner] * 4)
    tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "content": "q", "id": 287})


def metaspace(mark: str) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": mark, "prepend_scheme": "always", "split": True}


def stripping(content: str, start: int, stop: int) -> dict[str, Any]:
    return {"type": "Strip", "content": content, "start": start, "stop": stop}


def words(kind: str) -> Spoil:
    """A model that has no token for what it does not know."""
    vocabulary: Any = [["a", 0.0]] if kind == "Unigram" else {"a": 0}
    found = {"type": kind, "unk_token": "[UNK]", "vocab": vocabulary}
    if kind == "WordPiece":
        found |= {"continuing_subword_prefix": "", "max_input_chars_per_word": 100}
    if kind == "Unigram":
        found = {"type": kind, "unk_id": None, "vocab": vocabulary}
    return tokenizer_json(lambda t: t.update(model=found))


def words_of(letters: int) -> Spoil:
    """Pieces of words that may be so long; each is looked for from every letter to every other."""
    found = {
        "type": "WordPiece",
        "unk_token": "a",
        "continuing_subword_prefix": "",
        "vocab": {"a": 0},
    }
    return tokenizer_json(lambda t: t.update(model=found | {"max_input_chars_per_word": letters}))


def added_tokens(count: int, letters: int) -> Spoil:
    """Different from the first letter on, so that the library keeps each as a whole."""

    def change(tokenizer: dict[str, Any]) -> None:
        first = tokenizer["added_tokens"][0]
        texts = (chr(0x4E00 + n) + "x" * (letters - 1) for n in range(count))
        tokenizer["added_tokens"] = [{**first, "content": text} for text in texts]

    return tokenizer_json(change)


def lacking_pairs() -> dict[str, Any]:
    return {"type": "BPE", "unk_token": "[UNK]", "vocab": {"a": 0}, "merges": []}


def case(name: str, spoil: Spoil, phrase: str) -> Case:
    return Case(f"tokenizer: {name}", spoil, phrase, llada_text)


LONGER = "times as long"
TYPE = "has the type"
FOREVER = "can take for ever"
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
XYZ, SUFFIX = {"type": "Prepend", "prepend": "xyz"}, {"type": "BPEDecoder", "suffix": ""}
BOMB = [replacing("a", "a" * 8) for _ in range(8)]

CASES = [
    case("chain of replacements", parts("normalizer", BOMB), "takes too much time"),
    case("chain in the decoder", parts("decoder", BOMB), LONGER),
    case("a replacement of nothing", part("normalizer", replacing("", "x")), "can be used"),
    case("a replacement of null", normal("Replace", pattern=None, content="x"), "can be used"),
    case(
        "an empty match replaced",
        normal("Replace", pattern={"Regex": "x?"}, content="b" * 64),
        "can be used",
    ),
    case(
        "a bad precompiled map", normal("Precompiled", precompiled_charsmap="AAAA"), "can be used"
    ),
    case(
        "a precompiled map of nothing",
        normal("Precompiled", precompiled_charsmap=""),
        "can be used",
    ),
    case("an unknown normaliser", normal("Shell", command="id"), "can be used"),
    case("an unknown splitter", part("pre_tokenizer", {"type": "Magic"}), "can be used"),
    case("an unknown decoder", part("decoder", {"type": "CTC"}), TYPE),
    case("an unknown model", model(type="Perl"), "can be used"),
    case("an unknown processor", part("post_processor", {"type": "Webhook"}), "can be used"),
    case("a normaliser of text", part("normalizer", "NFC"), "can be used"),
    case("a normaliser in a list", part("normalizer", [{"type": "NFC"}]), "can be used"),
    case("no model", tokenizer_json(lambda t: t.pop("model")), "not an object with a type"),
    case("a sequence of nothing", normal("Sequence"), "can be used"),
    case("spaces for nothing", parts("decoder", [SUFFIX] * 8), LONGER),
    case("an end stripped", part("decoder", stripping("q", 0, 5)), "off the end"),
    case("one character of an end stripped", part("decoder", stripping(" ", 0, 1)), "off the end"),
    case("a long start stripped", part("decoder", stripping(" ", 10**6, 0)), "1000000 characters"),
    case("less than nothing stripped", part("decoder", stripping(" ", -1, 0)), "-1 characters"),
    case("words without one for the unknown", words("WordLevel"), "can be used"),
    case("pieces without one for the unknown", words("WordPiece"), "can be used"),
    case("pairs without one for the unknown", part("model", lacking_pairs()), "can be used"),
    case("scores without one for the unknown", words("Unigram"), "can be used"),
    case("a broken pattern", split("(a"), "is not a tokenizer"),
    case("a broken class", split("[z-a]"), "is not a tokenizer"),
    case("dropout", model(dropout=0.5), "a matter of chance"),
    case("a token of 5,000 letters", model(vocab={"a" * 5000: 0}), "has 5000 characters"),
    case("a vocabulary of numbers", model(vocab=[1, 2]), "nor a list of pairs"),
    case("a suffix of 7", model(end_of_word_suffix=7), "can be used"),
    case(
        "scores that do not say what they are",
        tokenizer_json(lambda t: t.update(model={"unk_id": None, "vocab": [["a", 0.0]]})),
        "can be used",
    ),
    case("300 added tokens of 4,000 letters", added_tokens(300, 4000), "at most 1048576"),
    case("16,000 added tokens of 100 letters", added_tokens(16_000, 100), "at most 1048576"),
    case("added tokens in an object", part("added_tokens", {}), "not a list"),
    case("an added token of nothing", added(""), "short text"),
    case("a long added token", added("x" * 9999), "short text"),
    case(
        "20,000 added tokens",
        tokenizer_json(lambda t: t.update(added_tokens=t["added_tokens"] * 20_000)),
        "at most 16384",
    ),
    case(
        "a score that is none",
        tokenizer_json(
            lambda t: t.update(model={"type": "Unigram", "unk_id": 99, "vocab": [["a", 0.0]]})
        ),
        "is not a tokenizer",
    ),
    case("a key twice", content("tokenizer.json", b'{"model": 1, "model": 2}'), "appears twice"),
    case(
        "too deep",
        content("tokenizer.json", b'{"normalizer": ' + b"[" * 100_000),
        "nested too deeply",
    ),
]

CONFINED = [
    case(
        "half a chain in each",
        tokenizer_json(
            lambda t: t.update(
                normalizer=sequence("normalizer", BOMB[:2]), decoder=sequence("decoder", BOMB[:2])
            )
        ),
        "",
    ),
    case(
        "a chain over several letters",
        parts("normalizer", [replacing(a, 4 * b) for a, b in ("ab", "bc", "cd", "da")]),
        "",
    ),
    case("one long replacement", part("normalizer", replacing("a", "b" * 5000)), ""),
    case("a long prefix", normal("Prepend", prepend="x" * 1000), ""),
    case("a hundred parts", parts("normalizer", [{"type": "NFC"}] * 100), ""),
    case("parts in parts", part("normalizer", nested(40)), ""),
    case(
        "prefixes in nested sequences, between added tokens",
        tokenizer_json(prefixes_between_added_tokens),
        "",
    ),
    case("sequences of sequences", part("normalizer", bushy(16, 3)), ""),
    case("a few prefixes", parts("normalizer", [XYZ] * 4), ""),
    case("letters for bytes, again and again", parts("pre_tokenizer", [BYTES] * 10), ""),
    case("letters for bytes normalised", parts("normalizer", [{"type": "ByteLevel"}] * 10), ""),
    case("marks before every piece", parts("pre_tokenizer", list(map(metaspace, "▁▂▃▄"))), ""),
    case("a nested repetition", split("(a+)+$"), ""),
    case("a reference back", split(r"(a*)\1b"), ""),
    case("a recursion", split(r"(?<p>a\g<p>?b)"), ""),
    case("a verb", split(r"(*FAIL)"), ""),
    case("an absent group", split(r"(?~ab)"), ""),
    case("a long pattern", split("a" * 5000), ""),
    case("many repetitions", split("a*" * 65), ""),
    case("a slow pattern", split(r"a*a*a*a*a*a*[^a]\p{Nd}"), ""),
    case("a pattern slow on one letter", split(r"q*q*q*q*[^q]\p{Nd}"), ""),
    case(
        "a pattern slow on one letter behind a hundred others",
        split("".join(f"{chr(0x4E00 + n)}|" for n in range(100)) + r"q*q*q*q*[^q]\p{Nd}"),
        "",
    ),
    case(
        "a pattern slow on a letter given by number",
        split(r"\x{71}*\x71*\x{0071}*\x71*[^\x71]\p{Nd}"),
        "",
    ),
    case(
        "a pattern slow on one script",
        split(r"\p{Greek}*\p{Greek}*\p{Greek}*\p{Greek}*\P{Greek}\p{Nd}"),
        "",
    ),
    case("a pattern slow on a range", split("[b-d]*[b-d]*[b-d]*[b-d]*[^b-d]\\p{Nd}"), ""),
    case("a long suffix", model(end_of_word_suffix="x" * 100), ""),
    case("a long mark of parts", model(continuing_subword_prefix="x" * 100), ""),
    case("words without end", words_of(10**9), ""),
    case("words of 10,001 letters", words_of(10_001), ""),
    case(
        "currency signs, then a letter",
        split(r"\p{Sc}*\p{Sc}*\p{Sc}*\p{Sc}*\p{Sc}*\p{Sc}*\p{Nd}"),
        "",
    ),
]
"""Tokenizers that load, and encode in a process of their own because they may be slow or make texts long."""
