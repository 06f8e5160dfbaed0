"""The automaton of an expression: which texts it accepts, and how large it gets."""

import re
from itertools import product

import pytest

from archer.structure.byte_automaton import of_regex


@pytest.mark.parametrize(
    "pattern", ["a\nb", "(?:\n|a){1,3}", "\\s*b", "[^b]{0,2}", "(?:a\n)*", "."]
)
def test_ends_of_lines_are_bytes_like_others(pattern: str) -> None:
    """Although one is put before every text while the automaton is made."""
    automaton = of_regex(pattern)
    for length in range(5):
        for signs in product("ab\n", repeat=length):
            text = "".join(signs)
            assert automaton.accepts(text.encode()) == bool(re.fullmatch(pattern, text)), text


@pytest.mark.parametrize(
    ("pattern", "states"),
    [("[a-z]{3,100}", 101), ("é{2,30}", 61), (".{0,40}", 321), ("[1-9][0-9]{10,}", 12)],
)
def test_counted_parts_take_as_many_states_as_they_have_bytes(pattern: str, states: int) -> None:
    """Where matches are also looked for behind the beginning, their number doubles with each."""
    assert of_regex(pattern).states == states
