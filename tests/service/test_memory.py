"""Any number of prompts in bounded memory, measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from archer.model import load
from folders import make_llada

MEASURE = """
import json, resource, sys
from archer.model import load

model = load(sys.argv[1], device="cpu")
bound, prompts = int(sys.argv[2]), int(sys.argv[3])
asked = [[20 + (at * 7 + i) % 180 for i in range(150)] for at in range(prompts)]
options = {"method": "llada-confidence", "length": 64, "steps": 2}

def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

model.generate(asked[:1], **options)
before = used()
done = model.generate(asked, batch=prompts, memory=bound, **options)
assert len(done) == prompts and all(each.updates == 2 for each in done)
print(json.dumps({"grown": used() - before}))
"""


def test_five_hundred_prompts_stay_within_the_admitted_bound(tmp_path: Path) -> None:
    """All of them at once would hold ten times as much."""
    folder = make_llada(tmp_path, n_layers=8)
    model = load(folder, device="cpu")
    shape = model.network.shape
    each = 2 * shape.layers * shape.kv_heads * shape.head_dim * (150 + 64) * 4
    prompts = 500
    bound = prompts * each // 10
    run = [sys.executable, "-c", MEASURE, str(folder), str(bound), str(prompts)]
    grown = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    pass_of_a_budget = 1024 * (shape.vocabulary + 8 * shape.width) * 4
    assert grown["grown"] <= 1.1 * bound + pass_of_a_budget
