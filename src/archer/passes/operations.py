"""Operations of a pass from what the engine counted while it ran: the cost model.

A multiplication with an addition counts as two operations.  Norms, rotation and softmax are left out: they
are no part of the limit, so whatever they cost shows up as a fraction below 1.
"""

from __future__ import annotations

from archer.network.network import Shape
from archer.passes.work import Work


def operations(work: Work, shape: Shape) -> int:
    """Multiplications and additions behind the counters of a pass."""
    heads, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    projected = (work.keys + work.values) * shape.width * keys
    mixed = (
        work.mixed * shape.width * 2 * heads
        + (work.mixed - work.routed) * 3 * shape.width * shape.inner
    )
    if (experts := shape.experts) is not None:
        each = experts.count + 3 * (experts.active * experts.inner + experts.shared)
        mixed += work.routed * shape.width * each
    attended = work.pairs * 2 * heads
    scored = work.scored * shape.width * shape.vocabulary
    return 2 * (projected + mixed + attended + scored)
