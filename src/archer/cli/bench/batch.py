"""`archer bench batch`: tokens per second by rows decoded together."""

from __future__ import annotations

from typing import Any

from archer.cli.bench.options import SubjectOptions
from archer.cli.bench.tables import Table, write_machine
from archer.cli.output import write_json
from archer.errors import BadRequest

DEFAULT_SUBJECT = SubjectOptions()
DEFAULT_SHAPE = "small"
COLUMNS = ("batch", "updates", "seconds", "tokens/s", "gain", "kv MiB", "spread")


def batch(
    *,
    subject: SubjectOptions = DEFAULT_SUBJECT,
    method: str = "archer",
    sizes: str = "1,2,4,8,16",
    prompt: int = 128,
    response: int = 64,
    repeats: int = 3,
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
    from archer.bench.machine import machine
    from archer.bench.repeating import check_repeats, whole_numbers
    from archer.methods import build

    if prompt < 1:
        raise BadRequest(f"--prompt takes a whole number, at least 1, not {prompt}.")
    numbers = whole_numbers(sizes, "--sizes")
    check_repeats(repeats)
    chosen = build(method, {"length": response})
    opened = subject.open(DEFAULT_SHAPE, prompt, response)
    facts: dict[str, Any] = {
        "bench": "batch",
        "shape": opened.name,
        "layers": opened.network.shape.layers,
        "method": chosen.name,
        "prompt": prompt,
        "response": response,
        "repeats": repeats,
        "machine": machine(opened.network.device, opened.network.dtype),
    }
    rows = bench.batch(opened, chosen, numbers, prompt, repeats)
    if json:
        write_json(facts | {"rows": [row.as_dict() for row in rows]})
        return 0
    write_machine(facts["machine"])
    table = Table(COLUMNS)
    for row in rows:
        rates = (row.seconds, row.tokens_per_second, row.gain)
        table.row(row.batch, row.updates, *rates, row.kv_bytes / (1 << 20), row.spread)
    return 0
