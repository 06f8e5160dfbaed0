"""Running programs of unknown origin so that none can fake a pass or hurt the machine.

    with Judge(Limits(cpu_seconds=3, wall_seconds=6)) as judge:
        verdict = judge.grade(FunctionCheck(program, "add", "assert add(1, 2) == 3"))

Independent of models, decoders and tasks. `docs/judge.md` explains the design.
"""

from archer.judge.checks import (
    Check,
    FunctionCheck,
    Integrity,
    Limits,
    NoSandbox,
    Outcome,
    StdinCheck,
    Tier,
    Verdict,
)
from archer.judge.judge import Judge, describe_tier

__all__ = [
    "Check",
    "FunctionCheck",
    "Integrity",
    "Judge",
    "Limits",
    "NoSandbox",
    "Outcome",
    "StdinCheck",
    "Tier",
    "Verdict",
    "describe_tier",
]
