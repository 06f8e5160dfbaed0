"""`archer bench passes`: how long turns of the engine take, for `archer plan --measured`."""

from __future__ import annotations

from archer.cli.bench.tables import Table, write_machine
from archer.cli.options import ModelOptions
from archer.cli.output import write_json, write_line
from archer.cli.whole import Whole
from archer.errors import BadRequest

DEFAULT_MODEL = ModelOptions()
COLUMNS = ("rows", "turns", "columns", "keys", "ms", "fitted ms", "error")


def passes(
    *,
    model: ModelOptions = DEFAULT_MODEL,
    mixes: Whole = 24,
    rows: str = "1,2,3,4,6,8",
    prompts: str = "40,400",
    lengths: str = "32,64,96,128",
    repeats: Whole = 3,
    seed: Whole = 0,
    json: bool = False,
) -> int:
    """Time turns of the engine over random mixes of rows, full and cached, and fit what they cost.

    On one thread of a processor time is what this process computes, so that others do not count.

    Parameters
    ----------
    mixes
        How many mixes are drawn.
    rows
        Requests in a mix, in turn.
    prompts
        Shortest and longest prompt, in tokens.
    lengths
        Response lengths to draw from.
    repeats
        Turns of a mix that are timed, after one that is not.
    seed
        Chooses the mixes.
    json
        Print one JSON object, for archer plan --measured, instead of a table.
    """
    from archer.bench.passes import Mixes
    from archer.bench.passes import passes as measure
    from archer.bench.repeating import check_counts, whole_numbers
    from archer.costs.pass_times import MOST_COSTS, Fitted
    from archer.machine.description import describe_torch

    check_counts(mixes=mixes, repeats=repeats)
    if mixes < MOST_COSTS:
        raise BadRequest(f"--mixes takes at least {MOST_COSTS}, one for each cost, not {mixes}.")
    bounds = whole_numbers(prompts, "--prompts")
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise BadRequest(
            f"--prompts takes the shortest and the longest, as in 40,400, not {prompts!r}."
        )
    drawn = Mixes(
        mixes,
        whole_numbers(rows, "--rows"),
        (bounds[0], bounds[1]),
        whole_numbers(lengths, "--lengths"),
        repeats,
        seed,
    )
    loaded = model.load()
    where = describe_torch(loaded.network.device, loaded.network.dtype)
    timed = measure(loaded, drawn)
    fitted = Fitted.to(timed)
    if json:
        write_json(
            {
                "bench": "passes",
                "model": loaded.name,
                "seed": seed,
                "machine": where,
                "fitted": fitted.as_dict(),
                "timed": [each.as_dict() for each in timed],
            }
        )
        return 0
    write_machine(where)
    table = Table(COLUMNS)
    for count in sorted({len(each.shares) for each in timed}):
        same = [each for each in timed if len(each.shares) == count]
        seconds = sum(each.seconds for each in same) / len(same)
        guessed = sum(fitted.seconds(each.shares) for each in same) / len(same)
        columns = sum(share.columns for each in same for share in each.shares) // len(same)
        keys = sum(share.keys for each in same for share in each.shares) // len(same)
        table.row(
            count, len(same), columns, keys, 1e3 * seconds, 1e3 * guessed, guessed / seconds - 1
        )
    write_line("")
    for name, seconds in fitted.as_dict().items():
        told = f"{100 * seconds:.1f} %" if name == "error" else f"{1e6 * seconds:.3f} us"
        write_line(f"{name.replace('_', ' '):<12} {told}")
    return 0
