"""Backbones: Saber and Archer on plain and on shifted logits.

The bundled model has a companion that was trained alike with shifted logits, so both have scores.  Beside
any other model stand random networks of its size: they write nonsense, and have passes and times alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from archer.bench.weights import filled
from archer.loading.architecture import Architecture
from archer.loading.families.dream import DREAM
from archer.loading.families.llada import LLADA
from archer.loading.hub import BUNDLED
from archer.model import Model
from archer.network.network import Transformer
from archer.pages.tables import Column, Table
from archer.runs.workspace import Workspace
from archer_studies.arms import against, described, value
from archer_studies.companions import SHIFTED, companion
from archer_studies.in_turn import in_turn
from archer_studies.samples import compared, timed
from archer_studies.study import Measured, Presented, Row, Study

RADII = {"mbpp": 11, "humaneval": 15}
RADIUS = 8
"""Where the paper names none."""
MOST_PROMPTS = 12
"""Prompts that the random networks decode at most."""
PAPER = {
    "where": "Table 2: Pass@1 base and extended, seconds, speedup over Saber",
    "mbpp": {
        "LLaDA-8B": {"saber": [44.03, 31.38, 8.45, 1.00], "archer": [44.50, 32.55, 6.20, 1.36]},
        "Dream-7B": {"saber": [52.93, 41.69, 8.18, 1.00], "archer": [53.63, 42.15, 5.51, 1.48]},
        "DiffuCoder-7B": {
            "saber": [59.48, 44.73, 12.35, 1.00],
            "archer": [60.19, 45.20, 8.97, 1.38],
        },
    },
    "humaneval": {
        "LLaDA-8B": {"saber": [44.51, 37.20, 12.13, 1.00], "archer": [43.29, 37.20, 7.29, 1.66]},
        "Dream-7B": {"saber": [29.88, 28.05, 10.40, 1.00], "archer": [31.10, 28.05, 5.85, 1.78]},
        "DiffuCoder-7B": {
            "saber": [57.32, 51.83, 15.57, 1.00],
            "archer": [60.37, 54.27, 9.24, 1.68],
        },
    },
    "overall": {"mbpp": 1.41, "humaneval": 1.71},
}
COLUMNS = (
    Column("backbone"),
    Column("n"),
    Column("method"),
    Column("Pass@1 (%)", 1),
    Column("extended (%)", 1),
    Column("updates", 1),
    Column("full", 1),
    Column("cached", 1),
    Column("seconds", 3),
    Column("speedup"),
    Column("predicted"),
    Column("p", 4, chance=True),
)


def measure(workspace: Workspace) -> Measured:
    radius = RADII.get(workspace.task, RADIUS)
    rows, shifted = _scored(workspace, radius), companion(workspace, SHIFTED)
    if shifted is not None:
        rows += _scored(shifted, radius)
    else:
        for architecture in (LLADA, DREAM):
            rows += _random(workspace, architecture, radius)
    return Measured(rows[0]["n"], rows, {"radius": radius})


def _scored(workspace: Workspace, radius: int) -> list[Row]:
    arms = in_turn(
        workspace,
        {"saber": workspace.arm("saber"), "archer": workspace.arm("archer", radius=radius)},
    )
    model = workspace.model
    backbone = (
        f"{model.folder.architecture.name}, {model.name if model.name in BUNDLED else 'loaded'}"
    )
    return [
        {
            "backbone": backbone,
            "method": method,
            **described(arms[method], label, model),
            **against(arms[method], arms["saber"], model),
        }
        for method, label in (("saber", "Saber"), ("archer", "Archer"))
    ]


def _random(workspace: Workspace, architecture: Architecture, radius: int) -> list[Row]:
    twin = random_twin(workspace.model, architecture)
    length = workspace.open().length
    prompts = list(workspace.prompts(workspace.request("saber")).values())[:MOST_PROMPTS]
    told = timed(
        twin, prompts, {"saber": {"length": length}, "archer": {"length": length, "radius": radius}}
    )
    return [
        {
            "backbone": f"{architecture.name}, random weights",
            "method": method,
            "arm": label,
            **compared(told[method], told["saber"]),
        }
        for method, label in (("saber", "Saber"), ("archer", "Archer"))
    ]


def random_twin(model: Model, architecture: Architecture) -> Model:
    """A network of the same size with the conventions of an architecture and weights that mean nothing."""
    shape = replace(
        model.folder.shape,
        qkv_bias=architecture.shift,
        shift=architecture.shift,
        attention=architecture.attention,
    )
    network = Transformer(shape, device=model.network.device, dtype=model.network.dtype)
    folder = replace(model.folder, architecture=architecture, shape=shape)
    source = replace(model.source, model=f"random-{architecture.name}")
    return Model(source, folder, filled(network), model.text)


def present(result: Mapping[str, Any]) -> Presented:
    table = Table(
        f"Saber and Archer (K={result['settings']['radius']}) by backbone on "
        f"{result['settings']['task']}",
        COLUMNS,
        [
            [
                row["backbone"],
                row["n"],
                row["arm"],
                value(row, "base"),
                value(row, "extended"),
                row["updates"],
                row["full_passes"],
                row["cached_passes"],
                value(row, "seconds"),
                value(row, "speedup"),
                row["speedup_predicted"],
                row.get("base_p"),
            ]
            for row in result["rows"]
        ],
        _notes(result["rows"]),
    )
    return Presented([table, _published(result["paper"])])


def _notes(rows: Sequence[Row]) -> list[str]:
    if all("base" in row for row in rows):
        others = "The models are of one size and one training."
    else:
        others = (
            "Random networks have the size of the loaded model and no scores: they write nonsense."
        )
    return [
        f"{others} Dream's logits are shifted by one column.",
        "p: exact McNemar against Saber. Speedups over Saber.",
    ]


def _published(paper: Mapping[str, Any]) -> Table:
    rows = [
        [benchmark, backbone, method, *figures]
        for benchmark in ("mbpp", "humaneval")
        for backbone, found in paper[benchmark].items()
        for method, figures in found.items()
    ]
    names = ("benchmark", "backbone", "method", "Pass@1 (%)", "extended (%)", "seconds", "speedup")
    return Table(
        "The paper's backbones, n = 427 (MBPP) and 164 (HumanEval)",
        [Column(name) for name in names],
        rows,
        ["Published figures only; the same study with another model and task measures them."],
    )


STUDY = Study(
    name="backbones",
    title="Backbones",
    paper=PAPER,
    measure=measure,
    present=present,
)
