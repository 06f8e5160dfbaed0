"""What the pipelines walk over: lists, ranges, words, pairs and dictionaries."""

from __future__ import annotations

from dataclasses import dataclass

from pocket_training.generator import elements
from pocket_training.generator.operations import Operation


@dataclass(frozen=True)
class Source:
    """What a pipeline walks over."""

    family: str
    parameters: tuple[tuple[tuple[str, ...], str], ...]
    """Per argument: possible names, kind of value."""
    iterable: str
    """Template in `{p}` and `{q}`, the names of the arguments."""
    variables: tuple[tuple[str, ...], ...]
    """Possible names of the loop variables."""
    nouns: tuple[str, ...]
    """Templates in `{p}` and `{q}`."""
    conditions: tuple[Operation, ...]
    maps: tuple[Operation, ...]
    kind: str
    """Kind of an element that is not mapped."""
    key: str
    """What a dictionary made from the elements has as keys, in words."""


_LISTS = ("xs", "nums", "items", "data")
_OTHERS = ("ys", "others")
_PAIRS = (("a", "b"), ("x", "y"), ("p", "q"))
_ELEMENTS = (("v",), ("x",), ("e",))

SOURCES: dict[str, Source] = {
    source.family: source
    for source in (
        Source(
            "numbers",
            ((_LISTS, "numbers"),),
            "{p}",
            _ELEMENTS,
            ("numbers in {p}", "elements of {p}"),
            elements.NUMBER_CONDITIONS,
            elements.NUMBER_MAPS,
            "int",
            "number",
        ),
        Source(
            "range",
            ((("n", "m", "size"), "size"),),
            "range(1, {p} + 1)",
            (("v",), ("x",), ("i",)),
            ("numbers from 1 to {p}",),
            elements.NUMBER_CONDITIONS,
            elements.NUMBER_MAPS,
            "int",
            "number",
        ),
        Source(
            "members",
            ((_LISTS, "numbers"), (_OTHERS, "numbers")),
            "{p}",
            _ELEMENTS,
            ("numbers in {p}", "elements of {p}"),
            elements.MEMBER_CONDITIONS,
            elements.NUMBER_MAPS,
            "int",
            "number",
        ),
        Source(
            "words",
            ((("names", "items", "data"), "words"),),
            "{p}",
            (("w",), ("t",), ("e",)),
            ("words in {p}", "strings in {p}"),
            elements.WORD_CONDITIONS,
            elements.WORD_MAPS,
            "str",
            "word",
        ),
        Source(
            "zip",
            ((("xs", "nums"), "numbers"), (("ys", "others"), "numbers")),
            "zip({p}, {q})",
            _PAIRS,
            ("pairs of {p} and {q}",),
            elements.PAIR_CONDITIONS,
            elements.PAIR_MAPS,
            "pair",
            "",
        ),
        Source(
            "neighbours",
            ((_LISTS, "numbers"),),
            "zip({p}, {p}[1:])",
            _PAIRS,
            ("pairs of neighbours in {p}",),
            elements.PAIR_CONDITIONS,
            elements.PAIR_MAPS,
            "pair",
            "",
        ),
        Source(
            "entries",
            ((("d", "table", "scores"), "entries"),),
            "{p}.items()",
            (("k", "v"), ("key", "value"), ("a", "b")),
            ("entries of {p}",),
            elements.ENTRY_CONDITIONS,
            elements.ENTRY_MAPS,
            "pair",
            "key",
        ),
    )
}
