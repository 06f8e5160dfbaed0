"""Measured and counted figures as tables for people; the figures themselves come from elsewhere.

A table is its rows, the head first.  What was measured comes in as the objects that `archer bench --json`
prints; a key that is missing there is an error, not an empty cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.bench.counting import count_passes
from archer.bench.roofline import DEVICES, floors
from archer.bench.shapes import SHAPES
from archer.bench.step import PAPER, PAPER_SETTING

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
        ratios = [f"{row[name]:.2f}" for name in ("speedup", "limit", "fraction", "limit_naive")]
        gains = [f"{row[name]:.3f}" for name in ("naive_gain", "naive_gain_layers")]
        shares = [_percent(row[name]) for name in ("head", "control")]
        spread = _percent(max(row["spread"].values()))
        rows.append([str(row["prompt"]), *times, *ratios, *gains, *shares, spread])
    return rows


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
    """Full passes of the transformers library, where they were timed."""
    rows: Table = [["P", "ours ms", "all rows ms", "gain", "response rows ms", "gain"]]
    for row in found["rows"]:
        made = row["library"]
        if made is not None:
            theirs = [f"{made['all_ms']:.1f}", f"{made['gain_all']:.2f}"]
            theirs += [f"{made['response_ms']:.1f}", f"{made['gain_response']:.2f}"]
            rows.append([str(row["prompt"]), f"{made['ours_ms']:.1f}", *theirs])
    return rows


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


def loads(found: Found) -> Table:
    head = ["seconds", "weights MiB", "before MiB", "peak MiB", "peak / weights", "without before"]
    sizes = [f"{found[name] / MEBI:.0f}" for name in ("weight_bytes", "before_bytes", "peak_bytes")]
    ratios = [f"{found[name]:.3f}" for name in ("peak_over_weights", "peak_over_weights_net")]
    return [head, [f"{found['seconds']:.1f}", *sizes, *ratios]]


def encodings(found: Found) -> Table:
    """Ways from chat messages to ids."""
    rows: Table = [["way", "ms", "spread"]]
    rows += [[row["how"], f"{row['ms']:.2f}", _percent(row["spread"])] for row in found["rows"]]
    return rows


def serves(found: Found) -> Table:
    """A server under load."""
    head = ["load", "requests", "p50 s", "p99 s", "per s", "in time per s", "over alone", "CPU s"]
    rows: Table = [head]
    for row in found["rows"]:
        times = [f"{row[name]:.2f}" for name in ("p50", "p99", "throughput", "goodput")]
        ratios = [f"{row['over_alone']:.2f}", f"{row['cpu']:.2f}"]
        rows.append([row["load"], str(row["requests"]), *times, *ratios])
    return rows


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
        known = SHAPES[name]
        for prompt, paper in PAPER.items():
            counts = count_passes(known.shape, known.architecture.shift, prompt, PAPER_SETTING[1])
            passes = [f"{n / TERA:.2f}" for n in (counts.naive, counts.full, counts.cached)]
            limits = [f"{n / counts.cached:.2f}" for n in (counts.full, counts.naive)]
            beside = f"{paper:.2f}" if name == PAPER_SETTING[0] else ""
            rows.append([f"`{name}`", str(prompt), *passes, *limits, beside])
    return rows


def roofline(prompt: int = 512, response: int = 256, rows: int = 8) -> Table:
    """The least times on cards that are not here, of one row and of a batch; nothing is measured."""
    known = SHAPES["llada-8b"]
    table: Table = [
        ["card", "full ms", "cached ms", "cached is bound by", f"cached, {rows} rows, ms"]
    ]
    for device in DEVICES:
        sizes = (known.shape, known.architecture.shift, prompt, response)
        full, cached = floors(device, *sizes)
        _, many = floors(device, *sizes, rows=rows)
        times = [f"{1e3 * each.seconds:.1f}" for each in (full, cached, many)]
        table.append([device.name, times[0], times[1], cached.limit, times[2]])
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
