"""Measured and counted figures as tables for people; the figures themselves come from elsewhere.

A table is its rows, the head first.  What was measured comes in as the objects that `archer bench --json`
prints; a key that is missing there is an error, not an empty cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from archer.bench.step import PAPER, PAPER_SETTING
from archer.costs.counting import count_passes
from archer.costs.roofline import DEVICES, floors
from archer.costs.shapes import shapes
from archer.passes.work import Work, operations

Found = Mapping[str, Any]
Table = list[Sequence[str]]

TERA = 1e12
MEBI = 1 << 20


def setting(found: Found) -> str:
    """What was measured on what, as one line."""
    machine = found["machine"]
    what = [f"`{found.get('shape', found.get('model'))}`"]
    if "layers" in found:
        what.append(f"{found['layers']} layers")
    for name in ("prompt", "response", "method"):
        if name in found:
            what.append(f"{name} {found[name]}")
    if found.get("quantize"):
        what.append(found["quantize"])
    threads = f"{machine['threads']} of {machine['cores']} cores"
    where = (machine["cpu"], threads, machine["device"], machine["dtype"])
    return f"{', '.join(what)}. {', '.join(where)}, torch {machine['torch']}."


def steps(found: Found) -> Table:
    """At the layers that were run."""
    head = ["P", "full ms", "cached ms", "naive ms", "speedup", "limit", "fraction", "limit, naive"]
    head += ["naive / cached", "layers alone", "head", "control", "spread"]
    rows: Table = [head]
    for row in found["rows"]:
        times = [f"{row[name]:.1f}" for name in ("full_ms", "cached_ms", "naive_ms")]
        low, high = fraction_interval(row["fraction"], row["spread"])
        ratios = [f"{row[name]:.2f}" for name in ("speedup", "limit")]
        ratios += [f"{row['fraction']:.2f} [{low:.2f}, {high:.2f}]", f"{row['limit_naive']:.2f}"]
        gains = [f"{row[name]:.3f}" for name in ("naive_gain", "naive_gain_layers")]
        shares = [_percent(row[name]) for name in ("head", "control")]
        spread = _percent(max(row["spread"].values()))
        rows.append([str(row["prompt"]), *times, *ratios, *gains, *shares, spread])
    return rows


def fraction_interval(fraction: float, spread: Mapping[str, float]) -> tuple[float, float]:
    """Of the limit reached, if both times were off by half the width of their middle half."""
    full, cached = spread["full"] / 2, spread["cached"] / 2
    return fraction * (1 - full) / (1 + cached), fraction * (1 + full) / max(1 - cached, 1e-9)


def noise(fractions: Iterable[float]) -> str:
    """What to make of fractions above 1; nothing where there are none."""
    beyond = [each for each in fractions if each > 1]
    if not beyond:
        return ""
    return (
        f"A fraction above 1 (here up to {max(beyond):.2f}) does not mean that less was computed: times are "
        "noisy, and the limit assumes that every operation is equally fast."
    )


def depths(found: Found) -> Table:
    """The same at full depth, beside the paper."""
    rows: Table = [["P", "full ms", "cached ms", "speedup", "limit", "fraction", "the paper"]]
    for row in found["rows"]:
        whole = row["whole"]
        if whole is not None:
            times = [f"{whole[name]:.0f}" for name in ("full_ms", "cached_ms")]
            ratios = [f"{whole[name]:.2f}" for name in ("speedup", "limit", "fraction")]
            paper = "" if whole["paper"] is None else f"{whole['paper']:.2f}"
            rows.append([str(row["prompt"]), *times, *ratios, paper])
    return rows


def libraries(found: Found) -> Table:
    """Full passes of the transformers library, where they were timed; gains as measured and by count."""
    head = ["P", "ours ms", "all rows ms", "gain", "counted", "response rows ms", "gain", "counted"]
    rows: Table = [head]
    for row in found["rows"]:
        made = row["library"]
        if made is not None:
            every, alone = _counted_gains(found, row["prompt"])
            theirs = [f"{made['all_ms']:.1f}", f"{made['gain_all']:.2f}", every]
            theirs += [f"{made['response_ms']:.1f}", f"{made['gain_response']:.2f}", alone]
            rows.append([str(row["prompt"]), f"{made['ours_ms']:.1f}", *theirs])
    return rows


def _counted_gains(found: Found, prompt: int) -> tuple[str, str]:
    """Of our full pass over one with the head on every row, and on the response's; of published shapes."""
    if (known := shapes().get(found["shape"])) is None:
        return "", ""
    shape = replace(known.shape, layers=found["layers"])
    counts = count_passes(shape, prompt, found["response"])
    unread = operations(Work(scored=prompt), shape)
    return f"{counts.naive / counts.full:.2f}", f"{(counts.naive - unread) / counts.full:.2f}"


