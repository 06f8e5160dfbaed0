"""The models that the recipe can train: by one objective, on one of the subjects.

What differs between the first three is the row of the architecture table alone, so that a comparison of two
of them compares architectures and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from archer.errors import BadRequest
from archer.loading.architecture import Architecture
from archer.loading.families.dream import DREAM
from archer.loading.families.llada import LLADA, PROMPT_BLIND
from archer.network.network import Shape
from pocket_training.functions import Functions
from pocket_training.grids import Grids
from pocket_training.subject import Subject

FUNCTIONS = Functions()
HEAD = 32
"""Size of an attention head."""


@dataclass(frozen=True)
class Variant:
    """A model of the recipe, under the name it is shipped by."""

    name: str
    architecture: Architecture
    manner: str
    """How its architecture is said in the model card, after "in"."""
    subject: Subject = FUNCTIONS
    layers: int = 4
    width: int = 160
    inner: int = 384
    rope_theta: float = 10_000.0

    def shape(self, vocabulary: int) -> Shape:
        """Up to 1.5 million parameters: small enough for half a million sequences in an afternoon."""
        heads = self.width // HEAD
        return Shape(
            layers=self.layers,
            width=self.width,
            heads=heads,
            kv_heads=heads,
            head_dim=HEAD,
            inner=self.inner,
            vocabulary=vocabulary,
            norm_epsilon=1e-5,
            rope_theta=self.rope_theta,
            qkv_bias=self.architecture.qkv_bias,
            rope_float32=self.architecture.rope_float32,
            max_positions=1024,
            shift=self.architecture.shift,
            attention=self.architecture.attention,
        )


VARIANTS: Mapping[str, Variant] = {
    each.name: each
    for each in (
        Variant("pocket", LLADA, "LLaDA's architecture"),
        Variant(
            "pocket-dream",
            DREAM,
            "Dream's architecture: biases at queries, keys and values, and a token is scored by the "
            "column before it",
        ),
        Variant(
            "pocket-blind",
            PROMPT_BLIND,
            "LLaDA's architecture with one restriction: no column of the prompt sees the response, so "
            "that the prompt's keys and values never change",
        ),
        Variant(
            "pocket-sudoku",
            LLADA,
            "LLaDA's architecture",
            Grids(),
            layers=6,
            width=128,
            inner=320,
            rope_theta=100.0,
        ),
    )
}


def variant(name: str) -> Variant:
    """The variant of a name; refuses what there is no recipe for."""
    if name not in VARIANTS:
        raise BadRequest(f"There is no recipe for {name!r}, only for {', '.join(VARIANTS)}.")
    return VARIANTS[name]
