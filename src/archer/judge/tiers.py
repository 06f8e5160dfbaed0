"""The ways to confine programs, strongest first, and what each consists of.

A   Linux: namespaces (as root, or through user namespaces), read-only root, Landlock where the
    kernel has it, seccomp, resource limits
B   Linux without namespaces: Landlock, seccomp, resource limits, a private folder; no privilege
C   Linux with a working bwrap: its namespaces, seccomp, resource limits
D   macOS: Seatbelt profile, resource limits, memory watched (not tried on a real machine)
F   nothing but resource limits: only when asked for by name of its danger
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from archer.errors import BadRequest
from archer.judge.checks import NoSandbox, Tier
from archer.judge.folders import Folders
from archer.judge.plan import Plan, Role, landlock_version, make_plan, standard_library
from archer.judge.run import Bench
from archer.judge.zygote_process import ZygoteProcess

BY_STRENGTH: Final[tuple[Tier, ...]] = ("A", "B", "C", "D")
NEEDS_FOLDERS: Final = ("B", "C", "D", "F")

# What a tier puts in a program's way. The self-test tries each of these.
WALLS: Final = frozenset({"protocol", "limits", "files", "disk", "network", "processes", "signals"})
LAYERS: Final[dict[Tier, frozenset[str]]] = {
    "A": WALLS | {"identity"},
    "B": WALLS | {"names"},
    "C": WALLS | {"names"},
    "D": frozenset({"protocol", "limits", "files", "network", "processes"}),
    "F": frozenset({"protocol", "limits"}),
}

Started = TypeVar("Started")


class Workshop:
    """Makes benches of one tier, and owns the temporary folders of their programs."""

    def __init__(self, tier: Tier, packages: tuple[str, ...]) -> None:
        self.tier = tier
        self._packages = packages
        self.plan: Plan = make_plan(tier, "program", packages)
        bwrap = find_bwrap() if tier == "C" else None
        self._folders = Folders() if tier in NEEDS_FOLDERS else None
        self._command: list[str] = []
        if bwrap is not None and self._folders is not None:
            shown = [str(standard_library()), *self.plan["packages"].values()]
            self._command = bwrap_command(bwrap, shown, str(self._folders.base))

    def zygote(
        self,
        role: Role,
        modules: Mapping[str, str] | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> ZygoteProcess:
        """A zygote behind its layers, with changes to its plan; NoSandbox if a layer is refused."""
        started = self._begin(role, modules, changes)
        try:
            started.wait_until_started()
        except BaseException:
            started.close()
            raise
        return started

    def bench(self) -> Bench:
        """Starts a bench; NoSandbox if the machine refuses a layer."""
        programs = self._begin("program")
        try:
            tests = self._begin("test")
        except BaseException:
            programs.close()
            raise
        bench = Bench(programs, tests)
        try:
            programs.wait_until_started()
            tests.wait_until_started()
        except BaseException:
            bench.close()
            raise
        return bench

    def _begin(
        self,
        role: Role,
        modules: Mapping[str, str] | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> ZygoteProcess:
        plan = make_plan(self.tier, role, () if role == "test" else self._packages)
        return ZygoteProcess(plan | dict(changes or {}), self._command, self._folders, modules)

    def close(self) -> None:
        """Removes the temporary folders."""
        if self._folders is not None:
            self._folders.close()


def open_bench(
    tier: Tier | None, unsafe_no_sandbox: bool, packages: tuple[str, ...]
) -> tuple[Workshop, Bench]:
    """The strongest tier that works here (or the one asked for), with a first bench.

    NoSandbox, with the reason of each refusal, when none works.
    """
    if tier is not None and tier not in LAYERS:
        raise BadRequest(f"There is no tier {tier!r}; there are {', '.join(LAYERS)}.")
    if tier == "F" and not unsafe_no_sandbox:
        raise BadRequest("Tier F confines nothing; it needs unsafe_no_sandbox=True as well.")
    candidates: tuple[Tier, ...] = (tier,) if tier else BY_STRENGTH
    if unsafe_no_sandbox and tier is None:
        candidates += ("F",)
    return open_workshop(candidates, packages, Workshop.bench)


def open_workshop(
    candidates: Sequence[Tier], packages: tuple[str, ...], start: Callable[[Workshop], Started]
) -> tuple[Workshop, Started]:
    """The first of some tiers that works here, and what was started in it to find that out."""
    refusals = []
    for candidate in candidates:
        try:
            return _try(candidate, packages, start)
        except NoSandbox as refusal:
            refusals.append(f"{candidate}: {refusal}")
    raise NoSandbox(
        f"Programs cannot be confined on this machine. {' '.join(refusals)} Programs of unknown "
        "origin can then do anything to it; unsafe_no_sandbox runs them all the same."
    )


def _try(
    tier: Tier, packages: tuple[str, ...], start: Callable[[Workshop], Started]
) -> tuple[Workshop, Started]:
    workshop = Workshop(tier, packages)
    try:
        return workshop, start(workshop)
    except BaseException:
        workshop.close()
        raise


def find_bwrap() -> str:
    """The path of bwrap. Whether it works is found out by starting a zygote under it."""
    if os.geteuid() == 0:
        raise NoSandbox("Tier C is for ordinary users; root has the means for tier A or B.")
    program = shutil.which("bwrap")
    if program is None:
        raise NoSandbox("Tier C needs the program bwrap, which is not installed.")
    return program


def bwrap_command(program: str, shown: list[str], writable: str) -> list[str]:
    """The bwrap command line that shows Python, its libraries and some folders, nothing else."""
    python = Path(sys.executable).resolve()
    command = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    command += ["--dev", "/dev", "--proc", "/proc", "--ro-bind", "/usr", "/usr"]
    command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for path in Path("/").glob("lib*"):
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), str(path)]
        else:
            command += ["--ro-bind", str(path), str(path)]
    for name in [*shown, str(python), *_libraries_beside(python)]:
        command += ["--ro-bind", name, name]
    return [*command, "--bind", writable, writable, "--"]


def _libraries_beside(python: Path) -> list[str]:
    beside = (python.parent.parent / "lib").glob("libpython*")
    return [str(path) for path in beside if path.is_file()]


def layers_in_words(plan: Plan, tier: Tier) -> list[str]:
    """What stands between a program and the machine, for people and for result files."""
    words = []
    if plan["namespaces"] is not None:
        how = "user namespace" if plan["namespaces"]["user"] else "root"
        words.append(f"namespaces ({how})")
        words.append("read-only root")
    if tier == "C":
        words.append("bwrap")
    if plan["landlock"] is not None:
        words.append(f"Landlock {landlock_version()}")
    if plan["seccomp"] is not None:
        words.append("seccomp")
    if plan["seatbelt"] is not None:
        words.append("Seatbelt")
    if plan["uid"] is not None:
        words.append("own user id")
    return [*words, "resource limits"]
