"""The automaton of an expression: which texts it accepts, and how large it gets."""

import json
import re
from itertools import product

import pytest

from archer.errors import BadRequest
from archer.structure import confined
from archer.structure.byte_automaton import of_regex
from archer.structure.structures import Structure


@pytest.mark.parametrize(
    "pattern",
    [
        "a\nb",
        "(?:\n|a){1,3}",
        "\\s*b",
        "[^b]{0,2}",
        "(?:a\n)*",
        ".",
        "[^a][^b]",
        r"[^\n]\W?",
        "(?s).",
    ],
)
def test_signs_put_before_every_text_are_signs_like_others(pattern: str) -> None:
    """Some are, while the automaton is made."""
    automaton = of_regex(pattern)
    for length in range(5):
        for signs in product("ab\n", repeat=length):
            text = "".join(signs)
            assert automaton.accepts(text.encode()) == bool(re.fullmatch(pattern, text)), text


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("^yes$", ["yes"]),
        ("yes$|(?:no)", ["yes", "no"]),
        ("^yes$|^no$|x", ["yes", "no", "x"]),
        (r"\Ayes|no\z", ["yes", "no"]),
        ("(?i)^ye$", ["ye", "YE", "yE"]),
        (r"a[$^]\$\^", ["a$$^", "a^$^"]),
        ("[^]^]", ["a", "$"]),
        ("[a[^b-y]]z", ["az", "zz"]),
        (r"yes\\$", ["yes\\"]),
    ],
)
def test_marks_of_beginning_and_end_say_nothing_around_the_whole(
    pattern: str, texts: list[str]
) -> None:
    automaton = of_regex(pattern)
    assert [text for text in texts if not automaton.accepts(text.encode())] == []
    assert not any(automaton.accepts(text.encode()) for text in ("", "yesno", "]", "cz"))


@pytest.mark.parametrize(
    ("pattern", "mark"),
    [
        *((r"(^yes$)|(^no$)", r"\^"), ("a^b", r"\^"), ("(?:yes$|no)", r"\$"), ("a$b", r"\$")),
        *((r"a\b|b", r"\\b"), (r"a\Bc", r"\\B"), (r"(\Aa)*", r"\\A"), (r"(a|b\z)", r"\\z")),
    ],
)
def test_such_marks_inside_are_refused_by_name(pattern: str, mark: str) -> None:
    """They were lost before, and with them whatever they stood in."""
    with pytest.raises(BadRequest, match=f"says {mark} in its midst"):
        of_regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        *(("[a-z]{3,100}", 101), ("é{2,30}", 61), (".{0,40}", 321), ("[1-9][0-9]{10,}", 12)),
        *(('[^"]{0,60}', 481), (r"\[[^\]]{0,60}\]", 483), ("[^,]{1,30},[^;]{1,30}", 482)),
        *((r"\D{0,30}", 901), (r"\S{1,50}", 751)),
    ],
)
def test_counted_parts_take_as_many_states_as_they_have_bytes(pattern: str, states: int) -> None:
    """Where matches are also looked for behind the beginning, their number doubles with each."""
    assert of_regex(pattern).states == states


@pytest.mark.parametrize(
    "structure",
    [
        Structure("regex", r"(?:[ab]*a[ab]{24}){2}"),
        Structure("regex", r"[\s\S]{0,60}"),
        Structure("schema", '{"type": "string", "pattern": "^[ab]*a[ab]{24}$"}'),
    ],
)
def test_an_expression_without_end_is_refused(
    structure: Structure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined, "SECONDS", 2.0)
    with pytest.raises(BadRequest, match="more time or memory to prepare than a request may"):
        confined.make_apart(structure)
    assert structure.known is None


def test_an_expression_is_made_elsewhere_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    structure = Structure("regex", "[a-c]{2}x")
    confined.make_apart(structure)
    assert structure.known is not None
    assert structure.known.accepts(b"abx")
    assert not structure.known.accepts(b"abc")
    monkeypatch.setattr(confined, "COMMAND", ("false",))
    confined.make_apart(structure)
    confined.make_apart(Structure("choices", '["made", "here"]'))
    long = Structure("choices", json.dumps(["made", "apart" * 400]))
    with pytest.raises(BadRequest, match="takes more time or memory"):
        confined.make_apart(long)
    monkeypatch.undo()
    confined.make_apart(long)
    assert long.known is not None
    assert long.known.accepts(b"apart" * 400)
    with pytest.raises(BadRequest, match="cannot be used"):
        confined.make_apart(Structure("regex", "(["))
