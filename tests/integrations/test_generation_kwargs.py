"""What a task's generation_kwargs mean to a method, and where a response is cut."""

from typing import Any

import pytest

from archer.errors import BadRequest
from archer.integrations.generation_kwargs import (
    LENGTHS,
    GenerationSettings,
    first_length,
    read_kwargs,
)


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
    assert read_kwargs(kwargs) == GenerationSettings(stops, settings)
    assert kwargs == before


def test_sampling_needs_a_temperature() -> None:
    with pytest.raises(BadRequest, match="without a temperature above 0"):
        read_kwargs({"do_sample": True})


@pytest.mark.parametrize("name", LENGTHS)
def test_every_name_for_the_length_is_taken_out(name: str) -> None:
    settings = {name: 5, "radius": 8}
    assert first_length(settings) == 5
    assert settings == {"radius": 8}


def test_stop_strings_are_texts_and_empty_ones_stop_nothing() -> None:
    assert read_kwargs({"until": ["", "\n\n", ""]}).stops == ("\n\n",)
    with pytest.raises(BadRequest, match="A stop string must be text, not int"):
        read_kwargs({"until": [7]})
