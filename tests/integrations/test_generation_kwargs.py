"""What a task's generation_kwargs mean to a method, and where a response is cut."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.errors import BadRequest
from archer.integrations.generation_kwargs import LENGTHS, Wanted, first_length, read_kwargs


@pytest.mark.parametrize(
    ("kwargs", "stops", "settings"),
    [
        ({}, (), {}),
        ({"until": "\n"}, ("\n",), {}),
        ({"until": ["a", "b"], "max_gen_toks": 16}, ("a", "b"), {"length": 16}),
        ({"until": None, "max_tokens": 8, "max_new_tokens": 4}, (), {"length": 4}),
        ({"do_sample": False, "temperature": 0.7}, (), {}),
        ({"do_sample": False, "temperature": 0.0}, (), {}),
        ({"do_sample": True, "temperature": 0.7}, (), {"temperature": 0.7}),
        ({"temperature": 0.7}, (), {"temperature": 0.7}),
        ({"radius": 4}, (), {"radius": 4}),
    ],
)
def test_kwargs_become_stops_and_settings(
    kwargs: dict[str, Any], stops: tuple[str, ...], settings: dict[str, Any]
) -> None:
    before = dict(kwargs)
    assert read_kwargs(kwargs) == Wanted(stops, settings)
    assert kwargs == before


def test_sampling_needs_a_temperature() -> None:
    with pytest.raises(BadRequest, match="without a temperature above 0"):
        read_kwargs({"do_sample": True})


@pytest.mark.parametrize("name", LENGTHS)
def test_every_name_for_the_length_is_taken_out(name: str) -> None:
    settings = {name: 5, "radius": 8}
    assert first_length(settings) == 5
    assert settings == {"radius": 8}


def cut_letter_by_letter(text: str, stops: list[str]) -> str:
    """The naive twin: the first place at which any stop string begins."""
    for at in range(len(text)):
        if any(stop and text.startswith(stop, at) for stop in stops):
            return text[:at]
    return text


@given(st.text("ab\n", max_size=12), st.lists(st.text("ab\n", max_size=3), max_size=3))
def test_a_response_is_cut_where_the_first_stop_string_begins(text: str, stops: list[str]) -> None:
    assert Wanted(tuple(stops), {}).cut(text) == cut_letter_by_letter(text, stops)
