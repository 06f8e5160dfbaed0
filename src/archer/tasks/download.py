"""Fetching a data file from where it was published, at a pinned revision.

Nothing is trusted here: the caller compares the digest.
"""

from __future__ import annotations

import os
import tempfile
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import URLError

from archer.errors import reason_of

CODE_HOST = "https://github.com"
TIMEOUT_SECONDS = 30
LARGEST = 64 << 20
"""Bytes; every file that comes from a Git repository is far smaller."""


class Unreachable(Exception):
    """A file could not be fetched; the message says why."""


@dataclass(frozen=True)
class Git:
    """A file in a public Git repository at one commit."""

    repository: str
    commit: str
    path: str

    def __str__(self) -> str:
        return f"{CODE_HOST}/{self.repository}/raw/{self.commit}/{self.path}"


@dataclass(frozen=True)
class Hub:
    """A file in a data set of the hub at one commit."""

    repository: str
    commit: str
    path: str

    def __str__(self) -> str:
        return f"the file {self.path} of the hub data set {self.repository}@{self.commit}"


def cache_folder() -> Path:
    """Where fetched files are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "archer" / "data"


def fetch(origin: Git | Hub, place: Path) -> Path:
    """Fetches a file; the hub's own cache keeps what comes from the hub, `place` all else."""
    return _from_hub(origin) if isinstance(origin, Hub) else _from_git(origin, place)


def _from_git(origin: Git, place: Path) -> Path:
    try:
        with urllib.request.urlopen(str(origin), timeout=TIMEOUT_SECONDS) as response:
            content = response.read(LARGEST)
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
            file.write(content)
        Path(file.name).replace(place)
    except (OSError, HTTPException) as error:
        raise Unreachable(_why(error)) from error
    return place


def _why(error: OSError | HTTPException) -> str:
    """The reason in plain words; urllib wraps what the operating system says."""
    if isinstance(error, URLError) and isinstance(error.reason, OSError):
        return reason_of(error.reason)
    return str(error) or type(error).__name__


def _from_hub(origin: Hub) -> Path:
    # Imported here, because it takes long to import and is seldom needed.
    from huggingface_hub import hf_hub_download

    try:
        path = hf_hub_download(
            origin.repository, origin.path, repo_type="dataset", revision=origin.commit
        )
    except Exception as error:  # network libraries differ by version and share no root
        raise Unreachable(" ".join(str(error).split()) or type(error).__name__) from error
    return Path(path)