def profiles(found: Found) -> Table:
    """Time by kind of work, of a full and of a cached step."""
    full, cached = (row["kinds_ms"] for row in found["rows"])
    totals = [row["total_ms"] for row in found["rows"]]
    rows: Table = [["work", "full ms", "share", "cached ms", "share"]]
    for kind in dict.fromkeys([*full, *cached]):
        cells = [kind]
        for spent, total in zip((full, cached), totals, strict=True):
            cells += [f"{spent.get(kind, 0.0):.1f}", _percent(spent.get(kind, 0.0) / total)]
        rows.append(cells)
    return rows


def trajectories(found: Found) -> Table:
    """Methods side by side, with what the cost model predicts."""
    references = list(found["rows"][0]["over"])
    head = ["method", "updates", "full", "cached", "reused", "seconds", "spread"]
    for name in references:
        head += [f"over {name}", "predicted", "error"]
    rows: Table = [head]
    for row in found["rows"]:
        counts = [str(row[name]) for name in ("updates", "full", "cached", "reused")]
        cells = [f"`{row['method']}`", *counts, f"{row['seconds']:.2f}", _percent(row["spread"])]
        for name in references:
            over = row["over"][name]
            cells += [f"{over['speedup']:.2f}", f"{over['predicted']:.2f}"]
            cells.append(f"{over['error']:+.1%}".replace("%", " %"))
        rows.append(cells)
    return rows


def batches(found: Found) -> Table:
    rows: Table = [["rows", "updates", "seconds", "tokens/s", "gain", "K/V MiB", "spread"]]
    for row in found["rows"]:
        rates = [f"{row['seconds']:.2f}", f"{row['tokens_per_second']:.1f}", f"{row['gain']:.2f}"]
        kept = f"{row['kv_bytes'] / MEBI:.1f}"
        rows.append([str(row["batch"]), str(row["updates"]), *rates, kept, _percent(row["spread"])])
    return rows


def traffics(found: Found) -> Table:
    head = ["way", "load", "mean s", "p50 s", "p99 s", "p99 s, small", "goodput /s", "served /s"]
    rows: Table = [[*head, "CPU s each"]]
    for row in found["rows"]:
        names = ("mean", "p50", "p99", "p99_small", "goodput", "throughput", "cpu")
        rows.append([row["way"], str(row["load"]), *(f"{row[name]:.2f}" for name in names)])
    return rows


@dataclass(frozen=True)
class Aim:
    """A figure of one way to serve as a ratio to one at a time, and what it should be."""

    name: str
    way: str
    load: float | str
    key: str
    bound: float
    at_least: bool = False

    def measured(self, found: Found) -> float:
        ways = {row["way"]: row for row in found["rows"] if row["load"] == self.load}
        return float(ways[self.way][self.key] / ways["one at a time"][self.key])

    def reached(self, found: Found) -> bool:
        ratio = self.measured(found)
        return ratio >= self.bound if self.at_least else ratio <= self.bound


