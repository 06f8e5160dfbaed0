"""What each tier puts between a program and the machine, as plain data; the mechanism is in `inside`."""

import os
import platform
import secrets
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from archer.errors import BadRequest
from archer.judge.checks import MIB, NoSandbox, Tier
from archer.judge.filters import ARCHITECTURES, CallGroup, numbers, seccomp_filter
from archer.judge.inside.confine import TEMPORARY
from archer.judge.inside.kernel import Kernel

Role = Literal["program", "test", "reader"]
Plan = dict[str, Any]

TEMPORARY_BYTES: Final = 16 * MIB
TEMPORARY_FILES: Final = 4096
THREADS: Final = 24
OPEN_FILES: Final = 64
PENDING_SIGNALS: Final = 256
OWN_PROCESSES: Final = 8  # zygote, its waiting parent, warm children
FIRST_UID: Final = 0x60000000
NUMBER_OF_UIDS: Final = 0x10000000

NEW_MOUNT, NEW_HOST, NEW_IPC, NEW_USER = (1 << bit for bit in (17, 26, 27, 28))
NEW_PID, NEW_NETWORK = 1 << 29, 1 << 30
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SYSTEM_FILES: Final = ("/etc/ld.so.cache", "/usr/share/zoneinfo", "/usr/lib/locale")
MOUNT_POINTS: Final = ("/mnt", "/srv", "/media", "/opt", "/tmp")
PACKAGES_AT: Final = "/packages"  # in tier A, wherever they lie outside

# Imported by the zygote, so that programs find them loaded.
PRELOAD: Final = (
    *("bisect", "cmath", "collections", "copy", "dataclasses", "datetime", "decimal", "enum"),
    *("fractions", "functools", "heapq", "io", "itertools", "json", "math", "operator", "random"),
    *("re", "statistics", "string", "tempfile", "threading", "time", "traceback", "typing"),
)

EXECUTE, WRITE, READ, LIST, REMOVE_FOLDER, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_FOLDER, MAKE_FILE, MAKE_LINK, MOVE, TRUNCATE = (1 << bit for bit in (7, 8, 12, 13, 14))
WORK: Final = (
    READ | LIST | WRITE | REMOVE_FOLDER | REMOVE_FILE | MAKE_FOLDER | MAKE_FILE | MAKE_LINK
)
READ_ANY_FILE: Final = 1 << 2  # CAP_DAC_READ_SEARCH, where only root can read Python
LANDLOCK_NEEDED: Final = 3  # the first version that can keep files from being truncated


def make_plan(tier: Tier, role: Role, packages: tuple[str, ...] = ()) -> Plan:
    """The plan of one zygote. As root, each zygote's children get a user id that nobody else has."""
    machine = platform.machine()
    linux = sys.platform == "linux" and machine in ARCHITECTURES
    if tier != "F" and not linux:
        raise NoSandbox(f"Tier {tier} needs Linux on {' or '.join(ARCHITECTURES)}.")
    root = linux and os.geteuid() == 0
    namespaces = _namespaces(root) if tier == "A" else None
    folders = locate_packages(packages)
    needed = (standard_library(), *map(Path, folders.values()))
    hidden = root and tier != "A" and not all(map(_others_can_read, needed))
    return {
        "role": role,
        "numbers": numbers(CallGroup.SETUP, machine) if linux else {},
        "namespaces": namespaces,
        "root": _root() if tier == "A" else None,
        "tmpfs": f"mode=777,size={TEMPORARY_BYTES},nr_inodes={TEMPORARY_FILES}",
        "show": [str(standard_library()), *filter(os.path.exists, SYSTEM_FILES)],
        "library": str(standard_library()),
        "packages": folders,
        "versions": {},
        "devices": list(DEVICES),
        "landlock": _landlock(tier) if tier != "F" else None,
        "seccomp": seccomp_filter(machine, keep_names=tier == "B") if tier != "F" else None,
        "rlimits": _rlimits(namespaces is not None or root),
        "uid": FIRST_UID + secrets.randbelow(NUMBER_OF_UIDS) if root else None,
        "capabilities": READ_ANY_FILE if hidden else 0,
        "preload": list(PRELOAD),
        "base": None,
    }


