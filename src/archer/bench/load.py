"""Time and memory of loading a checkpoint, in a process of its own: the highest memory stays for ever."""

import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch

from archer.bench.facts import Result
from archer.errors import ArcherError, BadRequest
from archer.loading.source import Source
from archer.machine.description import describe_torch
from archer.pages.tables import Field, Table, table_of

CHILD = "import sys; from archer.bench.load import child; child(*sys.argv[1:])"
PROMPT = 32
RESPONSE = 32


@dataclass(frozen=True)
class Loaded:
    """What the child found."""

    model: str
    seconds: float
    weight_bytes: int
    """Size of the weights in the dtype they were loaded in."""
    before_bytes: int
    """Memory of the process before loading: Python and its libraries."""
    peak_bytes: int
    """Highest resident memory while loading."""
    decoded_peak_bytes: int
    """The same after the updates."""
    updates: int
    update_seconds: float
    machine: dict[str, Any]
    quantize: str | None = None
    layers: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "peak_over_weights": self.peak_bytes / self.weight_bytes,
            "peak_over_weights_net": (self.peak_bytes - self.before_bytes) / self.weight_bytes,
        }


def measure_load(source: Source, *, updates: int = 0) -> Loaded:
    """Load in a fresh process and decode `updates` updates of a short response."""
    if not 0 <= updates <= RESPONSE:
        raise BadRequest(
            f"The number of updates must be a whole number from 0 to {RESPONSE}, not {updates}."
        )
    request = {"source": asdict(source), "updates": updates}
    done = subprocess.run(
        [sys.executable, "-P", "-c", CHILD, json.dumps(request), str(torch.get_num_threads())],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == BadRequest.exit_code:
        raise BadRequest(done.stderr.strip())
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2] or "no message"
        raise ArcherError(
            f"The process that loaded {source.name!r} ended with exit code {done.returncode}: {last}."
        )
    return Loaded(**json.loads(done.stdout))


def child(request: str, threads: str) -> None:
    """The other side: load, decode, and write what it took to stdout."""
    torch.set_num_threads(int(threads))
    try:
        result = _load(**json.loads(request))
    except ArcherError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    sys.stdout.write(json.dumps(asdict(result)))


def _load(source: dict[str, Any], updates: int) -> Loaded:
    from archer.model import Model

    before = _peak()
    start = time.perf_counter()
    loaded = Model.open(Source(**source))
    seconds, peak = time.perf_counter() - start, _peak()
    network = loaded.network
    started, decoded = time.perf_counter(), 0
    ids = [0 if loaded.folder.mask else 1] * PROMPT
    for _ in zip(range(updates), loaded.stream([ids], length=RESPONSE), strict=False):
        decoded += 1
    return Loaded(
        model=loaded.name,
        seconds=seconds,
        weight_bytes=sum(each.nbytes for each in network.parameters()),
        before_bytes=before,
        peak_bytes=peak,
        decoded_peak_bytes=_peak(),
        updates=decoded,
        update_seconds=time.perf_counter() - started,
        machine=describe_torch(network.device, network.dtype),
        quantize=loaded.source.quantize,
        layers=network.shape.layers,
    )


def _peak() -> int:
    """Highest resident memory of this process so far, in bytes; the system tells KiB, macOS bytes."""
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else highest * 1024


def table(result: Result) -> Table:
    sizes = {
        "weights MiB": "weight_bytes",
        "before MiB": "before_bytes",
        "peak MiB": "peak_bytes",
        "after updates MiB": "decoded_peak_bytes",
    }
    row = {head: result[name] / (1 << 20) for head, name in sizes.items()}
    fields = (
        Field("seconds", digits=1),
        *(Field(head, digits=0) for head in sizes),
        Field("peak_over_weights", "peak / weights", 3),
        Field("peak_over_weights_net", "without before", 3),
    )
    return table_of("Loading", fields, [{**result, **row}])
