"""Runs a FunctionCheck: the test asks, the program answers, the judge stands between them.

The judge passes questions and answers on unread. It knows from its own books whether a question is
open, and believes the test's process alone about the result.
"""

import time
from dataclasses import replace
from typing import Final

from archer.judge.checks import FunctionCheck, Limits, Outcome, Verdict
from archer.judge.inside import wire
from archer.judge.program_run import Bench, ProgramRun, VerdictReached, ended_early, send_program

FIRST_ANSWER: Final = 2  # the one before says that the program is loaded
TEST_OUTCOMES: dict[str, Outcome] = {
    "pass": "pass",
    "fail": "fail",
    "harness_error": "harness_error",
}


class FunctionRun:
    """One run of one check. Raises ZygoteLost or ChildUnfit when the harness itself fails.

    `started_at` and `answered_at` are moments of `time.monotonic`: when the sandboxes stood ready, and
    when the program had answered for the first time after it was loaded (None: it never did).
    """

    def __init__(self, bench: Bench, check: FunctionCheck, limits: Limits) -> None:
        self._tests = bench.tests
        self._limits = limits
        bench.programs.prepare()
        self._orders = _orders(check, limits)
        self._tester = bench.tests.take()
        self._program = ProgramRun(bench.programs, limits, limits.output_bytes)
        self.started_at = self._program.watch.started
        self.answered_at: float | None = None
        self._open_questions = 1
        self._answers = 0
        self._calls = 0

    def verdict(self) -> Verdict:
        program, watch = self._program, self._program.watch
        try:
            self._start()
            program.observe()
            watch.channel(program.child.channel, self._from_program)
            watch.channel(self._tester.channel, self._from_test)
            watch.readable(self._tests.control.fileno(), self._tests.hear)
            while program.step():
                pass
            found = self._out_of_time()
        except VerdictReached as finished:
            found = finished.verdict
        finally:
            seconds = watch.seconds()
            program.close()
            self._tests.release(self._tester)
            program.zygote.replenish()
            self._tests.replenish()
        return replace(found, seconds=seconds, calls=self._calls, flooded=program.flooded)

    def _start(self) -> None:
        test, load = self._orders
        try:
            self._tester.channel.send(wire.TEST, test)
        except wire.WireError as error:
            raise VerdictReached("harness_error", f"The test is {error}.") from None
        send_program(self._program.child, load)
        self._program.child.close_stdin()

    def _from_program(self) -> None:
        channel = self._program.child.channel
        try:
            for kind, body in channel.frames():
                if kind != wire.ANSWER or not self._open_questions:
                    raise VerdictReached(
                        "fail", "The program sent what nobody had asked for.", True
                    )
                self._open_questions -= 1
                self._answers += 1
                if self._answers == FIRST_ANSWER:
                    self.answered_at = time.monotonic()
                self._tester.channel.send(wire.ANSWER, body)
        except wire.WireError as error:
            raise VerdictReached("fail", f"The program sent {error}.", True) from None
        if channel.ended:
            raise self._program.ended()

    def _from_test(self) -> None:
        channel = self._tester.channel
        for kind, body in channel.frames():
            if kind == wire.VERDICT:
                raise self._test_finished(body)
            self._open_questions += 1
            self._calls += kind == wire.CALL
            self._program.child.channel.send(kind, body)
        if channel.ended:
            raise self._test_ended()

    def _test_finished(self, body: bytes) -> VerdictReached:
        try:
            report = wire.loads(body)
            outcome = TEST_OUTCOMES[report["outcome"]]
            reason, broken = str(report["reason"]), bool(report["broken"])
        except (wire.WireError, KeyError, TypeError):
            return VerdictReached("harness_error", "The process that ran the test sent no verdict.")
        if outcome == "pass" and self._calls == 0:
            return VerdictReached(
                "harness_error",
                "The test ended without a single call of the program; check its entry point.",
            )
        if outcome == "pass":
            self._from_program_nothing()
        return VerdictReached(outcome, reason, broken)

    def _from_program_nothing(self) -> None:
        """A message that is still under way now was sent without a question."""
        channel = self._program.child.channel
        try:
            unasked = any(True for _ in channel.frames())
        except wire.WireError:
            unasked = True
        if unasked:
            raise VerdictReached("fail", "The program sent what nobody had asked for.", True)

    def _test_ended(self) -> VerdictReached:
        self._tester.kill()
        code = self._tests.wait_for_exit(self._tester)
        lived = self._tester.lived(self._program.watch.seconds())
        early = ended_early(code, self._limits, "The test, given the program's answers,", lived)
        if early.verdict.outcome == "timeout":
            return early
        return VerdictReached("harness_error", "The process that ran the test ended unexpectedly.")

    def _out_of_time(self) -> Verdict:
        seconds = f"{self._limits.wall_seconds:g} s"
        if self._answers == 0:
            return Verdict("timeout", f"The program was not loaded within {seconds}.")
        if self._open_questions:
            return Verdict("timeout", f"Call {self._calls} was not answered within {seconds}.")
        return Verdict("timeout", f"The test was not finished within {seconds}.")


def _orders(check: FunctionCheck, limits: Limits) -> tuple[bytes, bytes]:
    """What the processes of test and program are told, encoded before any clock runs."""
    common = {"cpu_seconds": limits.cpu_seconds, "memory_bytes": limits.memory_bytes}
    test = {
        "test": check.test,
        "entry_point": check.entry_point,
        "expose": None if check.expose is None else list(check.expose),
        **common,
    }
    load = {"script": False, "source": check.program, **common}
    return wire.dumps(test), wire.dumps(load)
