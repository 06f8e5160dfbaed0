"""Runs the corpus as another user: `python runner.py USER TIER < request.json > report.json`.

A request names programs of the corpus to be judged, and texts to be read with the `modules` given.

USER "nobody" gives up every right first, "as-it-is" gives up none. Where Python or the project lies in
a folder that nobody may enter, the script first puts them, in a mount namespace of its own, where they
can be reached.
"""

import ctypes
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
NOBODY = 65534
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000


def become_nobody() -> None:
    needed = [Path(sys.base_prefix).resolve(), REPOSITORY]
    closed = sorted({parent for path in needed for parent in path.parents if not _open(parent)})
    if closed:
        _show(needed, closed)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def _open(folder: Path) -> bool:
    return bool(folder.stat().st_mode & 0o001)


def _show(needed: list[Path], closed: list[Path]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def must(result: int) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    must(libc.unshare(CLONE_NEWNS))
    must(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    hidden = [path for path in needed if any(path.is_relative_to(top) for top in closed)]
    handles = {path: os.open(path, os.O_PATH) for path in hidden}
    must(libc.mount(b"tmpfs", bytes(closed[0]), b"tmpfs", 0, b"mode=755"))
    for path, handle in handles.items():
        path.mkdir(parents=True)
        source = f"/proc/self/fd/{handle}".encode()
        must(libc.mount(source, bytes(path), None, MS_BIND | MS_REC, None))


def main() -> None:
    user, tier = sys.argv[1:]
    if user == "nobody":
        become_nobody()
        path = os.environ["PATH"]
        os.environ.clear()
        os.environ.update(PATH=path, LC_ALL="C.UTF-8", TOKEN="secret")
        command = [str(Path(sys.executable).resolve()), "-S", "-s", __file__, "as-it-is", tier]
        os.execv(command[0], command)
    sys.path[:0] = [str(REPOSITORY / "src"), str(REPOSITORY / "tests")]
    request = json.load(sys.stdin)
    report = {
        "uid": os.getuid(),
        "verdicts": judged(tier, set(request["programs"])),
        "readings": read(tier, request["texts"], request["modules"]),
    }
    report["peak_mib"] = peak_mib()
    json.dump(report, sys.stdout)


def peak_mib() -> int:
    """Of this program alone: `ru_maxrss` would remember the process that started it, however large."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (highest,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(highest.split()[1]) // 1024


def judged(tier: Any, names: set[str]) -> dict[str, Any]:
    """The verdicts on programs."""
    from archer.judge import Judge
    from judge.corpus import corpus

    cases = [case for case in corpus(str(REPOSITORY)) if case.name in names]
    if not cases:
        return {}
    with Judge(workers=2, tier=tier) as judge:
        graded = judge.grade_many([case.check for case in cases])
        return {cases[position].name: asdict(verdict) for position, verdict in graded}


def read(tier: Any, names: list[str], modules: dict[str, str]) -> dict[str, str]:
    """What becomes of texts, each followed by a harmless one that must be read."""
    from archer.judge.reader import Readers, Reading, Unreadable
    from tasks.bombs import BOMBS, SLOW_TEXTS

    outcomes: dict[str, str] = {}
    if not names:
        return outcomes
    with Readers(Reading(modules=modules, seconds=2.0), 1, tier) as readers:
        for name in names:
            bomb = (BOMBS.get(name) or ("",))[0]
            operation, text, facts = SLOW_TEXTS.get(name, ("mbpp_repaired", bomb, {"name": "f"}))
            try:
                readers.read(operation, text, **facts)
                outcomes[name] = "read"
            except Unreadable as fault:
                outcomes[name] = fault.verdict.outcome
            assert readers.read("last_function", "def g(): pass", otherwise="c") == "g"
    return outcomes


if __name__ == "__main__":
    main()
