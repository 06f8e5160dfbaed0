"""By how much loading a checkpoint raises the peak memory of a process that does nothing else."""

import subprocess
import sys
from pathlib import Path

from support.folders import make_llada

MEASURE = """
import sys
from pathlib import Path
import torch
from archer.network.shape import Scheme
from archer.network.shard import Shard
from archer.loading.checkpoint import load_network, read_folder

small, large, dtype, kept, rank = sys.argv[1:]

def loaded(folder):
    shard = Shard(int(rank), 2) if rank else None
    return load_network(
        read_folder(Path(folder)),
        device=torch.device("cpu"), dtype=getattr(torch, dtype), scheme=Scheme(kept), shard=shard,
    )

def held(key):  # not ru_maxrss: a child inherits that from its parent
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[key].split()[0]) * 1024

loaded(small)
Path("/proc/self/clear_refs").write_text("5")
before = held("VmRSS")
network = loaded(large)
print(held("VmHWM") - before, sum(p.numel() * p.element_size() for p in network.parameters()))
"""


def peak_of_loading(
    folder: Path, dtype: str, *, kept: str = "plain", rank: int | None = None
) -> tuple[int, int]:
    """Bytes that the peak grew by, and the bytes of the weights; of one of two shards, given its rank.

    A small checkpoint is loaded before: torch's own code comes into memory as it is first used, tens of
    megabytes, more or fewer by what else the machine has read.
    """
    small = make_llada(folder.parent / "small")
    own = "" if rank is None else str(rank)
    command = [sys.executable, "-c", MEASURE, str(small), str(folder), dtype, kept, own]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    grown, size = map(int, done.stdout.split())
    return grown, size
