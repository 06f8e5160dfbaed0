"""The ways to confine programs, strongest first, and what each consists of.

A   Linux: namespaces (as root, or through user namespaces), read-only root, Landlock where the
    kernel has it, seccomp, resource limits
B   Linux without namespaces: Landlock, seccomp, resource limits, a private folder; no privilege
F   nothing but resource limits: only when asked for by name of its danger; all there is outside Linux
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from archer.errors import BadRequest
from archer.judge.checks import NoSandbox, Tier
from archer.judge.program_run import Bench, new_base
from archer.judge.sandbox_plan import (
    OWN_PROCESSES,
    THREADS,
    Plan,
    Role,
    landlock_version,
    make_plan,
)
from archer.judge.zygote_process import ZygoteProcess

BY_STRENGTH: Final[tuple[Tier, ...]] = ("A", "B")

# What a tier puts in a program's way. The self-test tries each of these.
WALLS: Final = frozenset(
    {"protocol", "limits", "files", "disk", "devices", "network", "processes", "signals"}
    | {"threads"}
)
LAYERS: Final[dict[Tier, frozenset[str]]] = {
    "A": WALLS | {"identity"},
    "B": WALLS | {"names"},
    "F": frozenset({"protocol", "limits"}),
}

Started = TypeVar("Started")


class Workshop:
    """Makes benches of one tier."""

    def __init__(self, tier: Tier, packages: tuple[str, ...]) -> None:
        self.tier = tier
        self._packages = packages
        self.plan: Plan = make_plan(tier, "program", packages)

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

    @property
    def most_threads(self) -> int:
        """As many tasks as the kernel allows the user of a program, other ones of that user counted."""
        return int(self.plan["rlimits"].get("RLIMIT_NPROC", THREADS + OWN_PROCESSES))

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
        if self.tier != "A":
            plan["base"] = new_base()
        return ZygoteProcess(plan | dict(changes or {}), modules)


def open_bench(
    tier: Tier | None, unsafe_no_sandbox: bool, packages: tuple[str, ...]
) -> tuple[Workshop, Bench]:
    """The tier asked for, or the strongest that works, with a first bench; NoSandbox with every refusal."""
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
            workshop = Workshop(candidate, packages)
            return workshop, start(workshop)
        except NoSandbox as refusal:
            refusals.append(f"{candidate}: {refusal}")
    raise NoSandbox(
        f"Programs cannot be confined on this machine. {' '.join(refusals)} Grade in a Linux "
        "container, where one of these tiers usually works. unsafe_no_sandbox runs programs all the "
        "same, but those of unknown origin can then do anything to this machine."
    )


def layers_in_words(plan: Plan) -> list[str]:
    """What stands between a program and the machine, for people and for result files."""
    words = []
    if plan["namespaces"] is not None:
        how = "user namespace" if plan["namespaces"]["user"] else "root"
        words.append(f"namespaces ({how})")
        words.append("read-only root")
    if plan["landlock"] is not None:
        words.append(f"Landlock {landlock_version()}")
    if plan["seccomp"] is not None:
        words.append("seccomp")
    if plan["uid"] is not None:
        words.append("own user id")
    return [*words, "resource limits"]
