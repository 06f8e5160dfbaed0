"""Kills runs at random moments and resumes them; run by `test_killed_workers.py` in a process of its own.

    python killing.py WORK KILLS SEED

Every run is forked off a process that has everything loaded. The process adopts orphans, so that whatever
a killed run leaves behind shows up among its children. Prints one JSON object.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch

from archer.runs.evaluation import evaluate
from archer.runs.manifest import RunRequest
from runs.toy import Quiet, results, toy_model, toy_request

PR_SET_CHILD_SUBREAPER = 36
GRACE = 10.0
"""Seconds in which what a killed run started must have ended by itself."""


def forked(work: Callable[[], object], kill_after: float | None) -> bool:
    """Do this in a process of its own, killed after so many seconds; whether it had ended by then."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def run(request: RunRequest, out: Path, kill_after: float | None) -> bool:
    """Start a run, kill it after so many seconds; whether it had ended by then."""
    return forked(lambda: evaluate(request, out, Quiet()), kill_after)


def orphans() -> list[int]:
    """Processes that killed runs left behind, after some time to end by themselves."""
    own = os.getpid()
    deadline = time.monotonic() + GRACE
    while True:
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                return []
        if time.monotonic() > deadline:
            children = Path(f"/proc/{own}/task/{own}/children").read_text()
            return [int(number) for number in children.split()]
        time.sleep(0.01)


def main(work: Path, kills: int, seed: int) -> dict[str, object]:
    torch.set_num_threads(1)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rng = Random(seed)
    request = toy_request(toy_model(work / "model"))
    started = time.monotonic()
    finished = run(request, work / "unbroken", None)
    whole = time.monotonic() - started
    expected = results(work / "unbroken")
    cut = same = left = 0
    for number in range(kills):
        out = work / f"run-{number}"
        cut += not run(request, out, rng.uniform(0, whole))
        left += len(orphans())
        finished = run(request, out, None) and finished
        same += results(out) == expected
    return {"finished": finished, "kills": kills, "cut": cut, "same": same, "left": left}


if __name__ == "__main__":
    found = main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps(found) + "\n")
