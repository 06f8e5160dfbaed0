"""`archer bench profile`: where the time of one update goes."""

from __future__ import annotations

import os

from archer.cli.bench.options import SubjectOptions, facts
from archer.cli.bench.tables import Table, write_machine
from archer.cli.output import write_json, write_line
from archer.cli.whole import Whole

DEFAULT_SUBJECT = SubjectOptions()
DEFAULT_SHAPE = "llada-8b"
QUIET = "6"
"""From this level on torch's profiler does not announce on stderr that it starts and stops."""


def profile(
    *,
    subject: SubjectOptions = DEFAULT_SUBJECT,
    prompt: Whole = 512,
    response: Whole = 256,
    repeats: Whole = 3,
    json: bool = False,
) -> int:
    """Split the time of a full and of a cached update by kind of work.

    Parameters
    ----------
    prompt
        Tokens of the prompt.
    response
        Tokens of the response.
    repeats
        Rounds that are measured, after one that is not.
    json
        Print one JSON object instead of a table.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", QUIET)
    from archer.bench.profiling import shares
    from archer.bench.repeating import check_counts

    check_counts(repeats=repeats)
    opened = subject.open(DEFAULT_SHAPE, prompt, response)
    told = facts("profile", opened, prompt=prompt, response=response, repeats=repeats)
    rows = shares(opened, prompt, response, repeats)
    if json:
        write_json(told | {"rows": [row.as_dict() for row in rows]})
        return 0
    write_machine(told["machine"])
    write_line(f"{opened.name}, {told['layers']} of {opened.depth} layers, prompt {prompt}")
    for row in rows:
        write_line("")
        table = Table((row.step, "ms", "share"), first=max(map(len, row.kinds_ms)))
        for kind, spent in row.kinds_ms.items():
            table.row(kind, spent, spent / row.total_ms)
    return 0
