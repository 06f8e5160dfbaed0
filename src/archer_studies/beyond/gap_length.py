"""How long gaps are: the published curve of a search by confidence, and the same fitted to a model's own.

Axes: N gaps, L lengths from 1 on.  Nothing is decoded: one pass over masks for each length of each gap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archer.engine.footprint import empty_store
from archer.engine.gap_length import PUBLISHED, Curve, GapSearch, best_length
from archer.loading.text.healing import heal
from archer.model import Model
from archer.pages.page import Presented
from archer.pages.tables import Field, table_of
from archer.request.fill import MOST
from archer.runs.decoding import encode, put
from archer.runs.manifest import RunRequest
from archer.runs.statistics import bootstrap, mean
from archer.runs.workspace import Workspace
from archer.tasks.base import Sample
from archer_studies.arms import PERCENT
from archer_studies.beyond import infill
from archer_studies.study import Measured, Row

TITLE = "How long a gap is"
ABOUT = "The curve by which the length of a gap is searched for, fitted to a model"
GAPS = 40
"""Of each task."""
NEAR = 4
"""Lengths so close to the right one are left out of the fit: there a model is surer than usual."""
CLOSE = 2
Scores = NDArray[np.float64]


def measure(workspace: Workspace) -> Measured:
    (first,) = workspace.samples(problems=1)
    names = infill.TASKS if first.infill is None else (workspace.task,)
    few = min(GAPS, workspace.scale.problems)
    scores: dict[str, tuple[Scores, list[int]]] = {}
    for name in names:
        request = workspace.request("saber", name, few)
        samples = workspace.samples(name, few)
        scores[name] = scored(request, samples)
    pooled = [
        (row[at], at + 1)
        for table, right in scores.values()
        for row, oracle in list(zip(table, right, strict=True))[::2]
        for at in range(len(row))
        if abs(at + 1 - oracle) > NEAR
    ]
    own = fitted([length for _, length in pooled], [score for score, _ in pooled])
    rows = [
        {"task": name, "curve": label} | _row(curve, table[1::2], right[1::2])
        for name, (table, right) in scores.items()
        for label, curve in (("published", PUBLISHED), ("fitted", own))
    ]
    return Measured(len(pooled), rows, {"tasks": list(names), "gaps": few, "curve": list(own)})


def scored(request: RunRequest, samples: Sequence[Sample]) -> tuple[Scores, list[int]]:
    """[N, L]: how sure the model is in each gap at each length; and the lengths of what stood there."""
    model, prompts = request.model, encode(request, samples)
    right, table = [], []
    for sample in samples:
        prompt = prompts[str(sample.id)]
        assert sample.infill is not None
        assert model.text is not None
        (gap,) = heal(model.text, [prompt, sample.infill.suffix]).gaps
        right.append(gap.tokens_of(sample.infill.middle))
        table.append(_sure(model, prompt, sample.infill.suffix))
    return np.array(table), right


def _sure(model: Model, prompt: Sequence[int], suffix: str) -> list[float]:
    request = model.request(put(prompt, (suffix, MOST)), "saber")
    form = replace(request.prompts[0], searched=())
    store = empty_store(model.network, 1, len(form.prefix) + len(form.given or ()))
    search = GapSearch(model.network, model.folder.mask, store)
    return [search.sure(form, 0, length) for length in range(1, MOST + 1)]


def fitted(lengths: Sequence[int], scores: Sequence[float]) -> Curve:
    """The curve nearest to the scores: decays from a grid, heights by least squares, none below 0."""
    at, sure = np.array(lengths, dtype=np.float64), np.array(scores)
    weights = np.sqrt(1.0 / np.bincount(lengths)[lengths])  # every length counts alike
    best, least = PUBLISHED, np.inf
    for fast in np.geomspace(0.2, 2.0, 12):
        for slow in np.geomspace(0.01, 0.5, 24):
            terms = np.stack([np.exp(-fast * at), np.exp(-slow * at), np.ones_like(at)], axis=1)
            heights = np.linalg.lstsq(terms * weights[:, None], sure * weights, rcond=None)[0]
            heights = np.maximum(heights, 0.0)
            error = float((((terms @ heights) - sure) ** 2 * weights**2).sum())
            if error < least and heights.sum() > 0:
                best, least = (
                    Curve(heights[0], fast, heights[1], slow, heights[2]).rounded(),
                    error,
                )
    return best


def chosen(curve: Curve, scores: Sequence[float]) -> int:
    """The length that the search ends at."""
    search = best_length(list(range(1, len(scores) + 1)))
    length = next(search)
    while True:
        try:
            length = search.send(scores[length - 1] / curve.usual(length))
        except StopIteration as end:
            return int(end.value)


def _row(curve: Curve, table: Scores, right: Sequence[int]) -> Row:
    ends = [chosen(curve, row.tolist()) for row in table]
    errors = [float(abs(end - oracle)) for end, oracle in zip(ends, right, strict=True)]
    return {
        "n": len(right),
        "right": mean([float(each) for each in right]),
        "chosen": mean([float(each) for each in ends]),
        "error": mean(errors),
        "error_interval": list(bootstrap(errors, mean)),
        "close": PERCENT * mean([float(each <= CLOSE) for each in errors]),
    }


def present(result: Mapping[str, Any]) -> Presented:
    numbers = ", ".join(f"{each:g}" for each in result["settings"]["curve"])
    return Presented(
        [
            table_of(
                f"Lengths that a search by confidence ends at, n = {result['rows'][0]['n']}",
                (
                    Field("task"),
                    Field("curve"),
                    Field("right", "tokens that stood there", 1),
                    Field("chosen", "tokens chosen", 1),
                    Field("error", "mean distance", 1),
                    Field("close", f"within {CLOSE} (%)", 0),
                ),
                result["rows"],
                [
                    f"Fitted on every second gap: curve=[{numbers}]; both are judged on the other gaps. "
                    f"Lengths within {NEAR} of the right one are left out of the fit.",
                ],
            )
        ]
    )
