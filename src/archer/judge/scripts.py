"""Runs a StdinCheck: a fresh sandbox per case, real pipes, the comparison here in the judge."""

from dataclasses import replace
from decimal import Decimal, InvalidOperation

from archer.judge.channel import Feed
from archer.judge.checks import Limits, StdinCheck, Verdict
from archer.judge.inside import wire
from archer.judge.program_run import ProgramRun, VerdictReached, send_program
from archer.judge.zygote_process import ZygoteProcess


def run_cases(zygote: ZygoteProcess, check: StdinCheck, limits: Limits) -> Verdict:
    """The verdict over all cases; the first case that does not pass decides."""
    seconds, flooded = 0.0, False
    for number, (text, expected) in enumerate(check.cases, start=1):
        found = CaseRun(zygote, check.program, text, expected, limits).verdict()
        seconds, flooded = seconds + found.seconds, flooded or found.flooded
        if found.outcome != "pass":
            reason = f"Case {number} of {len(check.cases)}: {found.reason}"
            return replace(found, reason=reason, calls=number, seconds=seconds)
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
            found = self._compare()
        except VerdictReached as finished:
            found = finished.verdict
        finally:
            seconds = run.watch.seconds()
            run.close()
            run.zygote.replenish()
        return replace(found, seconds=seconds, calls=1, flooded=run.flooded)

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
    found, wanted = _lines(printed), _lines(expected)
    return len(found) == len(wanted) and all(map(_same_line, found, wanted))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(found: str, wanted: str) -> bool:
    if found == wanted:
        return True
    try:
        return [Decimal(w) for w in found.split()] == [Decimal(w) for w in wanted.split()]
    except InvalidOperation:
        return False
