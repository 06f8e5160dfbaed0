"""`archer bench batch`: tokens per second by rows decoded together."""

from __future__ import annotations

from archer.cli.bench.options import SubjectOptions, facts
from archer.cli.bench.tables import Table, write_machine
from archer.cli.output import write_json
from archer.cli.whole import Whole

DEFAULT_SUBJECT = SubjectOptions()
DEFAULT_SHAPE = "small"
COLUMNS = ("batch", "updates", "seconds", "tokens/s", "gain", "kv MiB", "spread")


def batch(
    *,
    subject: SubjectOptions = DEFAULT_SUBJECT,
    method: str = "archer",
    sizes: str = "1,2,4,8,16",
    prompt: Whole = 128,
    response: Whole = 64,
    repeats: Whole = 3,
    json: bool = False,
) -> int:
    """Decode one prompt once, twice, ... in the same batch: equal work per row.

    Parameters
    ----------
    method
        A name, or decoder+cache such as saber+age:4.
    sizes
        Rows per batch, with commas between them.
    prompt
        Tokens of the prompt.
    response
        Tokens of the response.
    repeats
        Rounds that are measured, after one that is not.
    json
        Print one JSON object instead of a table.
    """
    from archer.bench import batch as bench
    from archer.bench.repeating import check_counts, whole_numbers
    from archer.methods.build import build

    numbers = whole_numbers(sizes, "--sizes")
    check_counts(repeats=repeats)
    chosen = build(method, {"length": response})
    opened = subject.open(DEFAULT_SHAPE, prompt, response)
    asked = {"method": chosen.name, "prompt": prompt, "response": response, "repeats": repeats}
    told = facts("batch", opened, **asked)
    rows = bench.batch(opened, chosen, numbers, prompt, repeats)
    if json:
        write_json(told | {"rows": [row.as_dict() for row in rows]})
        return 0
    write_machine(told["machine"])
    table = Table(COLUMNS)
    for row in rows:
        rates = (row.seconds, row.tokens_per_second, row.gain)
        table.row(row.batch, row.updates, *rates, row.kv_bytes / (1 << 20), row.spread)
    return 0
