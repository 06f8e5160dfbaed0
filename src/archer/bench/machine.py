"""What the figures were measured on: without it a time means nothing."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch

CPU_FACTS = Path("/proc/cpuinfo")


def machine(device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Processor, cores, threads, device, torch, dtype, and how busy the machine was."""
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": _device(device),
        "dtype": str(dtype).removeprefix("torch."),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": None if sys.platform == "win32" else round(os.getloadavg()[0], 2),
    }


def _device(device: torch.device) -> str:
    if device.type == "cpu":
        return "cpu"
    return str(torch.get_device_module(device).get_device_name(device))


def _processor() -> str:
    """The model's name where the system tells it, else its architecture."""
    if CPU_FACTS.exists():
        for line in CPU_FACTS.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
