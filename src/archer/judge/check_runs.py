"""Runs a check.  Of a FunctionCheck the test asks, the program answers, the judge stands between them.

It passes questions and answers on unread. It knows from its own books whether a question is open, and
believes the test's process alone about the result.  A StdinCheck gets a fresh sandbox with real pipes per
case; the comparison is made here.
"""

import time
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Final

from archer.judge.channel import Feed
from archer.judge.checks import FunctionCheck, Limits, Outcome, StdinCheck, Verdict
from archer.judge.inside import wire
from archer.judge.program_run import Bench, ProgramRun, VerdictReached, ended_early, send_program
from archer.judge.zygote_process import ZygoteProcess

FIRST_ANSWER: Final = 2  # the one before says that the program is loaded
TEST_OUTCOMES: dict[str, Outcome] = {
    "pass": "pass",
    "fail": "fail",
    "harness_error": "harness_error",
}


class FunctionRun:
    """One run of one check, with the moments at which it started and first answered (None: it never did)."""

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
            verdict = self._out_of_time()
        except VerdictReached as finished:
            verdict = finished.verdict
        finally:
            seconds = watch.seconds()
            self._tests.release(self._tester)
            seconds += program.close()
            program.zygote.replenish()
            self._tests.replenish()
        return replace(verdict, seconds=seconds, calls=self._calls, flooded=program.flooded)

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


def run_cases(zygote: ZygoteProcess, check: StdinCheck, limits: Limits) -> Verdict:
    """The verdict over all cases; the first case that does not pass decides."""
    seconds, flooded = 0.0, False
    for number, (text, expected) in enumerate(check.cases, start=1):
        verdict = CaseRun(zygote, check.program, text, expected, limits).verdict()
        seconds, flooded = seconds + verdict.seconds, flooded or verdict.flooded
        if verdict.outcome != "pass":
            reason = f"Case {number} of {len(check.cases)}: {verdict.reason}"
            return replace(verdict, reason=reason, calls=number, seconds=seconds)
    return Verdict("pass", seconds=seconds, calls=len(check.cases), flooded=flooded)


class CaseRun:
    """One run of one program on one input."""

    def __init__(
        self, zygote: ZygoteProcess, source: str, text: str, expected: str, limits: Limits
    ) -> None:
        self._source = source
        self._text = text.encode("utf-8", "surrogateescape")
        self._expected = expected
        self._limits = limits
        self._run = ProgramRun(zygote, limits, limits.output_bytes + 2 * len(expected.encode()))

    def verdict(self) -> Verdict:
        """Runs the program until it ends or its time is over."""
        run = self._run
        try:
            self._start()
            run.observe()
            while run.child.exit_code is None or not (run.stdout.ended and run.stderr.ended):
                if not run.step():
                    limit = f"{self._limits.wall_seconds:g} s"
                    raise VerdictReached("timeout", f"The program did not end within {limit}.")
            verdict = self._compare()
        except VerdictReached as finished:
            verdict = finished.verdict
        finally:
            seconds = run.watch.seconds()
            seconds += run.close()
            run.zygote.replenish()
        return replace(verdict, seconds=seconds, calls=1, flooded=run.flooded)

    def _start(self) -> None:
        run, limits = self._run, self._limits
        order = {
            "script": True,
            "source": self._source,
            "cpu_seconds": limits.cpu_seconds,
            "memory_bytes": limits.memory_bytes,
        }
        feed = Feed(run.child.stdin, self._text)
        run.watch.writable(run.child.stdin, lambda: self._feed(feed))
        run.watch.channel(run.child.channel, self._hang_up)
        send_program(run.child, wire.dumps(order))

    def _feed(self, feed: Feed) -> None:
        if feed.write():
            self._run.watch.forget(feed.descriptor)
            self._run.child.close_stdin()

    def _hang_up(self) -> None:
        """The program's side of the connection is closed before the program starts."""
        channel = self._run.child.channel
        for _ in channel.frames():
            raise VerdictReached("fail", "The program sent what nobody had asked for.", True)
        if channel.ended:
            self._run.watch.forget(channel.connection.fileno())

    def _compare(self) -> Verdict:
        code = self._run.child.exit_code
        assert code is not None
        if code < 0:
            return self._run.ended().verdict
        if code > 0:
            last = self._run.stderr.kept.decode(errors="replace").strip().rpartition("\n")[2]
            return Verdict("fail", f"The program ended with exit code {code}: {last[:200]}")
        printed = self._run.stdout.kept.decode(errors="replace")
        if same_output(printed, self._expected):
            return Verdict("pass")
        return Verdict("fail", "The output differs from the expected one.")


def same_output(printed: str, expected: str) -> bool:
    """LiveCodeBench's rule: stripped lines, equal as text or, word by word, as decimals."""
    lines, others = _lines(printed), _lines(expected)
    return len(lines) == len(others) and all(map(_same_line, lines, others))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(line: str, other: str) -> bool:
    if line == other:
        return True
    try:
        return [Decimal(w) for w in line.split()] == [Decimal(w) for w in other.split()]
    except InvalidOperation:
        return False