def standard_library() -> Path:
    """The folder of Python's own modules."""
    return Path(os.__file__).resolve().parent


def locate_packages(names: tuple[str, ...]) -> dict[str, str]:
    """The folders of installed packages that programs may import, with their bundled libraries."""
    folders: dict[str, str] = {}
    for name in names:
        spec = find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise BadRequest(f"Programs shall be able to import {name}, but it is not installed.")
        folder = Path(spec.submodule_search_locations[0]).resolve()
        folders[name] = str(folder)
        libraries = folder.with_name(f"{folder.name}.libs")
        if libraries.is_dir():
            folders[libraries.name] = str(libraries)
    return folders


def _namespaces(root: bool) -> dict[str, Any]:
    child = NEW_MOUNT | NEW_IPC
    zygote = child | NEW_PID | NEW_HOST | NEW_NETWORK
    return {"zygote": zygote if root else zygote | NEW_USER, "child": child, "user": not root}


def _root() -> dict[str, Any]:
    library = standard_library()
    if library.is_relative_to(TEMPORARY):
        raise NoSandbox(f"Tier A gives programs a {TEMPORARY} of their own, and Python lies in it.")
    shown = [str(library), *SYSTEM_FILES, *DEVICES]
    free = [at for at in MOUNT_POINTS if Path(at).is_dir() and not _holds(at, shown)]
    if not free:
        raise NoSandbox(f"Tier A needs one of the folders {', '.join(MOUNT_POINTS)}.")
    return {
        "at": free[0],
        "links": [[str(p), str(p.readlink())] for p in Path("/").glob("lib*") if p.is_symlink()],
        "hide": [str(p) for p in library.glob("*-packages") if p.is_dir()],
        "packages_at": PACKAGES_AT,
    }


def _holds(folder: str, paths: list[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for path in paths)


def _landlock(tier: Tier) -> dict[str, int] | None:
    """The rights of Landlock that this kernel can handle; None if tier A must do without."""
    try:
        version = landlock_version()
    except OSError as error:
        if tier == "B":
            raise NoSandbox(f"Tier B needs Landlock, which this kernel refuses: {error}.") from None
        return None
    if tier == "B" and version < LANDLOCK_NEEDED:
        raise NoSandbox(f"Tier B needs Landlock {LANDLOCK_NEEDED}, this kernel has {version}.")
    bits = 13 + (version >= 2) + (version >= 3) + (version >= 5)
    handled = (1 << bits) - 1
    return {
        "files": handled,
        "network": 3 if version >= 4 else 0,
        "scoped": 3 if version >= 6 else 0,
        "size": 24 if version >= 6 else 16 if version >= 4 else 8,
        "read": READ | LIST,
        "device": (READ | WRITE | TRUNCATE) & handled,
        "work": (WORK | MOVE | TRUNCATE) & handled,
    }


def landlock_version() -> int:
    """The Landlock version of this kernel; OSError without Landlock."""
    return Kernel(numbers(CallGroup.SETUP, platform.machine())).landlock_abi()


def _rlimits(own_user: bool) -> dict[str, int]:
    """The limits that hold for every child; CPU time and memory come with the check."""
    everywhere = {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_FSIZE": TEMPORARY_BYTES,
        "RLIMIT_NPROC": THREADS + OWN_PROCESSES + (0 if own_user else _tasks_of_this_user()),
    }
    if sys.platform != "linux":
        return everywhere
    linux = {"RLIMIT_MEMLOCK": 0, "RLIMIT_MSGQUEUE": 0, "RLIMIT_SIGPENDING": PENDING_SIGNALS}
    return everywhere | linux


def _tasks_of_this_user() -> int:
    """Threads that the user runs now, doubled: the kernel counts them all against RLIMIT_NPROC."""
    tasks = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid == os.getuid():
                tasks += len(list((process / "task").iterdir()))
        except OSError:
            continue
    return 2 * tasks


def _others_can_read(folder: Path) -> bool:
    """Whether a user without rights can reach a folder."""
    return all(path.stat().st_mode & 0o005 == 0o005 for path in (folder, *folder.parents))
