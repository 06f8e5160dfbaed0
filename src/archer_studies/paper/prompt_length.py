"""A full and a cached update from one recorded state, by prompt length (P prompt, G response columns)."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from archer.bench.repeating import interleaved
from archer.bench.step_variants import NEVER, StepVariants
from archer.bench.subject import Subject
from archer.model import Model
from archer.pages.figures import Figure, Labels, Series, lines
from archer.pages.page import Presented
from archer.pages.tables import Field, series, table_of
from archer.passes.work import operations
from archer.runs.statistics import bootstrap, mean
from archer.runs.workspace import Workspace
from archer_studies.study import Measured, Row

TITLE = "Prompt length"
ABOUT = "Time of a full and of a cached update by prompt length"
RATIOS = (0.5, 1, 2, 4, 8)
"""P / G as in the paper: 128 to 2048 for a response of 256."""

Pair = tuple[float, float]
"""Seconds of a full and of a cached update, measured one after the other."""
FIELDS = (
    Field("ratio", "P / G"),
    Field("prompt", "P"),
    Field("full_ms", "full (ms)", paper=0),
    Field("cached_ms", "cached (ms)", paper=1),
    Field("speedup", paper=2),
    Field("limit"),
)


def measure(workspace: Workspace) -> Measured:
    response = workspace.open().length
    model = workspace.model
    subject = Subject(
        model.name,
        model.network,
        model.folder.mask,
        model.folder.shape.layers,
    )
    rows, samples = [], []
    for ratio in fitting(model, response):
        prompt = max(1, round(ratio * response))
        alternatives = StepVariants.at(subject, prompt, response)
        steps = {"full": alternatives.refreshing(1), "cached": alternatives.refreshing(NEVER)}
        taken = interleaved(steps, workspace.scale.repeats)
        pairs = [(a.seconds, b.seconds) for a, b in zip(*taken.values(), strict=True)]
        counted = [operations(each[0].work, model.folder.shape) for each in taken.values()]
        rows.append(
            {
                "ratio": f"{ratio:g}",
                "prompt": prompt,
                **timed(pairs),
                "limit": counted[0] / counted[1],
            }
        )
        samples.append(pairs)
    rows.append({"ratio": "overall", "prompt": None, **averaged(rows, samples)})
    return Measured(workspace.scale.repeats, rows, {"response": response})


def fitting(model: Model, response: int) -> list[float]:
    """Ratios whose prompt fits into the model's window beside the response."""
    room = model.folder.shape.max_positions - response
    return [ratio for ratio in RATIOS if ratio * response <= room]


def timed(pairs: Sequence[Pair]) -> Row:
    """Medians in milliseconds, and their ratio."""
    row: Row = {"n": len(pairs), "speedup": ratio_of_medians(pairs)}
    row["speedup_interval"] = list(bootstrap(pairs, ratio_of_medians))
    for side, name in enumerate(("full_ms", "cached_ms")):
        values = [1e3 * pair[side] for pair in pairs]
        row[name], row[f"{name}_interval"] = median(values), list(bootstrap(values, median))
    return row


def ratio_of_medians(pairs: Sequence[Pair]) -> float:
    return median(full for full, _ in pairs) / median(cached for _, cached in pairs)


def averaged(rows: Sequence[Row], samples: Sequence[Sequence[Pair]]) -> Row:
    """Times averaged over prompt lengths; the speedup is the mean of the ratios, as in the paper."""
    rounds = list(zip(*samples, strict=True))
    full, cached = (mean([row[name] for row in rows]) for name in ("full_ms", "cached_ms"))
    return {
        "n": len(rounds),
        "full_ms": full,
        "cached_ms": cached,
        "speedup": mean([row["speedup"] for row in rows]),
        "speedup_interval": list(bootstrap(rounds, _mean_ratio)),
        "speedup_of_means": full / cached,
        "limit": mean([row["limit"] for row in rows]),
    }


def _mean_ratio(rounds: Sequence[Sequence[Pair]]) -> float:
    return mean([ratio_of_medians(pairs) for pairs in zip(*rounds, strict=True)])


def present(result: Mapping[str, Any]) -> Presented:
    paper, rows = result["paper"], result["rows"]
    whole = rows[-1]
    table = table_of(
        f"One update, response of {result['settings']['response']}, n = {result['n']} repetitions",
        FIELDS,
        rows,
        [
            "Medians; both updates start from the same state, half of the response placed.",
            "Limit: operations of the full pass over those of the cached one.",
            "Overall: mean times, and the mean of the ratios as in the paper; the ratio of the mean "
            f"times is {whole['speedup_of_means']:.2f} (the paper's: 2.79).",
            "The paper's columns are LLaDA-8B with a response of 256 at the same P / G.",
        ],
        lambda row: paper[row["ratio"]],
    )
    return Presented([table], {"speedup": _figure(rows[:-1], paper)})


def _figure(rows: Sequence[Row], paper: Mapping[str, Any]) -> Figure:
    x = [row["ratio"] for row in rows]
    return lines(
        [
            series("measured", x, rows, "speedup"),
            Series("limit by operations", x, [row["limit"] for row in rows]),
            Series("paper, LLaDA-8B", x, [paper[ratio][2] for ratio in x]),
        ],
        Labels("Speedup of one update over the prompt length", "P / G", "speedup"),
    )
