"""The shapes of published models from `shapes.json`; `small` is nobody's, for whole trajectories."""

import functools
from dataclasses import dataclass

from archer.errors import BadRequest
from archer.files import bundled_json
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
    known = {}
    for name, row in bundled_json("archer.costs", FILE).items():
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
