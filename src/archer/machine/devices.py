"""Which device and dtype to compute with, and whether bfloat16 can be trusted on this processor.

Some machines advertise matrix instructions and then refuse them: the first bfloat16 product ends
the process with SIGILL, which no `try` can catch. So the trial runs in a child process. Nothing
here changes the environment or a setting of torch.
"""

import errno
import functools
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn import functional as F

from archer.errors import BadRequest, meant, words_of
from archer.machine.signals import signal_name

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}
SPELLINGS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
"""Short names of dtypes that people use."""
log = logging.getLogger(__name__)

ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
ISA_VALUE = "AVX512_CORE_BF16"
ISA_SETTING = f"{ISA_VARIABLE}={ISA_VALUE}"

WRONG_RESULT_CODE = 3
PROBE_SECONDS = 60.0
PROBE_SCRIPT = f"""
import sys, torch
from torch.nn.functional import linear, scaled_dot_product_attention as attention

def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))

def close(operation, *inputs):
    low = [x.bfloat16() for x in inputs]
    exact = operation(*[x.float() for x in low])
    error = operation(*low).float() - exact
    return bool(error.abs().max() <= 0.02 * exact.abs().max())

good = all(
    close(torch.matmul, draw(rows, 128), draw(128, 64))
    and close(linear, draw(rows, 128), draw(64, 128), draw(64))
    and close(attention, draw(1, 2, rows, 64), draw(1, 2, 96, 64), draw(1, 2, 96, 64))
    for rows in (1, 64)
)
sys.exit(0 if good else {WRONG_RESULT_CODE})
"""
# -P keeps the working directory off the import path: a stray torch.py there must not run.
PROBE_COMMAND = (sys.executable, "-P", "-c", PROBE_SCRIPT)


@dataclass(frozen=True)
class Attempt:
    """How one child process ended; `detail` names the signal, the exit code or the time limit."""

    outcome: Literal["ok", "killed", "wrong result", "timed out", "failed"]
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    def __str__(self) -> str:
        return f"{self.outcome} {self.detail}".rstrip()


@dataclass(frozen=True)
class Bf16:
    """The verdict on bfloat16 on the processor: as it is, and with a capped instruction set, if tried."""

    as_is: Attempt
    with_variable: Attempt | None = None

    @property
    def refusal(self) -> str | None:
        """Why bfloat16 must not be used on this processor and what to do; None where it is safe."""
        if self.as_is.ok:
            return None
        cause = f"bfloat16 is not safe on this processor: a trial computation ended as {self.as_is}"
        if self.with_variable is not None and self.with_variable.ok:
            return f"{cause}. Set {ISA_SETTING} before Python starts, or use float32."
        return f"{cause}. Use float32."


def default_device() -> str:
    """The type of the accelerator torch sees ("cuda", "mps", ...) if it passes a short trial, else "cpu"."""
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None or not torch.accelerator.is_available():
        return "cpu"
    return accelerator.type if usable(accelerator.type) else "cpu"


@functools.cache
def usable(kind: str) -> bool:
    """Whether a kind of device computes what a pass is made of; if not, one sentence says so.

    In float32 against the processor: a product, attention, a norm, and what comes back to the host.
    """
    drawn = torch.randn(1, 2, 8, 16, generator=torch.Generator().manual_seed(0))

    def computed(where: str) -> torch.Tensor:
        values = drawn.to(where)
        seen = F.scaled_dot_product_attention(values, values, values)
        rows = F.rms_norm(F.linear(seen.flatten(0, 2), values[0, 0]), (8,))
        return torch.cat((rows, rows.sort(dim=1, stable=True).values)).cpu()

    try:
        good = torch.allclose(computed(kind), computed("cpu"), atol=1e-3)
        reason = "its results are wrong"
    except Exception as error:  # noqa: BLE001 - whatever a device does wrong, there is the processor
        good, reason = False, str(error).partition("\n")[0].rstrip(".")
    if not good:
        log.warning("The device %s is not used, because %s; the processor is.", kind, reason)
    return good


def default_dtype(device_type: str) -> torch.dtype:
    """bfloat16 on an accelerator; float32 on a processor, where bfloat16 may be unsafe."""
    return torch.float32 if device_type == "cpu" else torch.bfloat16


def place(
    device: str | torch.device | None, dtype: str | torch.dtype | None
) -> tuple[torch.device, torch.dtype]:
    """Where and in what to compute, defaults filled in; refuses what this machine cannot do."""
    check_device(str(device or default_device()))
    where = torch.device(device or default_device())
    return where, dtype_on(where, dtype)


def dtype_on(device: torch.device, dtype: str | torch.dtype | None) -> torch.dtype:
    """What to compute in on a device; the default where none is named."""
    chosen = default_dtype(device.type) if dtype is None else dtype_named(dtype)
    refusal = bf16_refusal(device.type) if chosen == torch.bfloat16 else None
    if refusal is not None:
        raise BadRequest(refusal)
    return chosen


def dtype_named(dtype: str | torch.dtype) -> torch.dtype:
    """One of `DTYPES`, by any of its names."""
    chosen = DTYPES.get(SPELLINGS.get(dtype, dtype)) if isinstance(dtype, str) else dtype
    if chosen is None or chosen not in DTYPES.values():
        hint = meant(str(dtype), (*DTYPES, *SPELLINGS))
        raise BadRequest(
            f"There is no dtype {dtype!r} here.{hint} Choose one of {', '.join(DTYPES)}."
        )
    return chosen


def check_device(device: str) -> None:
    """Refuse a device that torch does not know or cannot reach, before anything is loaded."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise BadRequest(
            f"The device {device!r} cannot be used here: {str(error).splitlines()[0].rstrip('.')}. "
            "`archer doctor` lists the devices."
        ) from error


@functools.cache
def bf16_refusal(device_type: str) -> str | None:
    """None where bfloat16 may be used on this type of device, else the refusal; a processor is tried once."""
    return probe_bf16().refusal if device_type == "cpu" else None


def probe_bf16(command: Sequence[str] = PROBE_COMMAND, seconds: float = PROBE_SECONDS) -> Bf16:
    """Try bfloat16 in a child process and, where that goes wrong, once more with the remedy."""
    as_is = attempt(command, seconds, os.environ)
    if as_is.outcome in ("ok", "timed out"):
        return Bf16(as_is)
    return Bf16(as_is, attempt(command, seconds, {**os.environ, ISA_VARIABLE: ISA_VALUE}))


def attempt(
    command: Sequence[str],
    seconds: float = PROBE_SECONDS,
    environment: Mapping[str, str] = os.environ,
) -> Attempt:
    """Run a trial in a child process, which exits with `WRONG_RESULT_CODE` where its numbers are wrong."""
    try:
        child = subprocess.run(
            command,
            env=environment,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Attempt("timed out", f"after {seconds:g} s")
    except OSError as error:
        return Attempt("failed", f"to start ({error})")
    if child.returncode < 0:
        return Attempt("killed", f"by {signal_name(-child.returncode)}")
    if child.returncode == WRONG_RESULT_CODE:
        return Attempt("wrong result")
    if child.returncode:
        last_words = child.stderr.strip().rpartition("\n")[2] or "no message"
        return Attempt("failed", f"with exit code {child.returncode} ({last_words})")
    return Attempt("ok")


def out_of_memory(error: BaseException) -> bool:
    """Whether this is the device's or the system's way of saying that memory has run out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and "allocate memory" in words_of(error)
