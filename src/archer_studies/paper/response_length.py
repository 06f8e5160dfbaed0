"""Whole trajectories of Saber and Archer by response length (P prompt columns, G response columns)."""

from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Any

from archer.pages.figures import Figure, Labels, lines
from archer.pages.page import Presented
from archer.pages.tables import Field, series, table_of
from archer.runs.workspace import Workspace
from archer_studies.arms import TIMES
from archer_studies.probes.trajectories import saber_and_archer
from archer_studies.study import Measured, Row

TITLE = "Response length"
ABOUT = "Time of whole answers by response length"
PROMPT = 2
"""P as a multiple of the task's response length: 512 in the paper's setting."""
LENGTHS = (0.25, 0.5, 1, 2)
"""G as multiples of the same: 64 to 512."""
RADIUS = 8
MOST_PROMPTS = 8
FIELDS = (
    Field("length", "G"),
    Field("arm", "method"),
    *TIMES,
)


def measure(workspace: Workspace) -> Measured:
    usual, room = workspace.open().length, workspace.model.folder.shape.max_positions
    prompt = PROMPT * usual
    usual_prompts = workspace.prompts(workspace.request("saber")).values()
    prompts = [tiled(each, prompt) for each in list(usual_prompts)[:MOST_PROMPTS]]
    rows: list[Row] = []
    for length in (max(1, round(each * usual)) for each in LENGTHS):
        if prompt + length <= room:
            both = saber_and_archer(workspace.model, prompts, length, RADIUS)
            rows += [{"length": length, **row} for row in both]
    return Measured(len(prompts), rows, {"prompt": prompt, "radius": RADIUS})


def tiled(prompt: Sequence[int], length: int) -> list[int]:
    """A prompt cut, or repeated from its beginning, to N ids."""
    return list(islice(cycle(prompt), length))


def present(result: Mapping[str, Any]) -> Presented:
    low, high = result["paper"]["speedup"]
    rows, settings = result["rows"], result["settings"]
    table = table_of(
        f"Whole trajectories, prompt of {settings['prompt']}, K={settings['radius']}, n = {result['n']} "
        "prompts",
        FIELDS,
        rows,
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
