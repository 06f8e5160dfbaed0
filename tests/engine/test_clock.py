"""A clock that jumps, as one may when a machine sleeps, decides about time limits and nothing else."""

import random
from collections.abc import Callable

import pytest

from archer.engine.engine import Engine
from archer.errors import Expired
from archer.model import Model

DAY = 86_400.0
PROMPTS = ([3, 1, 4], [5, 6], [7, 8, 9])


class Jumping:
    """Goes on by a millisecond and, every so often, by a jump."""

    def __init__(self, jump: Callable[[random.Random], float], seed: int) -> None:
        self.now, self._jump, self._drawn = 1000.0, jump, random.Random(seed)

    def __call__(self) -> float:
        self.now += 0.001 + (self._jump(self._drawn) if self._drawn.random() < 0.3 else 0.0)
        return self.now


JUMPS: dict[str, Callable[[random.Random], float]] = {
    "forwards": lambda drawn: DAY,
    "backwards": lambda drawn: -DAY,
    "both ways": lambda drawn: drawn.uniform(-DAY, DAY),
    "far": lambda drawn: drawn.choice((1e12, -1e12)),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("jump", JUMPS)
def test_texts_do_not_depend_on_the_clock(model: Model, jump: str, seed: int) -> None:
    expected = [done.tokens for done in model.generate(list(PROMPTS), "archer", length=8)]
    engine = Engine(model, budget=16, clock=Jumping(JUMPS[jump], seed))
    handles = [
        engine.submit(prompt, "archer", length=8, owner=owner)
        for prompt, owner in zip(PROMPTS, "aab", strict=True)
    ]
    assert [handle.result().tokens for handle in handles] == expected


def test_a_jump_forwards_ends_what_has_a_time_limit_and_nothing_else(model: Model) -> None:
    now = 0.0
    engine = Engine(model, clock=lambda: now)
    limited = engine.submit(PROMPTS[0], "archer", length=8, timeout=60.0)
    free = engine.submit(PROMPTS[1], "archer", length=8)
    engine.turn()
    now = DAY
    with pytest.raises(Expired, match="60"):
        limited.result()
    assert free.result().tokens
    assert engine.status().running == engine.status().waiting == 0


def test_a_jump_backwards_ends_nothing(model: Model) -> None:
    now = DAY
    engine = Engine(model, clock=lambda: now)
    handles = [
        engine.submit(prompt, "archer", length=8, timeout=60.0, queue_timeout=1.0)
        for prompt in PROMPTS
    ]
    engine.turn()
    now = 0.0
    assert all(handle.result().tokens for handle in handles)
