"""Tiny networks on the bench."""

from archer.bench.subject import Subject
from support.networks import backbone


def tiny(shift: bool = False) -> Subject:
    """Three layers of a model that claims to have five."""
    model = backbone(shift)
    return Subject("tiny", model.network, model.mask, depth=5)
