"""What is known of the bundled model: rows of `docs/results/main.json` for those without the repository.

`make docs` writes the file; a test compares it with the results it was taken from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

FILE = "results.json"
TASK = "pocket"


def published() -> dict[str, Any]:
    """The rows by method: scores in per cent with their intervals, and passes per problem."""
    content: dict[str, Any] = json.loads(
        files("archer.pocket").joinpath(FILE).read_text(encoding="utf-8")
    )
    return content


def excerpt(result: Mapping[str, Any]) -> dict[str, Any]:
    """The same of the result of the study `main`."""
    rows = [row for row in result["rows"] if row.get("task") == TASK]
    return {
        "command": "archer study main",
        "n": rows[0]["n"],
        "methods": {row["method"]: _row(row) for row in rows},
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    scores = {
        name: {
            "score": row[suite],
            "low": row[f"{suite}_interval"][0],
            "high": row[f"{suite}_interval"][1],
        }
        for name, suite in (("visible", "base"), ("hidden", "extended"))
    }
    kept = {name: row[name] for name in ("arm", "updates", "full_passes", "cached_passes")}
    return {**kept, **scores}
