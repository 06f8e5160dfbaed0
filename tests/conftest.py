"""What all tests share: the path to the shared material, one thread, the hypothesis profiles."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() == "true"


def shared(*parts: str) -> Path:
    """A path inside the shared material: env ARCHER_SHARED, else ../shared beside the repository.

    Where it is missing, the calling test is skipped; with CI=true it fails.
    """
    root = Path(os.environ.get("ARCHER_SHARED") or REPOSITORY.parent / "shared")
    path = root.joinpath(*parts)
    if path.exists():
        return path
    reason = f"{path} does not exist; set ARCHER_SHARED to the folder of the shared material"
    if in_ci():
        pytest.fail(reason)
    pytest.skip(reason)


torch.set_num_threads(1)
settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if in_ci() else "local")
