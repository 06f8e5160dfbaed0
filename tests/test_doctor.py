"""The doctor: what it says about a machine, and about children that die, hang or miscalculate."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from archer import doctor
from archer.doctor import ISA_SETTING, ISA_VALUE, ISA_VARIABLE, Attempt, Bf16, Report
from archer.judge import describe_tier

OK = Attempt("ok")
SIGILL = Attempt("killed", "by SIGILL")
DIE = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


def child(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script)


@pytest.fixture
def fresh_cache() -> Iterator[None]:
    doctor.bf16_refusal.cache_clear()
    yield
    doctor.bf16_refusal.cache_clear()


def test_a_child_that_ends_well_is_ok_and_not_tried_twice() -> None:
    assert doctor.probe_bf16(child("")) == Bf16(OK)
    assert Bf16(OK).refusal is None


def test_a_child_killed_by_a_signal_is_named_and_tried_with_the_variable() -> None:
    verdict = doctor.probe_bf16(child(DIE))
    assert verdict == Bf16(SIGILL, SIGILL)
    assert verdict.refusal is not None
    assert "killed by SIGILL" in verdict.refusal
    assert verdict.refusal.endswith("Use float32.")
    assert ISA_VARIABLE not in verdict.refusal


def test_the_variable_is_the_remedy_where_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ISA_VARIABLE, raising=False)
    dies_without = f"import os\nif os.environ.get({ISA_VARIABLE!r}) != {ISA_VALUE!r}:\n    {DIE}"
    verdict = doctor.probe_bf16(child(dies_without))
    assert verdict == Bf16(SIGILL, OK)
    assert verdict.refusal is not None
    assert verdict.refusal.endswith(f"Set {ISA_SETTING} before Python starts, or use float32.")


def test_a_child_that_hangs_is_stopped_and_not_tried_twice() -> None:
    verdict = doctor.probe_bf16(child("import time; time.sleep(60)"), seconds=0.2)
    assert verdict == Bf16(Attempt("timed out", "after 0.2 s"))
    assert verdict.refusal is not None
    assert "timed out after 0.2 s" in verdict.refusal


def test_a_wrong_result_is_told_from_a_crash() -> None:
    verdict = doctor.probe_bf16(child(f"raise SystemExit({doctor.WRONG_RESULT_CODE})"))
    assert verdict.as_is == Attempt("wrong result")
    assert verdict.refusal is not None
    assert "wrong result" in verdict.refusal


@pytest.mark.parametrize(
    ("script", "last_words"),
    [("raise ImportError('no torch')", "ImportError: no torch"), ("exit(1)", "no message")],
)
def test_any_other_failure_shows_the_childs_last_words(script: str, last_words: str) -> None:
    attempt = doctor.probe_bf16(child(script)).as_is
    assert attempt == Attempt("failed", f"with exit code 1 ({last_words})")


def test_a_child_that_cannot_start_is_a_failure_and_no_exception() -> None:
    attempt = doctor.probe_bf16(("./no-such-interpreter",)).as_is
    assert str(attempt).startswith("failed to start (")


def test_a_signal_without_a_name_is_given_by_number() -> None:
    nameless = next(n for n in range(1, 200) if n not in set(signal.Signals))
    assert doctor._signal_name(nameless) == f"signal {nameless}"


def test_the_probe_script_finds_each_operation_that_miscalculates() -> None:
    """Runs the script with harmless stand-ins for the operations, one of which returns zeros."""
    harness = f"""
import torch
import torch.nn.functional as F
places = [(torch, "matmul"), (F, "linear"), (F, "scaled_dot_product_attention")]
originals = [getattr(*place) for place in places]

def stand_in(original, broken):
    def operation(*inputs):
        out = original(*[x.float() for x in inputs])
        return out * 0 if broken and inputs[0].dtype == torch.bfloat16 else out
    return operation

for culprit in [None, *places]:
    for place, original in zip(places, originals):
        setattr(*place, stand_in(original, place == culprit))
    try:
        exec({doctor.PROBE_SCRIPT!r}, {{}})
    except SystemExit as end:
        print(end.code)
"""
    done = subprocess.run(child(harness), capture_output=True, text=True, check=True)
    wrong = str(doctor.WRONG_RESULT_CODE)
    assert done.stdout.split() == ["0", wrong, wrong, wrong]


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


def make_report(bf16: Bf16) -> Report:
    versions = {"torch": "2.13.0"}
    return Report("3.11.7", "Linux", ("cpu",), "cpu", "float32", 2, versions, bf16, "B: seccomp")


def test_the_report_as_text_ends_with_the_remedy() -> None:
    lines = make_report(Bf16(SIGILL, OK)).lines()
    assert "python       3.11.7" in lines
    assert "default      float32 on cpu" in lines
    assert "torch        2.13.0" in lines
    assert "judge        B: seccomp" in lines
    assert "bf16 on cpu  killed by SIGILL" in lines
    assert f"bf16 capped  ok ({ISA_SETTING})" in lines
    assert lines[-1].endswith("or use float32.")


def test_the_report_of_a_sound_machine_has_no_remedy() -> None:
    assert make_report(Bf16(OK)).lines()[-1] == "bf16 on cpu  ok"


def test_the_report_survives_json() -> None:
    report = make_report(Bf16(SIGILL, OK))
    as_read = json.loads(json.dumps(report.as_dict()))
    assert as_read == report.as_dict()
    assert as_read["devices"] == ["cpu"]
    assert as_read["bf16"]["as_is"] == {"outcome": "killed", "detail": "by SIGILL"}
    assert as_read["bf16"]["refusal"] == report.bf16.refusal


def test_accelerators_are_listed_and_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
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


@pytest.mark.usefixtures("fresh_cache")
def test_the_refusal_is_found_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = iter([Bf16(SIGILL)])
    monkeypatch.setattr(doctor, "probe_bf16", lambda: next(verdicts))
    assert doctor.bf16_refusal("cpu") == Bf16(SIGILL).refusal
    assert doctor.bf16_refusal("cpu") == Bf16(SIGILL).refusal


@pytest.mark.usefixtures("fresh_cache")
def test_an_accelerator_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "probe_bf16", lambda: pytest.fail("probed"))
    assert doctor.bf16_refusal("cuda") is None
