"""What an extra of the distribution brings: asked for before any work, and refused by its name."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from archer.errors import BadRequest

SERVE = ("fastapi", "uvicorn", "prometheus_client")


def require(what: str, modules: Sequence[str], extra: str) -> None:
    """Refuse what needs modules that are not installed; nothing is imported."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise BadRequest(f"{what} needs {', '.join(missing)}: pip install 'archer-dlm[{extra}]'.")