TRAFFIC_AIMS = (
    Aim("p99 of small requests", "engine", 0.8, "p99_small", 1 / 3),
    Aim("served /s", "engine", "all at once", "throughput", 1.15, at_least=True),
    Aim("CPU without company", "engine, one at a time", 0.8, "cpu", 1.03),
    Aim("CPU without company", "engine, one at a time", "all at once", "cpu", 1.03),
)


def traffic_aims(found: Found) -> Table:
    """What the engine was to reach beside one at a time, and what it did."""
    rows: Table = [["engine over one at a time", "load", "aim", "measured", "so"]]
    for aim in TRAFFIC_AIMS:
        bound = f"{'at least' if aim.at_least else 'at most'} {aim.bound:.2f}"
        so = "reached" if aim.reached(found) else "missed"
        rows.append([aim.name, str(aim.load), bound, f"{aim.measured(found):.2f}", so])
    return rows


def loads(found: Found) -> Table:
    head = ["seconds", "weights MiB", "before MiB", "peak MiB", "peak / weights", "without before"]
    sizes = [f"{found[name] / MEBI:.0f}" for name in ("weight_bytes", "before_bytes", "peak_bytes")]
    ratios = [f"{found[name]:.3f}" for name in ("peak_over_weights", "peak_over_weights_net")]
    return [head, [f"{found['seconds']:.1f}", *sizes, *ratios]]


def serves(found: Found) -> Table:
    """A server under load."""
    head = ["load", "requests", "p50 s", "p99 s", "per s", "in time per s", "over alone", "CPU s"]
    rows: Table = [head]
    for row in found["rows"]:
        times = [f"{row[name]:.2f}" for name in ("p50", "p99", "throughput", "goodput")]
        ratios = [f"{row['over_alone']:.2f}", f"{row['cpu']:.2f}"]
        rows.append([load_name(row["load"]), str(row["requests"]), *times, *ratios])
    return rows


def load_name(load: str) -> str:
    """A load as one says it, also where it was measured before that was so."""
    return "1 client" if load == "1 clients" else load


def serving_costs(found: Found) -> Table:
    """What serving adds to decoding."""
    loop, served = found["direct_cpu"], found["server_cpu"]
    return [
        ["what", "measured"],
        ["start to ready", f"{found['start_seconds']:.1f} s"],
        ["CPU per request by the loop", f"{loop:.3f} s"],
        ["CPU per request served", f"{served:.3f} s ({100 * found['overhead']:+.1f} %)"],
        ["CPU of a provisional event", f"{found['event_ms']:.2f} ms"],
        ["from hanging up to a free slot", f"{found['cancel_seconds']:.2f} s"],
    ]


def growth() -> Table:
    """Operations at full depth by prompt length; counted, not measured."""
    rows: Table = [
        ["shape", "P", "naive TF", "full TF", "cached TF", "limit", "limit, naive", "paper"]
    ]
    for name in ("llada-8b", "dream-7b"):
        known = shapes()[name]
        for prompt, paper in PAPER.items():
            counts = count_passes(known.shape, prompt, PAPER_SETTING[1])
            passes = [f"{n / TERA:.2f}" for n in (counts.naive, counts.full, counts.cached)]
            limits = [f"{n / counts.cached:.2f}" for n in (counts.full, counts.naive)]
            beside = f"{paper:.2f}" if name == PAPER_SETTING[0] else ""
            rows.append([f"`{name}`", str(prompt), *passes, *limits, beside])
    return rows


def roofline(prompt: int = 512, response: int = 256, rows: int = 8) -> Table:
    """The least times on cards that are not here, of one row and of a batch; nothing is measured."""
    known = shapes()["llada-8b"]
    table: Table = [
        ["GPU", "full ms", "cached ms", "cached is bound by", f"cached, {rows} rows, ms"]
    ]
    for device in DEVICES:
        sizes = (known.shape, prompt, response)
        full, cached = floors(device, *sizes)
        _, many = floors(device, *sizes, rows=rows)
        times = [f"{1e3 * each.seconds:.1f}" for each in (full, cached, many)]
        table.append([device.name, times[0], times[1], cached.limit, times[2]])
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
