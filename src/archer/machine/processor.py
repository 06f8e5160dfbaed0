"""The name of this machine's processor, for whoever writes down a time."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final

LISTING: Final = Path("/proc/cpuinfo")


def processor_name() -> str:
    """The model's name where the system tells it, else its architecture."""
    if LISTING.exists():
        for line in LISTING.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()
