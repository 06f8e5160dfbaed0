"""What a time was measured on: without it a time means nothing."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

LISTING: Final = Path("/proc/cpuinfo")


def describe() -> dict[str, Any]:
    """Processor, cores that may be used, system, Python, and how busy the machine is."""
    return {
        "cpu": processor_name(),
        "cores": usable_cores(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": None if sys.platform == "win32" else round(os.getloadavg()[0], 2),
    }


def describe_torch(device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """The same with what torch computes on."""
    import torch

    return describe() | {
        "threads": torch.get_num_threads(),
        "device": device_name(device),
        "dtype": str(dtype).removeprefix("torch."),
        "torch": str(torch.__version__),
    }


def usable_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def processor_name() -> str:
    """The model's name where the system tells it, else its architecture."""
    if LISTING.exists():
        for line in LISTING.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()


def instructions() -> frozenset[str] | None:
    """What the processor offers, as the system names it; None where the system does not tell."""
    if not LISTING.exists():
        return None
    for line in LISTING.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def device_name(device: torch.device) -> str:
    """As its maker calls it."""
    import torch

    if device.type == "cpu":
        return "cpu"
    return str(torch.get_device_module(device).get_device_name(device))
