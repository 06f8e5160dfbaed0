"""Kinds of numbers that a request may name, each with a bound: small requests never cost large ones."""

from typing import Annotated

from pydantic import AfterValidator, Field

MOST_TOKENS = 500_000
"""Longer than any response; what a model has room for is checked with the prompt."""
MOST_COUNT = 1_000_000
MOST_SEED = 2**63 - 1
MOST_TEMPERATURE = 100.0
LEAST_TEMPERATURE = 1e-6
"""Logits divided by less would no longer be finite."""
MOST_BLOCK = 1024
"""Columns that a rule may decode beyond what was asked for, to fill its last block."""
UPDATES_PER_TOKEN = 32
UPDATES_BESIDE = 1024
"""Updates that a rule may make besides, however short the response is."""


def _usable(temperature: float) -> float:
    if 0 < temperature < LEAST_TEMPERATURE:
        raise ValueError(f"a temperature below {LEAST_TEMPERATURE:g}")
    return temperature


Seed = Annotated[int, Field(ge=-MOST_SEED, le=MOST_SEED)]
Tokens = Annotated[int, Field(ge=1, le=MOST_TOKENS)]
Count = Annotated[int, Field(ge=1, le=MOST_COUNT)]
CountOrNone = Annotated[int, Field(ge=0, le=MOST_COUNT)]
Share = Annotated[float, Field(ge=0, le=1)]
Multiple = Annotated[float, Field(ge=0, le=MOST_COUNT)]
Temperature = Annotated[
    float,
    Field(ge=0, le=MOST_TEMPERATURE, description=f"0 or a number from {LEAST_TEMPERATURE:g}"),
    AfterValidator(_usable),
]
