"""What is said of the machine beside a time, and what the kernel's files say is left of it."""

import os
from pathlib import Path

import pytest
import torch

from archer.engine import footprint
from archer.machine import description
from archer.machine.available import available
from archer.machine.description import describe, describe_torch, usable_cores
from support.networks import backbone


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


MEMINFO = "MemTotal:       16000 kB\nMemFree:          100 kB\nMemAvailable:    9000 kB\n"
MACHINE = 9000 * 1024


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, MACHINE),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, MACHINE),
        (
            {
                "proc/self/cgroup": "0::/box\n",
                "sys/fs/cgroup/box/memory.max": "5000\n",
                "sys/fs/cgroup/box/memory.current": "3000\n",
                "sys/fs/cgroup/box/memory.stat": "anon 1500\ninactive_file 700\n",
            },
            2700,
        ),
        (
            {
                "proc/self/cgroup": "0::/outer/inner\n",
                "sys/fs/cgroup/outer/inner/memory.max": "max\n",
                "sys/fs/cgroup/outer/inner/memory.current": "10\n",
                "sys/fs/cgroup/outer/memory.max": "600\n",
                "sys/fs/cgroup/outer/memory.current": "100\n",
            },
            500,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/gone\n3:cpuset:/\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "800\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "300\n",
                "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 50\n",
            },
            550,
        ),
        (
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": "100\n",
                "sys/fs/cgroup/memory.current": "200\n",
            },
            0,
        ),
    ],
)
def test_the_least_that_machine_and_groups_have_left(
    tmp_path: Path, files: dict[str, str], left: int
) -> None:
    assert available(written(tmp_path, {"proc/meminfo": MEMINFO} | files)) == left


def test_without_such_files_it_is_what_the_machine_has(tmp_path: Path) -> None:
    assert available(tmp_path) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < available() <= available(tmp_path)


def test_requests_may_hold_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "available", lambda: 1000)
    assert footprint.default_limit(backbone().network) == 500
