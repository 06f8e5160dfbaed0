"""What is said of the machine beside a time."""

import os
from pathlib import Path

import pytest
import torch

from archer.machine import description
from archer.machine.description import describe, describe_torch, usable_cores


def test_the_machine_is_described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listing = tmp_path / "cpuinfo"
    monkeypatch.setattr(description, "LISTING", listing)
    assert describe()["cpu"] == os.uname().machine
    listing.write_text("processor : 0\nmodel name : Fast One\nmodel name : Other\n")
    assert describe()["cpu"] == "Fast One"
    assert describe()["cores"] == len(os.sched_getaffinity(0))
    facts = describe_torch(torch.device("cpu"), torch.float32)
    assert facts["threads"] == torch.get_num_threads()
    assert (facts["device"], facts["dtype"]) == ("cpu", "float32")
    assert set(facts) > set(describe())


def test_an_accelerator_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Vendor:
        @staticmethod
        def get_device_name(device: torch.device) -> str:
            return f"GPU {device.index}"

    monkeypatch.setattr(torch, "get_device_module", lambda device: Vendor)
    assert describe_torch(torch.device("cuda", 1), torch.bfloat16)["device"] == "GPU 1"


def test_usable_cores_on_systems_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert usable_cores() == os.cpu_count()
