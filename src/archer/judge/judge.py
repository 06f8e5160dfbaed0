"""The judge: grades programs of unknown origin, several at a time, and leaves nothing behind."""

import contextlib
import platform
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from typing import Any, Final

from archer.errors import BadRequest
from archer.judge.check_runs import FunctionRun, run_cases
from archer.judge.checks import Check, FunctionCheck, Limits, NoSandbox, Tier, Verdict
from archer.judge.inside import wire
from archer.judge.pool import Pool
from archer.judge.program_run import Bench
from archer.judge.sandbox_plan import OPEN_FILES, TEMPORARY_BYTES, TEMPORARY_FILES, THREADS
from archer.judge.selftest import self_test
from archer.judge.tiers import Workshop, layers_in_words, open_bench
from archer.judge.zygote_process import ChildUnfit, ZygoteLost
from archer.machine.description import usable_cores

NOT_OPEN: Final = "The judge is not open; use it in a with statement."
AHEAD: Final = 2  # checks taken from the caller per worker before results are handed back


class Judge:
    """Grades checks in sandboxes. A context manager: entering picks the tier and tests it.

    `workers` programs run at a time (default: one per usable core). `packages` are installed
    packages that programs may import besides the standard library. `tier` forces a tier.
    NoSandbox when nothing confines programs here, unless `unsafe_no_sandbox` is given.
    Safe to use from several threads.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        workers: int | None = None,
        tier: Tier | None = None,
        unsafe_no_sandbox: bool = False,
        packages: tuple[str, ...] = (),
    ) -> None:
        if workers is not None and workers < 1:
            raise BadRequest(f"A judge needs at least one worker, not {workers}.")
        self.limits = limits or Limits()
        self.workers = workers or usable_cores()
        self._tier = tier
        self._unsafe = unsafe_no_sandbox
        self._packages = packages
        self._workshop: Workshop | None = None
        self._benches: Pool[Bench] | None = None
        self._crowd = Crowd()

    def __enter__(self) -> "Judge":
        workshop, bench = open_bench(self._tier, self._unsafe, self._packages)
        self._workshop, self._benches = workshop, Pool(self.workers, bench, workshop.bench)
        try:
            self_test(self._grade_once, workshop.tier, workshop.most_threads)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits for running checks, then ends every process and removes every folder."""
        self._workshop = None
        benches, self._benches = self._benches, None
        if benches is not None:
            benches.close()

    def grade(self, check: Check, *, again: bool = True) -> Verdict:
        """The verdict on one check; a timeout is run `again`, alone, unless its author has had that."""
        with self._crowd.shared():
            verdict = self._grade_once(check)
        if verdict.outcome == "timeout" and again:
            with self._crowd.alone():
                verdict = self._grade_once(check)
        return verdict

    def grade_many(self, checks: Iterable[Check]) -> Iterator[tuple[int, Verdict]]:
        """(position, verdict) of each check, in the order in which they get done."""
        waiting = iter(enumerate(checks))
        with ThreadPoolExecutor(self.workers, thread_name_prefix="archer-judge") as pool:
            running: dict[Future[Verdict], int] = {}
            try:
                while True:
                    for position, check in waiting:
                        running[pool.submit(self.grade, check)] = position
                        if len(running) >= AHEAD * self.workers:
                            break
                    if not running:
                        return
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield running.pop(future), future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    @property
    def tier(self) -> Tier:
        return self._opened().tier

    def description(self) -> dict[str, Any]:
        """Tier, layers and limits as plain data for a result file."""
        workshop = self._opened()
        return {
            "tier": workshop.tier,
            "layers": layers_in_words(workshop.plan),
            "limits": asdict(self.limits),
            "fixed_limits": {
                "threads": THREADS,
                "tasks_of_the_user": workshop.most_threads,
                "open_files": OPEN_FILES,
                "temporary_bytes": TEMPORARY_BYTES,
                "temporary_files": TEMPORARY_FILES,
                "message_bytes": wire.MESSAGE_BYTES,
                "depth": wire.DEPTH,
            },
            "packages": list(self._packages),
            "workers": self.workers,
            "python": platform.python_version(),
            "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        }

    def _opened(self) -> Workshop:
        if self._workshop is None:
            raise BadRequest(NOT_OPEN)
        return self._workshop

    def _grade_once(self, check: Check) -> Verdict:
        benches = self._benches
        if benches is None:
            raise BadRequest(NOT_OPEN)
        try:
            with benches.member() as bench:
                return _run(bench, check, check.limits or self.limits)
        except (ZygoteLost, ChildUnfit, NoSandbox, OSError) as error:
            return Verdict("harness_error", str(error))


def _run(bench: Bench, check: Check, limits: Limits) -> Verdict:
    if isinstance(check, FunctionCheck):
        return FunctionRun(bench, check, limits).verdict()
    return run_cases(bench.programs, check, limits)


class Crowd:
    """Lets many run side by side, or one alone; who wants to be alone is let in first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._loners = 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Runs beside others, as soon as nobody runs or waits to run alone."""
        with self._changed:
            self._changed.wait_for(lambda: self._loners == 0)
            self._inside += 1
        try:
            yield
        finally:
            self._leave()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Runs while nobody else does."""
        with self._changed:
            self._loners += 1
            self._changed.wait_for(lambda: self._inside == 0)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._loners -= 1
            self._leave()

    def _leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()


def describe_tier() -> str:
    """One line on how programs would be confined here; starts a sandbox to find out, runs none."""
    try:
        workshop, bench = open_bench(None, False, ())
    except NoSandbox as refusal:
        return f"none: {refusal}"
    try:
        return f"{workshop.tier}: {', '.join(layers_in_words(workshop.plan))}"
    finally:
        bench.close()
