"""The choice of device and dtype: what is said of children that die, hang or miscalculate."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from archer.machine import devices
from archer.machine.devices import ISA_SETTING, ISA_VALUE, ISA_VARIABLE, Attempt, Bf16
from archer.machine.signals import signal_name

OK = Attempt("ok")
SIGILL = Attempt("killed", "by SIGILL")
DIE = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


def child(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script)


@pytest.fixture
def fresh_cache() -> Iterator[None]:
    devices.bf16_refusal.cache_clear()
    yield
    devices.bf16_refusal.cache_clear()


def test_a_child_that_ends_well_is_ok_and_not_tried_twice() -> None:
    assert devices.probe_bf16(child("")) == Bf16(OK)
    assert Bf16(OK).refusal is None


def test_the_variable_is_the_remedy_where_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ISA_VARIABLE, raising=False)
    dies_without = f"import os\nif os.environ.get({ISA_VARIABLE!r}) != {ISA_VALUE!r}:\n    {DIE}"
    verdict = devices.probe_bf16(child(dies_without))
    assert verdict == Bf16(SIGILL, OK)
    assert verdict.refusal is not None
    assert verdict.refusal.endswith(f"Set {ISA_SETTING} before Python starts, or use float32.")


WRONG = f"raise SystemExit({devices.WRONG_RESULT_CODE})"


@pytest.mark.parametrize(
    ("script", "first", "again"),
    [
        (DIE, SIGILL, True),
        (WRONG, Attempt("wrong result"), True),
        ("import time; time.sleep(60)", Attempt("timed out", "after 1 s"), False),
    ],
)
def test_how_a_child_ended_is_told_and_some_are_tried_with_the_variable(
    script: str, first: Attempt, again: bool
) -> None:
    seconds = 1 if "sleep" in script else 60
    verdict = devices.probe_bf16(child(script), seconds=seconds)
    assert verdict == Bf16(first, first if again else None)
    assert verdict.refusal is not None
    assert str(first) in verdict.refusal
    assert verdict.refusal.endswith("Use float32.")
    assert ISA_VARIABLE not in verdict.refusal


@pytest.mark.parametrize(
    ("script", "last_words"),
    [("raise ImportError('no torch')", "ImportError: no torch"), ("exit(1)", "no message")],
)
def test_any_other_failure_shows_the_childs_last_words(script: str, last_words: str) -> None:
    attempt = devices.probe_bf16(child(script)).as_is
    assert attempt == Attempt("failed", f"with exit code 1 ({last_words})")


def test_a_child_that_cannot_start_is_a_failure_and_no_exception() -> None:
    attempt = devices.probe_bf16(("./no-such-interpreter",)).as_is
    assert str(attempt).startswith("failed to start (")


def test_a_signal_without_a_name_is_given_by_number() -> None:
    nameless = next(n for n in range(1, 200) if n not in set(signal.Signals))
    assert signal_name(nameless) == f"signal {nameless}"


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
        exec({devices.PROBE_SCRIPT!r}, {{}})
    except SystemExit as end:
        print(end.code)
"""
    done = subprocess.run(child(harness), capture_output=True, text=True, check=True)
    wrong = str(devices.WRONG_RESULT_CODE)
    assert done.stdout.split() == ["0", wrong, wrong, wrong]


@pytest.mark.usefixtures("fresh_cache")
def test_the_refusal_is_found_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = iter([Bf16(SIGILL)])
    monkeypatch.setattr(devices, "probe_bf16", lambda: next(verdicts))
    assert devices.bf16_refusal("cpu") == Bf16(SIGILL).refusal
    assert devices.bf16_refusal("cpu") == Bf16(SIGILL).refusal


@pytest.mark.usefixtures("fresh_cache")
def test_an_accelerator_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "probe_bf16", lambda: pytest.fail("probed"))
    assert devices.bf16_refusal("cuda") is None
