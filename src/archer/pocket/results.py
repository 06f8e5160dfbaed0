"""What is known of the bundled model: rows of `docs/results/main.json` for those without the repository.

`make docs` writes the file; a test compares it with the results it was taken from.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

FILE = "results.json"


def published() -> dict[str, Any]:
    """The rows by method: scores in per cent with their intervals, and passes per problem."""
    content: dict[str, Any] = json.loads(
        files("archer.pocket").joinpath(FILE).read_text(encoding="utf-8")
    )
    return content
