"""Saber and Archer on plain and shifted logits: trained companions, or random networks without scores."""

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
from archer.pages.page import Presented
from archer.pages.tables import Column, Field, Table, p_value, table_of
from archer.runs.workspace import Workspace
from archer_studies.arms import SCORES, SHIFTED, TIMES, companion, compared, in_turn
from archer_studies.probes.trajectories import saber_and_archer
from archer_studies.study import Measured, Row

TITLE = "Backbones"
ABOUT = "Saber and Archer on models with plain and with shifted logits"
RADII = {"mbpp": 11, "humaneval": 15}
RADIUS = 8
"""Where the paper names none."""
MOST_PROMPTS = 12
"""Prompts that the random networks decode at most."""
FIELDS = (
    Field("backbone"),
    Field("n"),
    Field("arm", "method"),
    *SCORES,
    *TIMES,
    p_value("base_p"),
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
            **compared(arm, method.title(), arms["saber"], model),
        }
        for method, arm in arms.items()
    ]


def _random(workspace: Workspace, architecture: Architecture, radius: int) -> list[Row]:
    twin = random_twin(workspace.model, architecture)
    prompts = list(workspace.prompts(workspace.request("saber")).values())[:MOST_PROMPTS]
    return [
        {"backbone": f"{architecture.name}, random weights", **row}
        for row in saber_and_archer(twin, prompts, workspace.open().length, radius)
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
    table = table_of(
        f"Saber and Archer (K={result['settings']['radius']}) by backbone on "
        f"{result['settings']['task']}",
        FIELDS,
        result["rows"],
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
        for backbone, methods in paper[benchmark].items()
        for method, figures in methods.items()
    ]
    names = ("benchmark", "backbone", "method", "Pass@1 (%)", "extended (%)", "seconds", "speedup")
    return Table(
        "The paper's backbones, n = 427 (MBPP) and 164 (HumanEval)",
        [Column(name) for name in names],
        rows,
        ["Published figures only; the same study with another model and task measures them."],
    )
