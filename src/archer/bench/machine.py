"""What the figures were measured on: without it a time means nothing."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

import torch

from archer.machine.processor import processor_name


def machine(device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Processor, cores, threads, device, torch, dtype, and how busy the machine was."""
    return {
        "cpu": processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": device_name(device),
        "dtype": str(dtype).removeprefix("torch."),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": None if sys.platform == "win32" else round(os.getloadavg()[0], 2),
    }


def device_name(device: torch.device) -> str:
    """As its maker calls it."""
    if device.type == "cpu":
        return "cpu"
    return str(torch.get_device_module(device).get_device_name(device))
