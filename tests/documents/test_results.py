"""The committed results: every study is there at full size, and its tables and figures come from its JSON."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="figures come with the extra [report]")

from archer.runs.workspace import FULL
from archer_studies.output import files_of
from archer_studies.registry import BEYOND, STUDIES

RESULTS = Path(__file__).parents[2] / "docs" / "results"
MEASURED = STUDIES | {
    name: study for name, study in BEYOND.items() if (RESULTS / f"{name}.json").exists()
}
"""All of the paper's; beyond it those that have a result."""
KEPT, DERIVED = (".md", ".svg"), (".csv", ".tex", ".png")
"""Formats that are committed beside the JSON, and those that `make results` makes of it when wanted."""
FEWEST = 120
ABOUT_PROBLEMS = (
    "main",
    "backbones",
    "radius",
    "rollback",
    "cross-domain",
    "cache-use",
    "age",
    "cases",
    "parallel",
)
"""Studies whose n counts problems; that of the others counts pairs, probes or repetitions."""


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
    assert {path.name for path in RESULTS.iterdir() if path.suffix in KEPT} == ours | figures


@pytest.mark.parametrize("name", ABOUT_PROBLEMS)
def test_enough_problems_were_measured(name: str) -> None:
    assert result(name)["n"] >= FEWEST


def test_the_bundled_benchmark_was_measured_as_a_whole() -> None:
    for study in ("main", "radius"):
        sizes = {row.get("task", row.get("split")): row["n"] for row in result(study)["rows"]}
        assert sizes["pocket"] == FULL.problems
        assert sizes["pocket-long"] == FULL.long_problems
