"""What goes into the judge and what comes out: plain, frozen data that result files can hold."""

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from archer.errors import ArcherError, BadRequest

MIB = 1 << 20

Outcome = Literal["pass", "fail", "timeout", "crash", "harness_error"]
Integrity = Literal["isolated", "violated"]
Tier = Literal["A", "B", "F"]


class NoSandbox(ArcherError):
    """No way to confine programs works on this machine, or one that should work does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one program may use. A check may carry its own, otherwise the judge's hold.

    cpu_seconds is rounded up to whole seconds, because the kernel counts so. wall_seconds covers the
    whole check (for a StdinCheck: each case). output_bytes is kept of each output stream; the rest
    is read and thrown away, and the verdict is marked as flooded.
    """

    cpu_seconds: float = 10.0
    wall_seconds: float = 20.0
    memory_bytes: int = 512 * MIB
    output_bytes: int = 64 * 1024

    def __post_init__(self) -> None:
        for name in ("cpu_seconds", "wall_seconds", "memory_bytes", "output_bytes"):
            value = getattr(self, name)
            if not isfinite(value) or value <= 0:
                raise BadRequest(f"The limit {name} must be a number above 0, not {value!r}.")
        if self.memory_bytes < 64 * MIB:
            raise BadRequest(
                f"The limit memory_bytes is {self.memory_bytes}, but Python itself needs 64 MiB."
            )


@dataclass(frozen=True, slots=True)
class FunctionCheck:
    """A program whose functions are called by a test (HumanEval, MBPP, LiveCodeBench functional).

    `test` is Python source. It either defines `check(candidate)`, which is then called with the
    entry point, or it consists of statements that call the program's functions by name. It runs away
    from the program: every name that it uses and does not define is a stub for the program's
    function or class of that name, or the standard module that the program imported by that name.

    `expose` narrows this to the entry point and the names given; a test with `check` then gets the
    entry point by that call alone. Use it, and put helpers that the test relies on into `test`,
    wherever a program could otherwise replace such a helper.
    """

    program: str
    entry_point: str
    test: str
    expose: tuple[str, ...] | None = None
    limits: Limits | None = None

    def __post_init__(self) -> None:
        for name in (self.entry_point, *(self.expose or ())):
            if not name.isidentifier():
                raise BadRequest(f"A check exposes {name!r}, which is not a Python name.")


@dataclass(frozen=True, slots=True)
class StdinCheck:
    """A program run once per case (input, expected output), compared as LiveCodeBench does."""

    program: str
    cases: tuple[tuple[str, str], ...]
    limits: Limits | None = None

    def __post_init__(self) -> None:
        if not self.cases:
            raise BadRequest("A StdinCheck without cases proves nothing; give at least one case.")


Check = FunctionCheck | StdinCheck


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge found.

    outcome     pass           the test saw only right answers
                fail           a wrong answer or an exception
                timeout        over the CPU or wall limit, twice, the second time alone
                crash          the program's process ended before it had answered
                harness_error  the judge failed, not the program: never count it as a wrong answer
    reason      one sentence for people; empty for a pass
    seconds     wall time of the run that decided
    calls       calls that reached the program (cases run, for a StdinCheck)
    flooded     the program wrote more than output_bytes to a stream
    integrity   "violated" if the program sent anything but well-formed answers to questions
    """

    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0
    calls: int = 0
    flooded: bool = False
    integrity: Integrity = "isolated"
