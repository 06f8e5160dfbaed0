"""The committed results: every study is there at full size, and its tables and figures come from its JSON."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="figures come with the extra [report]")

from archer.bench import traffic
from archer.pages.page import files_of
from archer.runs.workspace import FULL
from archer_studies.registry import BEYOND, STUDIES

RESULTS = Path(__file__).parents[2] / "docs" / "results"
MEASURED = STUDIES | {
    name: study for name, study in BEYOND.items() if (RESULTS / f"{name}.json").exists()
}
"""All of the paper's; beyond it those that have a result."""
KEPT, DERIVED = (".md", ".svg"), (".csv", ".tex", ".png")
"""Formats that are committed beside the JSON, and those that `make results` makes of it when wanted."""
WRITTEN = {"performance.md", "default-method.md"}
"""Pages of results with sentences between their generated tables."""
FEWEST = 120
OF_PARTS = ("feedback", "validity", "theory", "prompt-length", "response-length")
"""Studies whose n counts pairs, probes or repetitions, and not problems."""


def result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


@cache
def made(name: str) -> dict[str, bytes]:
    """The files of a study; drawing takes its time, and two tests look at them."""
    return dict(files_of(name, MEASURED[name].present(result(name))))


@pytest.mark.parametrize("name", MEASURED)
def test_tables_and_figures_come_from_the_json(name: str) -> None:
    assert {Path(file).suffix for file in made(name)} >= {".md", *DERIVED[:2]}
    for file, content in made(name).items():
        if not file.endswith(DERIVED):
            assert (RESULTS / file).read_bytes() == content, file


def test_nothing_else_lies_there() -> None:
    """A table whose study is gone would be a number that no command reproduces."""
    ours = {file for name in MEASURED for file in made(name) if not file.endswith(DERIVED)}
    drawn = [*RESULTS.glob("serve-*.json"), RESULTS / "plan-llada-8b.json"]
    figures = {f"{path.stem}.svg" for path in drawn} | {"training.svg"}
    assert {
        path.name for path in RESULTS.iterdir() if path.suffix in KEPT
    } == ours | figures | WRITTEN


@pytest.mark.parametrize("name", [name for name in STUDIES if name not in OF_PARTS])
def test_enough_problems_were_measured(name: str) -> None:
    assert result(name)["n"] >= FEWEST


def test_the_bundled_benchmark_was_measured_as_a_whole() -> None:
    for study in ("main", "radius"):
        sizes = {row.get("task", row.get("split")): row["n"] for row in result(study)["rows"]}
        assert sizes["pocket"] == FULL.problems
        assert sizes["pocket-long"] == FULL.long_problems


@pytest.mark.parametrize("aim", traffic.AIMS, ids=lambda aim: f"{aim.name}, {aim.load}")
def test_the_engine_reaches_what_was_aimed_at(aim: traffic.Aim) -> None:
    assert aim.reached(result("traffic-pocket")), aim.measured(result("traffic-pocket"))


@pytest.mark.parametrize(
    ("name", "quantize"),
    [
        ("load-llada-8b", None),
        *((f"load-llada-8b-{scheme}", scheme) for scheme in ("int8", "w8a8", "w8a8-head")),
    ],
)
def test_loading_takes_hardly_more_than_the_weights(name: str, quantize: str | None) -> None:
    """Measured, the process itself included."""
    found = result(name)
    assert found.get("quantize") == quantize
    assert found["peak_over_weights"] == found["peak_bytes"] / found["weight_bytes"] <= 1.08


@pytest.mark.parametrize(
    ("name", "scheme", "least"),
    [("eight-llada-8b", "w8a8", 2.5), ("eight-a2d-qwen3-0.6b", "w8a8-head", 1.8)],
)
def test_a_pass_in_eight_bits_gains_what_was_aimed_at(name: str, scheme: str, least: float) -> None:
    """At full depth, P = 512, G = 256, one thread."""
    (row,) = result(name)["rows"]
    (kept,) = [each for each in row["eight_bits_whole"] if each["scheme"] == scheme]
    assert min(kept["gain_full"], kept["gain_cached"]) >= least


def test_what_sentences_say_of_the_second_plan_holds() -> None:
    """Both rules solve more than Saber on both tasks, and three of the four intervals include 0."""
    planned = [
        row
        for row in result("confirm-doubt")["rows"]
        if row["model"] == "pocket" and row["method"] != "saber"
    ]
    assert len(planned) == 4
    assert all(row["answers"] > 0 for row in planned)
    assert sum(row["answers_interval"][0] < 0 for row in planned) == 3
