"""Passes that are watched, and passes that fail: before anything is computed, or in the middle of a layer."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from archer.engine import batch as batching
from archer.passes import forward
from archer.passes.forward import Answer, Question, run

Fails = Callable[[Sequence[Question]], bool]


def watching(monkeypatch: pytest.MonkeyPatch, see: Callable[[Sequence[Question]], object]) -> None:
    """Every pass of a batch is shown to `see` before it begins; what `see` raises, it raises."""

    def seen(network: Any, parts: Sequence[Question], *rest: Any) -> list[Answer]:
        see(parts)
        return run(network, parts, *rest)

    monkeypatch.setattr(batching, "run", seen)


def failing(monkeypatch: pytest.MonkeyPatch, fails: Fails, error: BaseException) -> None:
    """Passes for which `fails(parts)` holds raise before they begin."""

    def see(parts: Sequence[Question]) -> None:
        if fails(parts):
            raise error.with_traceback(None)

    watching(monkeypatch, see)


def failing_at(monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException) -> None:
    """The pass of this number, counted from 1, raises before it begins."""
    passes = count(1)
    failing(monkeypatch, lambda parts: next(passes) == number, error)


def failing_halfway(
    monkeypatch: pytest.MonkeyPatch, fails: Fails, error: Exception, layer: int = 1
) -> None:
    """Passes for which `fails(parts)` holds raise behind a layer, which has been written by then."""
    for name in ("dense", "ruled"):
        plain = getattr(forward, name)

        def faulty(
            index: int, network: Any, hidden: Any, at: Any, *rest: Any, plain: Any = plain
        ) -> Any:
            after = plain(index, network, hidden, at, *rest)
            if index == layer and fails([share.question for share in at.shares]):
                raise error.with_traceback(None)
            return after

        monkeypatch.setattr(forward, name, faulty)
