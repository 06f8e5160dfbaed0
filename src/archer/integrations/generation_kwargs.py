"""What a task of the lm-evaluation-harness wants of a response, in terms of a method's settings."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from archer.engine.job import as_stops
from archer.errors import BadRequest

LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Names for the length of a response, the first that is given holds."""


@dataclass(frozen=True)
class GenerationSettings:
    """Stop strings, and settings that go before those of the model."""

    stops: tuple[str, ...]
    settings: Mapping[str, Any]


def read_kwargs(kwargs: Mapping[str, Any]) -> GenerationSettings:
    """Understands a request's generation_kwargs; what is no stop string becomes a setting."""
    settings = dict(kwargs)
    until = settings.pop("until", None) or ()
    sample = settings.pop("do_sample", None)
    temperature = settings.pop("temperature", None)
    if sample and not temperature:
        raise BadRequest(
            "The task asks for sampling (do_sample) without a temperature above 0. "
            "Add one: --gen_kwargs temperature=0.7."
        )
    if temperature and sample is not False:
        settings["temperature"] = temperature
    length = first_length(settings)
    if length is not None:
        settings["length"] = length
    stops = (until,) if isinstance(until, str) else until
    return GenerationSettings(as_stops([stop for stop in stops if stop != ""]), settings)


def first_length(settings: MutableMapping[str, Any]) -> int | None:
    """Takes every name for the length out of some settings; the value that holds."""
    given = [settings.pop(name, None) for name in LENGTHS]
    return next((length for length in given if length is not None), None)
