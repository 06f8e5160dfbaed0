"""What eight bits do to a model: drift by layer, texts, scores and time, each way beside the plain one.

Axes: L columns, d width, V vocabulary.

Drift is looked at on prompts whose response is half placed, with the plain model's own answer: how far what
each layer hands on is from the plain one's, as a share of its length, and how often the likeliest token is
the same.  Scores are those of the default method.  The confirmation was planned in docs/plans/quantize.md.
A way that this machine refuses is left out, and the page says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from archer.errors import BadRequest
from archer.methods.catalogue import DEFAULT_METHOD
from archer.model import Model
from archer.network.differentiable import hidden_states
from archer.network.network import Transformer
from archer.network.rounded import operator_on
from archer.network.shape import Scheme
from archer.pages.page import Presented
from archer.pages.tables import Field, p_value, table_of
from archer.runs.statistics import Pairs, bootstrap, holm, mean
from archer.runs.workspace import FULL, Arm, Workspace
from archer_studies.arms import PERCENT, SCORES, SHIFTED, WON, companion, compared, in_turn
from archer_studies.study import Measured, Row

TITLE = "Eight bits"
ABOUT = "What eight bits do to a model: drift by layer, texts, scores, time"
WAYS = tuple(Scheme)
"""The plain one first: the others are set beside it."""
MARGIN, LEVEL = 0.02, 0.05
"""By how much Pass@1 must not be lower, and the level of the tests."""
BATCH = 16
"""Problems decoded together; what a row becomes does not depend on the others."""


def measure(workspace: Workspace) -> Measured:
    other = companion(workspace, SHIFTED)
    refused = _refused(workspace.model)
    ways = [way for way in WAYS if way.value not in refused]
    rows = [row for each in (workspace, other) if each is not None for row in _rows(each, ways)]
    settings = {
        "task": workspace.task,
        "method": DEFAULT_METHOD,
        "batch": BATCH,
        "probed": workspace.scale.probed,
        "refused": refused,
    }
    return Measured(rows[0]["n"], rows, settings)


def _refused(model: Model) -> dict[str, str]:
    """The ways that are refused here, each with the reason."""
    reasons = {}
    for way in WAYS:
        try:
            if way.whole:
                operator_on(model.network.device, model.folder.shape, way)
        except BadRequest as error:
            reasons[way.value] = str(error)
    return reasons


def _rows(workspace: Workspace, ways: Sequence[Scheme]) -> list[Row]:
    """Of one model, every way."""
    spaces = {way: _kept(workspace, way) for way in ways}
    arms = {way: _arm(space) for way, space in spaces.items()}
    plain = arms[Scheme.PLAIN]
    timed = in_turn(workspace, arms, spaces=spaces)
    rows = []
    for way, arm in timed.items():
        model = spaces[way].model
        pairs = Pairs(arm.solved(), plain.solved())
        row = compared(arm, way.value, timed[Scheme.PLAIN], model)
        points = [
            PERCENT * (float(mine) - float(theirs))
            for mine, theirs in zip(pairs.first, pairs.second, strict=True)
        ]
        rows.append(
            {
                "model": workspace.model.name,
                **row,
                "identical": PERCENT * row["same_completions"] / row["n"],
                "answers": mean(points),
                "answers_interval": list(bootstrap(points, mean)),
                "not_worse_p": pairs.not_worse(MARGIN),
                "bytes": sum(each.nbytes for each in model.network.parameters()),
                **drift(spaces[Scheme.PLAIN], model, plain),
            }
        )
    return rows


def _kept(workspace: Workspace, way: Scheme) -> Workspace:
    """The same model kept another way, its arms in a folder of their own."""
    quantize = None if way is Scheme.PLAIN else way.value
    model = Model.open(replace(workspace.model.source, quantize=quantize))
    executor = workspace.hire(model) if workspace.hire is not None else None
    return replace(workspace, model=model, out=workspace.out / way.value, executor=executor)


def _arm(workspace: Workspace) -> Arm:
    return workspace.finished(replace(workspace.request(DEFAULT_METHOD), batch=BATCH))


def drift(plain: Workspace, model: Model, arm: Arm) -> Row:
    """How far a network is from the plain one, on the first problems, half answered as the arm did."""
    prompts = plain.prompts(plain.again(arm))
    layers: list[list[float]] = []
    same, columns = 0, 0
    for key in arm.keys[: plain.scale.probed]:
        response = torch.tensor(arm.run.recorded.samples[key].tokens)
        response[::2] = plain.model.folder.mask
        tokens = torch.cat((torch.tensor(prompts[key]), response)).to(model.network.device)
        exact, near = (_looked_at(each.network, tokens) for each in (plain.model, model))
        layers.append([_far(mine, theirs) for mine, theirs in zip(near, exact, strict=True)])
        best = [each[-1][-len(response) :].argmax(dim=-1) for each in (near, exact)]
        same += int((best[0] == best[1]).sum())
        columns += len(response)
    return {
        "drift": [mean(each) for each in zip(*layers, strict=True)],
        "agreement": PERCENT * same / columns,
    }


@torch.inference_mode()
def _looked_at(network: Transformer, tokens: Tensor) -> list[Tensor]:
    """Long[L] -> what each layer hands on, [L, d], and the logits, [L, V]."""
    after: list[Tensor] = []
    hidden = hidden_states(network, network.embed(tokens)[None], after=after)
    return [*after, network.score(hidden[0])]


def _far(mine: Tensor, theirs: Tensor) -> float:
    """The length of the difference, as a share."""
    return float((mine - theirs).norm() / theirs.norm())


def judged(rows: Sequence[Row]) -> list[Row]:
    """The ways beside the plain one, tests adjusted by Holm over all of them."""
    mine = [row for row in rows if row["arm"] != Scheme.PLAIN.value]
    chances = holm([row["not_worse_p"] for row in mine])
    return [
        {**row, "not_worse_adjusted": p, "holds": "yes" if p < LEVEL else "no"}
        for row, p in zip(mine, chances, strict=True)
    ]


def present(result: Mapping[str, Any]) -> Presented:
    rows, where = result["rows"], result["settings"]["task"]
    scores = table_of(
        f"Eight bits on {where}, n = {result['n']}",
        (
            Field("model"),
            Field("arm", "kept"),
            *SCORES,
            *WON,
            Field("identical", "same text (%)", 1),
            Field("agreement", "same token (%)", 1),
            Field("", "MB", 2, of=lambda row: row["bytes"] / 1e6),
            Field("updates", digits=1),
            Field("seconds", digits=3),
            Field("speedup"),
        ),
        rows,
        [
            "Won and lost: problems that only this way or only the plain one solves. Same token: of a "
            "response half placed, the share of columns whose likeliest token is the plain one's. Seconds "
            f"and speedup from {rows[0]['timed']} problems that all ways decoded in turn.",
        ],
    )
    tests = table_of(
        f"Beside the plain model, n = {result['n']}",
        (
            Field("model"),
            Field("arm", "kept"),
            Field("answers", "Pass@1 (points)", 1),
            p_value("not_worse_adjusted", "p of 2 lower"),
            Field("holds"),
        ),
        judged(rows),
        [
            "p: Tango's score test of a Pass@1 that is lower by 2 points or more, adjusted by Holm over the "
            "rows. Intervals: 95 %, bootstrap over problems, not adjusted."
        ],
    )
    depth = len(rows[0]["drift"])
    looked_at = min(result["n"], result["settings"].get("probed", FULL.probed))
    drifts = table_of(
        f"Drift by layer, % of the plain length, n = {looked_at}",
        (
            Field("model"),
            Field("arm", "kept"),
            *(
                Field("", "logits" if at == depth - 1 else f"{at + 1}", of=_drifted(at))
                for at in _shown(depth)
            ),
        ),
        [row for row in rows if row["arm"] != Scheme.PLAIN.value],
    )
    refused = result["settings"].get("refused", {}).items()
    return Presented(
        [scores, tests, drifts], notes=[f"{way} was left out. {why}" for way, why in refused]
    )


def _drifted(at: int) -> Callable[[Mapping[str, Any]], float]:
    return lambda row: float(PERCENT * row["drift"][at])


def _shown(depth: int) -> list[int]:
    """At most a dozen of the layers, and the logits."""
    step = max(1, depth // 12)
    return [*range(0, depth - 1, step), depth - 1]
