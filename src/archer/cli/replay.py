"""`archer replay`: recorded trajectories against what this version does."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from archer.cli.numbers import Whole
from archer.cli.options import use_threads
from archer.cli.output import Json, emit, write_line

if TYPE_CHECKING:
    from archer.checks.replay import Case, Mismatch

DIFFERENT = 1


def replay(
    *traces: Path,
    checkpoints: Path,
    json: Json = False,
    skip_unsupported: bool = False,
    threads: Whole = 1,
) -> int:
    """Re-run recorded trajectories in float32, as they were recorded, and compare every recorded field.

    They are of plain weights; there is no replay in eight bits, whose texts differ.

    Args:
        traces: Trace files, or folders with *.jsonl files.
        checkpoints: Folder that holds the checkpoints under the names the traces give.
        skip_unsupported: Leave out traces of methods that Archer does not have.
        threads: CPU threads; recorded checkpoints are tiny, and more than one thread slows them down.
    """
    from archer.checks import replay as recorded

    use_threads(threads)
    report = recorded.ReplayReport()
    cases = recorded.read_cases(traces)
    for case, mismatches in recorded.replay(cases, checkpoints, skip_unsupported=skip_unsupported):
        report.count(mismatches)
        if not json:
            _show(case, mismatches)
    sentence = f"{report.identical} of {report.total} identical"
    emit(asdict(report), lambda: write_line(sentence), json=json)
    return 0 if report.identical == report.total else DIFFERENT


def _show(case: Case, mismatches: list[Mismatch] | None) -> None:
    if mismatches is None:
        write_line(f"{case.id}: the method {case.method!r} is not supported")
    for each in mismatches or ():
        where = "" if each.update is None else f" differs first at update {each.update}"
        write_line(f"{each.id}: {each.field}{where or ' differs'}")
