"""What this machine offers: devices, versions, bfloat16, eight bits, and how programs would be judged."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from archer.checks.products import Products, time_products
from archer.judge import describe_tier
from archer.machine.description import describe
from archer.machine.devices import (
    ISA_SETTING,
    PROBE_COMMAND,
    PROBE_SECONDS,
    Bf16,
    default_device,
    default_dtype,
    probe_bf16,
)
from archer.network.rounded import probe

CORE_PACKAGES = (
    "archer-dlm",
    "torch",
    "numpy",
    "safetensors",
    "tokenizers",
    "jinja2",
    "huggingface-hub",
    "pydantic",
    "cyclopts",
    "rich",
)


@dataclass(frozen=True)
class MachineReport:
    """What `examine` found: how models are loaded by default, and how programs would be judged here."""

    python: str
    platform: str
    devices: tuple[str, ...]
    device: str
    dtype: str
    threads: int
    versions: Mapping[str, str]
    bf16: Bf16
    products: Products
    judge: str

    def to_dict(self) -> dict[str, Any]:
        """The findings as plain JSON values."""
        bf16 = {**asdict(self.bf16), "refusal": self.bf16.refusal}
        products = {**asdict(self.products), "fastest": self.products.fastest}
        return {
            **asdict(self),
            "devices": list(self.devices),
            "bf16": bf16,
            "products": products,
        }

    def facts(self) -> dict[str, str]:
        """The findings by name, as text for people."""
        facts = {
            "python": self.python,
            "platform": self.platform,
            "devices": ", ".join(self.devices),
            "default": f"{self.dtype} on {self.device}",
            "threads": str(self.threads),
            **self.versions,
            "judge": self.judge,
            "bf16 on cpu": str(self.bf16.as_is),
            "w8a8 on cpu": "refused"
            if self.products.operator is None
            else f"ok ({self.products.operator})",
            "fastest on cpu": str(self.products),
        }
        if self.bf16.with_variable is not None:
            facts["bf16 capped"] = f"{self.bf16.with_variable} ({ISA_SETTING})"
        return facts


def examine(
    command: Sequence[str] = PROBE_COMMAND, seconds: float = PROBE_SECONDS
) -> MachineReport:
    """Look at this machine. Takes some seconds: bfloat16, eight bits and a sandbox are tried in processes."""
    device, machine = default_device(), describe()
    bf16 = probe_bf16(command, seconds)
    accelerators = 0 if device == "cpu" else torch.accelerator.device_count()
    return MachineReport(
        python=machine["python"],
        platform=machine["platform"],
        devices=("cpu", *(f"{device}:{index}" for index in range(accelerators))),
        device=device,
        dtype=str(default_dtype(device)).removeprefix("torch."),
        threads=torch.get_num_threads(),
        versions={name: _installed_version(name) for name in CORE_PACKAGES},
        bf16=bf16,
        products=time_products(probe(), bf16=bf16.as_is.ok and command == PROBE_COMMAND),
        judge=describe_tier(),
    )


def _installed_version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"
