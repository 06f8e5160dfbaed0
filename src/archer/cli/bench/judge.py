"""`archer bench judge`: how fast programs are judged on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from archer.cli.output import write_json, write_line
from archer.cli.whole import Whole

if TYPE_CHECKING:
    from archer.bench.judge import Speed

TITLES: Final = {
    "first": "first answer",
    "first_verdict": "first verdict",
    "warm": "warm answer",
    "warm_verdict": "warm verdict",
    "warm_check": "warm check",
}


def judge(*, samples: Whole = 100, programs: Whole = 300, json: bool = False) -> int:
    """Measure how fast programs are judged.

    Parameters
    ----------
    samples
        Checks timed one by one, with and without a waiting sandbox.
    programs
        Programs graded at full speed, one per core at a time.
    json
        Print one JSON object instead of a table.
    """
    from archer.bench.judge import measure

    speed = measure(samples, programs)
    write_json(speed.as_dict()) if json else _show(speed)
    return 0


def _show(speed: Speed) -> None:
    machine = speed.machine
    write_line(f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']:.2f}")
    write_line(f"{machine['platform']}, Python {machine['python']}, tier {speed.tier}")
    write_line(f"{'ms':<14}{'best':>9}{'median':>9}{'90 %':>9}")
    for name, title in TITLES.items():
        spread = speed.times[name]
        numbers = (spread.best, spread.median, spread.ninth_decile)
        write_line(f"{title:<14}" + "".join(f"{each:>9.2f}" for each in numbers))
    write_line(f"programs/s    {speed.per_second:>9.1f}")
