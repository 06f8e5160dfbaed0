"""Figures in sentences are those of the results: a new measurement that changes one makes its page fail."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from archer.bench import report
from archer.costs.shapes import shapes
from archer_studies.confirm_doubt import judged
from archer_studies.confirmation import TASKS
from conftest import REPOSITORY

Row = Mapping[str, Any]
GIGA, KIBI = 1e9, 1 << 10


@cache
def result(name: str) -> dict[str, Any]:
    path = REPOSITORY / "docs" / "results" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def rows(name: str, **wanted: Any) -> list[Row]:
    return [
        row
        for row in result(name)["rows"]
        if all(row.get(key) == value for key, value in wanted.items())
    ]


def row(name: str, **wanted: Any) -> Row:
    (found,) = rows(name, **wanted)
    return found


def main(method: str, task: str = "pocket") -> Row:
    return row("main", method=method, task=task)


def score(method: str, task: str = "pocket") -> str:
    return f"{main(method, task)['base']:.1f} %"


def speed(method: str, task: str) -> str:
    return f"{main(method, task)['speedup']:.1f}"


def radius(name: str, split: str = "pocket") -> Row:
    return row("radius", radius=name, split=split)


def revised(method: str) -> Row:
    return row("rollback", method=method)


def growth(prompt: int) -> str:
    head, *table = report.growth()
    (found,) = [each for each in table if each[:2] == ["`llada-8b`", str(prompt)]]
    return f"{float(found[head.index('limit')]):.1f}"


def column_bytes() -> int:
    """Keys and values of one column of LLaDA-8B in two bytes per number."""
    shape = shapes()["llada-8b"].shape
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * 2


def parameter_count() -> int:
    """Of LLaDA-8B: attention, gated feed-forward and norms of every layer, embedding, norm and head."""
    shape = shapes()["llada-8b"].shape
    layer = 4 * shape.width**2 + 3 * shape.width * shape.inner + 2 * shape.width
    return shape.layers * layer + 2 * shape.vocabulary * shape.width + shape.width


def faster(method: str, task: str) -> str:
    """Than Saber."""
    return f"{main(method, task)['speedup'] / main('saber', task)['speedup']:.1f}"


def on_both_pages() -> list[str]:
    long, ours = "pocket-long", "archer-doubt"
    return [
        f"{score(ours)} and {score(ours, long)}, at {faster(ours, 'pocket')} and {faster(ours, long)} times "
        "Saber's speed",
        f"{speed('archer', long)} times as fast as LLaDA's own decoding",
        "no significant difference between its score and Saber's "
        f"(p = {main('archer', long)['saber_base_p']:.2f})",
        f"(p = {main('archer')['saber_base_p']:.3f}), at {faster('archer', 'pocket')} times Saber's speed",
        f"also reaches Archer's score ({score('archer', long)})",
        f"it is faster ({speed('fast-dllm-cache', long)} times)",
        f"solves {score('no-rollback')} instead of {score('saber')}",
    ]


DEV = ("pocket-dev", "pocket-dev-long")


def beyond() -> list[str]:
    short, long = (row("confirm", method="archer", task=task) for task in TASKS)
    by_distance, by_surprise = rows("mechanism", part="correlation")
    best = [row("refresh", task=task, rule="2-surprise3-kept") for task in DEV]
    fixed = row("refresh", task=DEV[0], rule="k8")
    sizes = [each["n"] for each in best]
    resting = [row("tail", task=task, rule="look-kept") for task in DEV]
    planned = [
        row("confirm-doubt", model="pocket", task=task, method=method)
        for method in ("saber+surprise", "saber-tail+late")
        for task in TASKS
    ]
    apart = [
        row("confirm-doubt", model="pocket-dream", task=task, method="saber+surprise")
        for task in TASKS
    ]
    assert all(each["answers"] > 0 for each in planned)
    assert sum(each["answers_interval"][0] < 0 for each in planned) == 3
    return [
        f"needs {planned[0]['cost']:.3f} of Saber's operations with short prompts and "
        f"{planned[1]['cost']:.3f} with long ones, and is {planned[0]['speedup']:.2f} and "
        f"{planned[1]['speedup']:.2f} times as fast",
        f"{min(each['identical'] for each in planned):.1f} to "
        f"{max(each['identical'] for each in planned):.1f} % are identical to Saber's",
        f"The resting tail needs {planned[2]['cost']:.3f} and {planned[3]['cost']:.3f}",
        f"needs {apart[0]['cost']:.3f} and {apart[1]['cost']:.3f} of Saber's operations",
        f"{by_distance['parted']:.3f} for the distance and {by_surprise['parted']:.3f} for the surprise",
        f"at {best[0]['cost']:.3f} and {best[1]['cost']:.3f} of eager Saber's operations",
        f"--problems {sizes[0]}`: {sizes[0]} short and {sizes[1]} long prompts, Saber",
        f"(exact McNemar p = {fixed['base_p']:.4f}, not adjusted)",
        f"{resting[0]['cost']:.3f} and {resting[1]['cost']:.3f} of eager Saber's operations and is "
        f"{resting[0]['speedup']:.2f} and {resting[1]['speedup']:.2f} times as fast",
        f"--problems {sizes[0]}`, {sizes[0]} short and {sizes[1]} long prompts:",
        f"lost {short['answers']:.1f} points on short prompts ({short['base_only']} won, "
        f"{short['base_only_other']} lost) and {long['answers']:.1f} on long ones "
        f"({long['base_only']} won, {long['base_only_other']} lost)".replace("-", ""),
    ]


def readme() -> list[str]:
    planned = judged(result("confirm-doubt")["rows"], "pocket")
    solved = [
        f"{row('confirm-doubt', model='pocket', task=task, method=method)['base']:.1f} %"
        for task in TASKS
        for method in ("saber+surprise", "saber")
    ]
    chances = {
        f"{each['not_worse_adjusted']:.4f}"
        for each in planned
        if each["method"] == "saber+surprise" and each["answers_hold"]
    }
    (chance,) = chances
    return [
        *on_both_pages(),
        f"On {planned[0]['n']:,} further problems, in a test planned beforehand, it solves {solved[0]} where "
        f"Saber solves {solved[1]}, and {solved[2]} where it solves {solved[3]} with long prompts",
        f"(adjusted p {chance} for both)",
        f"while Saber is {speed('saber', 'pocket-long')} times as fast",
        f"it solves {score('archer')} where Saber solves {score('saber')}",
        f"The bundled model on {main('archer', 'pocket-long')['n']} problems with long prompts",
    ]


def compare_methods() -> list[str]:
    n = main("archer")["n"]
    return [
        *on_both_pages(),
        f"it solves {score('archer')} of {n} problems where Saber solves {score('saber')}",
    ]


def bundled_models() -> list[str]:
    seeing, cached, blind = (rows("feedback", part="training")[place::3] for place in range(3))
    lost = [one["base"] - other["base"] for one, other in zip(seeing, blind, strict=True)]
    trained = [result(f"training-pocket-{name}")["sequences"] for name in ("dream", "blind")]
    assert trained[0] == trained[1]
    return [
        f"the view is worth {lost[0]:.1f} points",
        f"({seeing[0]['base'] - cached[0]['base']:.1f})",
        f"difference ({lost[1]:.1f} points)",
        f"costs {blind[1]['cost']:.3f} of eager Saber",
        f"the other two {trained[0]:,} each",
    ]


def tune() -> list[str]:
    found = result("tune-pocket")
    (chosen,) = (each for each in found["rows"] if each["chosen"])
    (saber,) = (each for each in found["rows"] if each["arm"] == "saber")
    (default,) = (each for each in found["rows"] if each["arm"] == "saber-doubt+surprise:0.3")
    assert chosen["arm"] == "saber-tail+late:0.5,wake=look,doubt=1.0,doubt_by=kept"
    return [
        f"out of {found['settings']['candidates']} methods",
        f"solved {chosen['base']:.1f} % of {chosen['n']} dev problems at {chosen['cost']:.3f} of Saber's "
        f"operations, and Saber solved {saber['base']:.1f} %",
        f"in the table: {default['base']:.1f} % at {default['cost']:.3f}",
    ]


def llada_on_a_gpu() -> list[str]:
    parameters = parameter_count()
    column = column_bytes()
    return [
        f"LLaDA-8B has {parameters / GIGA:.1f} billion parameters",
        f"| `bfloat16` | {2 * parameters / GIGA:.0f} GB |",
        f"| `float32` | {4 * parameters / GIGA:.0f} GB |",
        f"which is {column / KIBI**2:g} MiB in bfloat16",
        f"with a response of 256 takes {(1024 + 256) * column / KIBI**2:.0f} MiB",
        f"at best {growth(512)} times as fast as a full one for a prompt of 512",
        f"at best {growth(2048)} times for a prompt of 2048",
    ]


def reproducing() -> list[str]:
    long = "pocket-long"
    saber, archer = revised("saber"), revised("archer")
    lost, lost_long = main("archer"), main("archer", long)
    lengths = [row("prompt-length", ratio=each) for each in ("0.5", "8")]
    responses = [each for each in rows("response-length") if each["method"] != "saber"]
    plain_saber, plain, shifted_saber, shifted = rows("backbones")
    seeing, _, blind = (rows("feedback", part="training")[place::3] for place in range(3))
    without = [one["base"] - other["base"] for one, other in zip(seeing, blind, strict=True)]
    controls = row("validity", part="bin", bin="control")
    by_distance = row("validity", part="correlation", signal="distance")
    by_age = row("validity", part="correlation", signal="age")
    margin = row("theory", part="condition", condition="measured error")
    together = {each["arm"]: each["base"] for each in rows("parallel")}
    same = sum(
        each["same_completions"]
        for each in rows("radius", radius="1")
        if "same_completions" in each
    )
    return [
        f"Saber's rule solves {score('no-rollback')} instead of {score('saber')} on pocket, "
        f"{score('no-rollback', long)} instead of {score('saber', long)} on pocket-long",
        f"Saber revises {saber['revised']:.1f} % of the positions and Archer {archer['revised']:.1f} %, "
        f"in {saber['updates']:.1f} and {archer['updates']:.1f} updates",
        f"{saber['changed']:.1f} % and {archer['changed']:.1f} %",
        f"{radius('8')['speedup']:.2f} times at K = 8 on pocket, "
        f"{radius('8', long)['speedup']:.2f} times on pocket-long",
        f"{score('archer')} against {score('saber')}, {lost['saber_base_only']} problems won and "
        f"{lost['saber_base_only_other']} lost, p = {lost['saber_base_p']:.2f}",
        f"{score('archer', long)} against {score('saber', long)}, {lost_long['saber_base_only']} won and "
        f"{lost_long['saber_base_only_other']} lost, p = {lost_long['saber_base_p']:.2f}",
        f"({radius('1')['base']:.1f} % at K = 1, {radius('inf')['base']:.1f} % without refreshes)",
        f"all {same} completions are the same",
        f"{row('cache-use', task='pocket', radius='8')['cached']:.1f} % and "
        f"{row('cache-use', task=long, radius='8')['cached']:.1f} % at K = 8",
        f"{lengths[0]['speedup']:.2f} to {lengths[-1]['speedup']:.2f} times from P / G = 0.5 to 8",
        f"{responses[0]['speedup']:.2f} to {responses[-1]['speedup']:.2f} times from G = 16 to 128",
        f"{sum(each['same_completion'] for each in rows('feedback', part='pair'))} of "
        f"{result('feedback')['n']} pairs end in the same completion",
        f"costs {without[0]:.1f} points on pocket (p = {blind[0]['base_p']:.2f}), {without[1]:.1f} on "
        f"pocket-long (p = {blind[1]['base_p']:.2f})",
        f"{plain['speedup']:.2f} and {shifted['speedup']:.2f} times at K = 8 on models of one training",
        f"{plain['base']:.1f} % against Saber's {plain_saber['base']:.1f} % (p = {plain['base_p']:.2f}), and "
        f"{shifted['base']:.1f} % against {shifted_saber['base']:.1f} % (p = {shifted['base_p']:.2f})",
        f"of {controls['n']} controls at distance 0",
        f"partial rank correlations of {by_distance['disagreement']:.3f} and {by_age['disagreement']:.3f}",
        f"{by_distance['drift']:.3f} and {by_age['drift']:.3f}",
        f"in {margin['n']:,} calls",
        f"it held in {margin['held']:.1f} %, the action was kept in {margin['kept']:.1f} %",
        f"{together['2 tokens per update']:.1f} % with two, {together['4 tokens per update']:.1f} % with "
        f"four, {together['8 tokens per update']:.1f} % with eight",
        f"against {together['1 token per update']:.1f} % one by one",
    ]


def design_decisions() -> list[str]:
    peak = result("load-llada-8b-int8")["peak_over_weights"]
    layers = result("load-llada-8b-int8")["layers"]
    return [
        f"While a random LLaDA-8B of {layers} layers was loaded, memory peaked at {peak:.2f} times the bytes"
    ]


PROSE: dict[str, Callable[[], list[str]]] = {
    "README.md": readme,
    "docs/beyond.md": beyond,
    "docs/bundled-models.md": bundled_models,
    "docs/compare-methods.md": compare_methods,
    "docs/design-decisions.md": design_decisions,
    "docs/llada-8b-on-a-gpu.md": llada_on_a_gpu,
    "docs/reproducing.md": reproducing,
    "docs/tune.md": tune,
}


@pytest.mark.parametrize("aim", report.TRAFFIC_AIMS, ids=lambda aim: f"{aim.name}, {aim.load}")
def test_the_engine_reaches_what_was_aimed_at(aim: report.Aim) -> None:
    assert aim.reached(result("traffic-pocket")), aim.measured(result("traffic-pocket"))


@pytest.mark.parametrize("page", PROSE)
def test_the_figures_of_a_page_are_those_of_the_results(page: str) -> None:
    text = re.sub(r"\s+", " ", (REPOSITORY / page).read_text(encoding="utf-8"))
    for phrase in PROSE[page]():
        assert phrase in text, f"{page} should say: {phrase}"


@pytest.mark.parametrize(
    ("name", "quantize"), [("load-llada-8b", None), ("load-llada-8b-int8", "int8")]
)
def test_loading_takes_hardly_more_than_the_weights(name: str, quantize: str | None) -> None:
    """Measured, the process itself included."""
    found = result(name)
    assert found.get("quantize") == quantize
    assert found["peak_over_weights"] == found["peak_bytes"] / found["weight_bytes"] <= 1.08
