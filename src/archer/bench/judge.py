"""How fast the judge is on this machine. Measures only; decides nothing."""

import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from archer.bench.facts import Result
from archer.errors import BadRequest
from archer.judge.check_runs import FunctionRun
from archer.judge.checks import FunctionCheck, Limits, Verdict
from archer.judge.judge import Judge
from archer.judge.program_run import Bench
from archer.judge.tiers import open_bench
from archer.machine.description import describe
from archer.pages.tables import Field, Table, table_of

TITLES: Final = {
    "first": "first answer",
    "first_verdict": "first verdict",
    "warm": "warm answer",
    "warm_verdict": "warm verdict",
    "warm_check": "warm check",
}
CHECK: Final = FunctionCheck("def add(a, b):\n    return a + b\n", "add", "assert add(1, 2) == 3\n")
LIMITS: Final = Limits()
WARM_UP: Final = 5
PAUSE: Final = 0.02  # for the kernel to clear away what has ended


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds of repeated measurements."""

    best: float
    median: float
    ninth_decile: float

    @classmethod
    def of(cls, seconds: list[float]) -> "Spread":
        """The spread of some durations, at least two."""
        deciles = statistics.quantiles(seconds, n=10, method="inclusive")
        figures = (min(seconds), statistics.median(seconds), deciles[-1])
        return cls(*(round(1000 * each, 3) for each in figures))


@dataclass(frozen=True, slots=True)
class Speed:
    """What `measure` found.

    Of the `times`, `first` is the one to a program's first answer where no sandbox was waiting: two
    are forked and confined, the program is loaded and called. `warm` is the same from handing the
    program to a waiting sandbox. `first_verdict` and `warm_verdict` go on until the verdict stands;
    `warm_check` adds what comes before and after, the order of the next sandboxes included.
    `per_second` is programs graded with every core at work.
    """

    tier: str
    times: dict[str, Spread]
    per_second: float
    samples: int
    programs: int
    machine: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a result file."""
        facts = asdict(self)
        return {"bench": "judge", **facts.pop("times"), **facts}


def measure(samples: int, programs: int) -> Speed:
    """Times single checks `samples` times each way, interleaved, and then `programs` at full speed."""
    if samples < 2 or programs < 1:
        raise BadRequest(
            f"Measuring takes at least 2 samples and 1 program, not {samples} and {programs}."
        )
    machine = describe()
    workshop, bench = open_bench(None, False, ())
    try:
        single = _single(bench, samples)
    finally:
        bench.close()
    rate = _rate(programs)
    return Speed(workshop.tier, single, rate, samples, programs, machine)


def _single(bench: Bench, samples: int) -> dict[str, Spread]:
    rows = [_pair(bench) for _ in range(WARM_UP + samples)][WARM_UP:]
    return {name: Spread.of([row[name] for row in rows]) for name in rows[0]}


def _pair(bench: Bench) -> dict[str, float]:
    """Seconds of a check without and of one with waiting sandboxes, as `Speed` names them."""
    for zygote in (bench.programs, bench.tests):
        zygote.empty()
    time.sleep(PAUSE)
    cold = _timed(bench)
    for zygote in (bench.programs, bench.tests):
        zygote.settle()
    warm = _timed(bench)
    waited = cold.handed_over
    return {
        "first": waited + cold.answer,
        "first_verdict": waited + cold.verdict,
        "warm": warm.answer,
        "warm_verdict": warm.verdict,
        "warm_check": warm.whole,
    }


class _Timed(NamedTuple):
    """Seconds of one check: until the sandboxes stood ready, from there on, and altogether."""

    handed_over: float
    answer: float
    verdict: float
    whole: float


def _timed(bench: Bench) -> _Timed:
    started = time.monotonic()
    run = FunctionRun(bench, CHECK, LIMITS)
    verdict = run.verdict()
    whole = time.monotonic() - started
    _must_pass(verdict)
    assert run.answered_at is not None
    answer = run.answered_at - run.started_at
    return _Timed(run.started_at - started, answer, verdict.seconds, whole)


def _rate(programs: int) -> float:
    with Judge(LIMITS) as judge:
        for _, verdict in judge.grade_many([CHECK] * (WARM_UP * judge.workers)):
            _must_pass(verdict)
        started = time.perf_counter()
        for _, verdict in judge.grade_many([CHECK] * programs):
            _must_pass(verdict)
        return round(programs / (time.perf_counter() - started), 1)


def _must_pass(verdict: Verdict) -> None:
    if verdict.outcome != "pass":
        outcome = f"{verdict.outcome}: {verdict.reason}"
        raise BadRequest(f"The judge cannot be measured here: an honest program got {outcome}.")


def table(result: Result) -> Table:
    rows = [{"title": title, **result[name]} for name, title in TITLES.items()]
    heads = {"title": "ms", "best": "best", "median": "median", "ninth_decile": "90 %"}
    rate = f"All cores together judge {result['per_second']:.1f} programs a second."
    return table_of("Judging", [Field(key, head) for key, head in heads.items()], rows, (rate,))
