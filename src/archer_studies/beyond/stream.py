"""Text before the end: what it costs to let tokens of a decoder that revises settle, and what it brings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from archer.pages.page import Presented
from archer.pages.tables import Field, Table, percent, table_of
from archer.results.settled_text import SettledText
from archer.runs.statistics import mean
from archer.runs.workspace import Arm, Workspace
from archer_studies.arms import SCORES, WON, compared, counted
from archer_studies.probes.shadow_passes import require_unchanged, walk
from archer_studies.study import Measured, Row

TITLE = "Text before the end"
ABOUT = "What settling costs, and how early text can be sent"
REFERENCE = "archer-doubt"
STREAMING = "archer-stream"
KEEPING = "llada-confidence"
"""Takes nothing back, so its text is certain as far as it is filled."""
SETTLE = (4, 8, 16)
MOST = 150


@dataclass(frozen=True)
class Sending:
    """When the text of one problem could be sent."""

    updates: int
    needed: int
    """Updates until all of the text was certain; a server ends there."""
    first: int
    """The update that made the first of it certain."""
    early: float
    """Share of the text that was certain before the update that made all of it certain."""


def measure(workspace: Workspace) -> Measured:
    problems = min(MOST, workspace.scale.problems)
    arms = {
        (method, settle): workspace.arm(
            method, None, problems, **({} if settle is None else {"settle": settle})
        )
        for method, settle in [
            (REFERENCE, None),
            *((REFERENCE, settle) for settle in SETTLE),
            *((STREAMING, settle) for settle in (None, *SETTLE)),
            (KEEPING, None),
        ]
    }
    other = arms[REFERENCE, None]
    rows = []
    for (method, settle), arm in arms.items():
        label = method if settle is None else f"{method}, settle={settle}"
        row = compared(arm, label, other, workspace.model) | counted(arm, other)
        rows.append({"method": method, "settle": settle, **row, **_sent(watch(workspace, arm))})
    return Measured(len(other.keys), rows, {"settle": list(SETTLE)})


def watch(workspace: Workspace, arm: Arm) -> list[Sending]:
    """Every problem of an arm decoded once more; refuses what differs from the run."""
    request = workspace.again(arm)
    decoder = request.choice.build().decoder
    prompts = workspace.prompts(request)
    sendings = []
    for key in arm.keys:
        stream = walk(request, prompts[key])
        text = SettledText(stream.request.language)
        first = needed = updates = early = 0
        for updates, step in enumerate(stream, start=1):
            before, settled = len(text.text), decoder.settled(step.after)[0]
            new = text.feed(step.after.response[0], settled)
            first = first or (updates if new else 0)
            if not needed and (text.stopped or settled.all()):
                needed, early = updates, before
        (completion,) = stream.finish()
        require_unchanged(arm, key, completion)
        whole = max(1, len(text.text))
        sendings.append(Sending(updates, needed or updates, first or updates, early / whole))
    return sendings


def _sent(watched: Sequence[Sending]) -> Row:
    return {
        "first": median([each.first for each in watched]),
        "first_share": median([each.first / each.updates for each in watched]),
        "first_share_needed": median([each.first / each.needed for each in watched]),
        "needed": mean([each.needed for each in watched]),
        "early": mean([each.early for each in watched]),
    }


def present(result: Mapping[str, Any]) -> Presented:
    return Presented([_table(result["settings"]["task"], result["rows"])])


def _table(task: str, rows: Sequence[Row]) -> Table:
    return table_of(
        f"Text before the end on {task}, n = {rows[0]['n']}",
        (
            Field("arm", "method"),
            *SCORES,
            *WON,
            Field("cost", digits=2),
            Field("updates", digits=1),
            Field("needed", "until the text is certain", 1),
            Field("first", "first text (update)", 0),
            percent("first_share", "of all updates"),
            percent("first_share_needed", "of those needed"),
            percent("early", "sent before the end"),
        ),
        rows,
        [
            f"Won and lost: problems that only the arm, and that only {REFERENCE} solves. Cost: operations, "
            f"{REFERENCE} = 1. First text and its shares are medians over problems, the rest are means. A "
            "server ends a request when its text is certain, so the updates after that are not made there.",
        ],
    )
