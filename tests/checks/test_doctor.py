"""The doctor: what it says about a machine."""

import sys

import pytest
import torch

from archer.checks import doctor
from archer.checks.products import time_products
from archer.judge import describe_tier
from archer.machine import devices
from archer.machine.devices import Attempt
from archer.network.rounded import INSTEAD, Trials

OK = Attempt("ok")
SIGILL = Attempt("killed", "by SIGILL")


def child(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script)


def test_the_report_on_this_machine_is_coherent() -> None:
    report = doctor.examine()
    assert report.devices[0] == "cpu"
    assert report.dtype == ("float32" if report.device == "cpu" else "bfloat16")
    assert report.threads == torch.get_num_threads()
    assert report.versions["torch"] == torch.__version__
    assert report.judge == describe_tier()
    assert report.bf16.as_is.outcome in ("ok", "killed", "wrong result", "timed out", "failed")
    assert (report.bf16.refusal is None) == report.bf16.as_is.ok
    assert not str(report.bf16.as_is).startswith("failed"), "the probe script itself is broken"


def test_without_products_in_whole_numbers_the_others_are_timed() -> None:
    found = time_products(Trials({}, "There is no VNNI."), bf16=False, rounds=1)
    assert set(found.milliseconds) == {"float32", "int8"}
    assert (found.operator, found.refusal) == (None, f"There is no VNNI. {INSTEAD}")
    assert found.fastest in found.milliseconds


def test_accelerators_are_listed_and_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(devices, "usable", lambda kind: True)
    report = doctor.examine(child(""))
    assert report.devices == ("cpu", "cuda:0", "cuda:1")
    assert (report.device, report.dtype) == ("cuda", "bfloat16")


@pytest.mark.parametrize("built_for", [None, torch.device("cuda")])
def test_without_a_usable_accelerator_the_processor_is_taken(
    monkeypatch: pytest.MonkeyPatch, built_for: torch.device | None
) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: built_for)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    report = doctor.examine(child(""))
    assert report.devices == ("cpu",)
    assert (report.device, report.dtype) == ("cpu", "float32")


def test_a_package_that_is_missing_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CORE_PACKAGES", ("no-such-distribution",))
    report = doctor.examine(child(""))
    assert report.versions == {"no-such-distribution": "not installed"}
