"""What is known of the bundled model: rows of `docs/results/main.json`, written here by `make docs`."""

from typing import Any

from archer.files import bundled_json

FILE = "results.json"


def published() -> dict[str, Any]:
    """The rows by method: scores in per cent with their intervals, and passes per problem."""
    return bundled_json("archer.pocket", FILE)
