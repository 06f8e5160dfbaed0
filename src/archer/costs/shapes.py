"""The shapes of published models, as data: `shapes.json` holds what their config.json files say.

`small` in it is nobody's model: large enough to be bound by arithmetic, small enough for whole trajectories.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib.resources import files

from archer.errors import BadRequest
from archer.loading.architecture import Architecture
from archer.loading.model_config import parse_config
from archer.network.network import Shape

FILE = "shapes.json"


@dataclass(frozen=True)
class Published:
    """A shape and what belongs to it."""

    architecture: Architecture
    shape: Shape
    mask: int
    eos: int
    layers: int
    """Layers that a measurement runs unless told otherwise."""


@functools.cache
def shapes() -> dict[str, Published]:
    """By name."""
    text = files("archer.costs").joinpath(FILE).read_text(encoding="utf-8")
    known = {}
    for name, row in json.loads(text).items():
        model = parse_config(row["config"], FILE)
        known[name] = Published(
            model.architecture, model.shape, model.mask, model.eos[0], row["layers"]
        )
    return known


def published(name: str) -> Published:
    """One of them; refuses a name that is not there."""
    if name not in shapes():
        raise BadRequest(f"There is no shape {name!r}. Shapes: {', '.join(shapes())}.")
    return shapes()[name]
