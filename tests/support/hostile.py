"""Parts that raise before anything is decoded: while they are made, checked and laid out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from archer.decoders.saber import Saber
from archer.methods.settings import DECODERS
from archer.policies.prompt_cache import Archer

VERBS = ("made", "check", "limit", "start", "canvas")
LETHAL: Mapping[str, type[BaseException]] = {
    kind.__name__: kind
    for kind in (
        *(SystemExit, KeyboardInterrupt, GeneratorExit, BaseException),
        *(MemoryError, StopIteration, ValueError),
    )
}


@dataclass(frozen=True)
class Early(Saber):
    """A decoder that raises in one of its verbs as soon as that is called."""

    verb: Literal["made", "check", "limit", "start", "canvas", "none"] = "none"
    kind: str = "SystemExit"

    def _perhaps(self, verb: str) -> None:
        if verb == self.verb:
            raise LETHAL[self.kind]("a secret")

    def __post_init__(self) -> None:
        self._perhaps("made")

    def check(self, length: int) -> None:
        self._perhaps("check")
        super().check(length)

    def limit(self, length: int) -> int:
        self._perhaps("limit")
        return super().limit(length)

    def start(self, *arguments: Any) -> Any:
        self._perhaps("start")
        return super().start(*arguments)

    def canvas(self, state: Any) -> Any:
        self._perhaps("canvas")
        return super().canvas(state)


@dataclass(frozen=True)
class Making(Saber):
    """A decoder that cannot be made."""

    def __post_init__(self) -> None:
        raise SystemExit


class EarlyCache(Archer):
    """A policy that raises while its notes are laid out."""

    kind = "SystemExit"

    def start(self, canvas: Any) -> Any:
        raise LETHAL[self.kind]


@contextmanager
def brought() -> Iterator[None]:
    """The decoders have names meanwhile."""
    DECODERS.bring("early", Early)
    DECODERS.bring("making", Making)
    try:
        yield
    finally:
        DECODERS.forget()
