"""Looks at texts of unknown origin in a confined process that stays.

Parsing or matching a text runs nothing of it, but can take for ever, fill the memory or overflow the
stack of whoever does it. So that is done elsewhere, and a text that ends the process that looks at it
gets the verdict for that; the next text finds a new process.
"""

import hashlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self

from archer.judge.channel import Watch
from archer.judge.checks import MIB, Limits, NoSandbox, Outcome, Tier, Verdict
from archer.judge.inside import wire
from archer.judge.pool import Pool
from archer.judge.program_run import ended_early
from archer.judge.tiers import Workshop, open_workshop
from archer.judge.zygote_process import Child, ChildUnfit, ZygoteLost, ZygoteProcess

SECONDS: Final = 3.0
MEMORY_BYTES: Final = 512 * MIB
LONG: Final = 0.1
"""Seconds; what takes less may be looked at again."""
MOST_KEPT: Final = 1 << 24
"""Characters of findings that are remembered."""
PRELOAD: Final = ("ast", "dataclasses", "json", "re", "textwrap", "warnings")
TRY: Final[tuple[Tier, ...]] = ("A", "B", "F")
"""Where nothing confines, the limits alone must do: nothing of a text is ever run."""


class Unreadable(Exception):
    """A text cannot be looked at within the limits. `verdict` is what that means for it."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.verdict = Verdict(outcome, reason)


@dataclass(frozen=True, slots=True)
class KnownResult:
    """What a look found; where it found no end, the verdict on that is known instead."""

    value: Any


class ReadCache:
    """What came of looks that took long, by digest; the oldest of what is large goes first."""

    def __init__(self) -> None:
        self._looks: dict[bytes, KnownResult | Verdict] = {}
        self._sizes: dict[bytes, int] = {}
        self._guard = threading.Lock()

    def get(self, key: bytes) -> KnownResult | Verdict | None:
        with self._guard:
            return self._looks.get(key)

    def keep(self, key: bytes, look: KnownResult | Verdict) -> None:
        with self._guard:
            self._looks[key] = look
            if isinstance(look, KnownResult):
                self._sizes[key] = len(str(look.value))
            while sum(self._sizes.values()) > MOST_KEPT:
                oldest = next(iter(self._sizes))
                del self._sizes[oldest], self._looks[oldest]


def _digest(operation: str, text: str, facts: Mapping[str, Any]) -> bytes:
    question = wire.dumps({"operation": operation, "text": text, "facts": facts})
    return hashlib.sha256(question).digest()


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What readers can do, and how much they may use for it.

    `modules` are sources by name, in the order in which they are loaded; one of them, `operations`,
    holds the table. They may use the standard library, each other by relative import, and
    `packages`; `preload` is imported ahead. `versions` are those of distributions that packages ask for.
    """

    modules: Mapping[str, str]
    packages: tuple[str, ...] = ()
    preload: tuple[str, ...] = PRELOAD
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = SECONDS
    memory_bytes: int = MEMORY_BYTES


class Readers:
    """Readers for `count` texts at a time, each started when first needed. Safe between threads."""

    def __init__(self, reading: Reading, count: int, tier: Tier | None = None) -> None:
        self._reading = reading
        self._candidates: tuple[Tier, ...] = TRY if tier is None else (tier,)
        self._workshop: Workshop | None = None
        self._readers: Pool[_Reader] | None = None
        self._count = count
        self._known = ReadCache()

    def __enter__(self) -> Self:
        workshop, first = open_workshop(self._candidates, self._reading.packages, self._start)
        start = partial(self._start, workshop)
        self._readers = Pool(self._count, first, start, harmless=(Unreadable,))
        self._workshop = workshop
        return self

    def __exit__(self, *_: object) -> None:
        assert self._readers is not None
        self._readers.close()

    @property
    def tier(self) -> Tier:
        assert self._workshop is not None
        return self._workshop.tier

    def read(self, operation: str, text: str, /, **facts: Any) -> Any:
        """What an operation finds in a text, asked twice; else Unreadable. What took long is remembered."""
        key = _digest(operation, text, facts)
        known = self._known.get(key)
        if isinstance(known, Verdict):
            raise Unreadable(known.outcome, known.reason)
        if known is not None:
            return known.value
        started = time.monotonic()
        try:
            reading = self._read_twice(operation, text, facts)
        except Unreadable as fault:
            if fault.verdict.outcome != "harness_error":
                self._known.keep(key, fault.verdict)
            raise
        if time.monotonic() - started > LONG:
            self._known.keep(key, KnownResult(reading))
        return reading

    def _read_twice(self, operation: str, text: str, facts: Mapping[str, Any]) -> Any:
        try:
            return self._read_once(operation, text, facts)
        except Unreadable as fault:
            if fault.verdict.outcome not in ("timeout", "harness_error"):
                raise
        return self._read_once(operation, text, facts)

    def _read_once(self, operation: str, text: str, facts: Mapping[str, Any]) -> Any:
        assert self._readers is not None
        try:
            with self._readers.member() as reader:
                return reader.ask({"operation": operation, "text": text, "facts": facts})
        except (ZygoteLost, ChildUnfit, NoSandbox, OSError) as error:
            raise Unreadable("harness_error", str(error)) from None

    def _start(self, workshop: Workshop) -> "_Reader":
        reading = self._reading
        changes = {"preload": list(reading.preload), "versions": dict(reading.versions)}
        return _Reader(workshop.zygote("reader", reading.modules, changes), reading)


class _Reader:
    """A zygote and the one of its children that looks at texts now."""

    def __init__(self, zygote: ZygoteProcess, reading: Reading) -> None:
        self._zygote = zygote
        self._reading = reading
        self._child: Child | None = None

    def ask(self, request: Mapping[str, Any]) -> Any:
        question = wire.dumps(request)
        if len(question) > wire.MESSAGE_BYTES:
            size, cap = len(question), wire.MESSAGE_BYTES
            raise Unreadable("fail", f"The completion takes {size} bytes, over the cap of {cap}.")
        reply = self._exchange(question)
        if "error" in reply:
            self._dismiss()
            raise Unreadable("fail", f"The completion cannot be read: {reply['error']}.")
        if reply["worn"]:
            self._dismiss()
        return reply["found"]

    def _exchange(self, question: bytes) -> dict[str, Any]:
        child = self._child = self._child or self._hire()
        replies: list[bytes] = []
        watch = Watch(self._reading.seconds)
        watch.channel(child.channel, lambda: replies.extend(b for _, b in child.channel.frames()))
        watch.readable(self._zygote.control.fileno(), self._zygote.hear)
        child.channel.send(wire.QUESTION, question)
        while not replies and not child.channel.ended:
            if not watch.wait(self._reading.seconds):
                self._dismiss()
                limit = f"{self._reading.seconds:g} s"
                raise Unreadable("timeout", f"The completion could not be read within {limit}.")
        if replies:
            reply: dict[str, Any] = wire.loads(replies[0])
            return reply
        code = self._zygote.wait_for_exit(child)
        self._dismiss()
        early = ended_early(code, Limits(), "The process that read the completion", 0.0)
        raise Unreadable(early.verdict.outcome, early.verdict.reason)

    def _hire(self) -> Child:
        child = self._zygote.take()
        self._zygote.replenish()
        child.channel.send(wire.LOAD, wire.dumps({"memory_bytes": self._reading.memory_bytes}))
        return child

    def _dismiss(self) -> None:
        if self._child is not None:
            self._zygote.release(self._child)
            self._child = None

    def close(self) -> None:
        self._dismiss()
        self._zygote.close()
