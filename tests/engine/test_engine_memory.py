"""Any number of prompts in bounded memory, measured in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from archer.model import load
from support.folders import make_llada

MEASURE = """
import json, sys
from pathlib import Path
from archer.passes.memory import Store
from archer.model import load

made = Store.empty

def touched(*args, **options):
    store = made(*args, **options)
    store.keys.zero_(), store.values.zero_()  # what is held is there, and not only promised
    return store

Store.empty = touched
model = load(sys.argv[1], device="cpu")
bound, prompts = int(sys.argv[2]), int(sys.argv[3])
asked = [[20 + (at * 7 + i) % 180 for i in range(150)] for at in range(prompts)]
options = {"method": "llada-confidence", "length": 64, "steps": 1}

def held(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024

model.generate(asked[:8], **options)
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from now on
before = held("VmRSS")
limits = {"batch": prompts, "memory": bound} if bound else {}
done = model.generate(asked, **limits, **options)
assert len(done) == prompts and all(each.updates == 1 for each in done)
print(json.dumps({"grown": held("VmHWM") - before}))
"""

PROMPTS = 500
PEAK = Path("/proc/self/clear_refs")
counted = pytest.mark.skipif(not PEAK.exists(), reason="the kernel tells no peak that can be reset")


def grown(folder: Path, bound: int) -> int:
    """Bytes by which a process grows from eight prompts to 500; as `generate` does it by itself if 0."""
    run = [sys.executable, "-c", MEASURE, str(folder), str(bound), str(PROMPTS)]
    told = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    return int(json.loads(told)["grown"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_llada(tmp_path, n_layers=16)


@pytest.fixture
def bound(folder: Path) -> int:
    """Two fifths of what all prompts hold together."""
    shape = load(folder, device="cpu").network.shape
    each = 2 * shape.layers * shape.kv_heads * shape.head_dim * (150 + 64) * 4
    return PROMPTS * each * 2 // 5


@counted
def test_five_hundred_prompts_stay_within_the_admitted_bound(folder: Path, bound: int) -> None:
    assert grown(folder, bound) <= 1.1 * bound


@counted
@pytest.mark.slow
def test_by_default_no_more_run_than_passes_need(folder: Path, bound: int) -> None:
    assert grown(folder, 0) <= bound / 2
