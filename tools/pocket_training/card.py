"""The model card of an embedded model."""

from __future__ import annotations

from archer.network.network import Shape
from pocket_training.checkpoint import Progress
from pocket_training.variants import Variant


def card(variant: Variant, shape: Shape, progress: Progress) -> str:
    """README.md of the exported folder."""
    bias = 3 * shape.width * shape.qkv_bias
    layer = bias + 4 * shape.width**2 + 3 * shape.width * shape.inner + 2 * shape.width
    total = 2 * shape.vocabulary * shape.width + shape.layers * layer + shape.width
    return variant.subject.card.format(
        name=variant.name,
        manner=variant.manner,
        parameters=total / 1e6,
        layers=shape.layers,
        width=shape.width,
        vocabulary=shape.vocabulary,
        sequences=progress.sequences,
        minutes=progress.minutes,
        seed=progress.seed,
    )
