"""Response length: complete trajectories of Saber and Archer at several lengths, the prompt's fixed.

P prompt columns, G response columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Any

from archer.pages.figures import Figure, Labels, lines
from archer.pages.tables import Column, Table
from archer.runs.workspace import Workspace
from archer_studies.arms import series, value
from archer_studies.samples import compared, timed
from archer_studies.study import Measured, Presented, Row, Study

PROMPT = 2
"""P as a multiple of the task's response length: 512 in the paper's setting."""
LENGTHS = (0.25, 0.5, 1, 2)
"""G as multiples of the same: 64 to 512."""
RADIUS = 8
MOST_PROMPTS = 8
PAPER = {
    "where": "Section 'Response-Length Scaling': P = 512, range of speedups over Saber",
    "speedup": [1.46, 1.67],
}
COLUMNS = (
    Column("G"),
    Column("method"),
    Column("updates", 1),
    Column("full", 1),
    Column("cached", 1),
    Column("seconds", 3),
    Column("speedup"),
    Column("predicted"),
)


def measure(workspace: Workspace) -> Measured:
    usual, room = workspace.open().length, workspace.model.folder.shape.max_positions
    prompt = PROMPT * usual
    found = workspace.prompts(workspace.request("saber")).values()
    prompts = [tiled(each, prompt) for each in list(found)[:MOST_PROMPTS]]
    rows: list[Row] = []
    for length in (max(1, round(each * usual)) for each in LENGTHS):
        if prompt + length > room:
            continue
        told = timed(
            workspace.model,
            prompts,
            {"saber": {"length": length}, "archer": {"length": length, "radius": RADIUS}},
        )
        for method, label in (("saber", "Saber"), ("archer", "Archer")):
            costs = compared(told[method], told["saber"])
            rows.append({"length": length, "method": method, "arm": label, **costs})
    return Measured(len(prompts), rows, {"prompt": prompt, "radius": RADIUS})


def tiled(prompt: Sequence[int], length: int) -> list[int]:
    """A prompt cut, or repeated from its beginning, to so many ids."""
    return list(islice(cycle(prompt), length))


def present(result: Mapping[str, Any]) -> Presented:
    low, high = result["paper"]["speedup"]
    rows, settings = result["rows"], result["settings"]
    table = Table(
        f"Whole trajectories, prompt of {settings['prompt']}, K={settings['radius']}, n = {result['n']} "
        "prompts",
        COLUMNS,
        [
            [
                row["length"],
                row["arm"],
                row["updates"],
                row["full_passes"],
                row["cached_passes"],
                value(row, "seconds"),
                value(row, "speedup"),
                row["speedup_predicted"],
            ]
            for row in rows
        ],
        [
            "Speedup over Saber, all refreshes included. Prompts are those of the task, cut or repeated "
            "to one length. Predicted from the operations of the passes made.",
            f"The paper's speedups are {low} to {high} on LLaDA-8B with a prompt of 512.",
        ],
    )
    archer = [row for row in rows if row["method"] == "archer"]
    return Presented([table], {"speedup": _figure(archer)} if archer else {})


def _figure(rows: Sequence[Row]) -> Figure:
    return lines(
        [series("Archer over Saber", [str(row["length"]) for row in rows], rows, "speedup")],
        Labels("Speedup over the response length", "response length G", "speedup"),
    )


STUDY = Study(
    name="response-length",
    title="Response length",
    paper=PAPER,
    measure=measure,
    present=present,
)
