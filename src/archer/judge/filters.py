"""The seccomp filter as data: which system calls a sandboxed program may make.

The filter is an allow-list in the kernel's classic BPF, compiled here and loaded by the sandbox.
What is not named is refused with EPERM, so a system call that a future kernel adds is refused too.
A program can start threads, but no process; it can signal and ask about only itself, and not by way of
the kernel (the owner of a descriptor); it can make a pair of stream sockets (asyncio needs one), but no
socket and no datagram, because a datagram can be sent to whoever listens.

Where the judge has to watch the folder of a program, because there is no mount of its own, files must
not lose their names while they are in use: a file without a name cannot be found and counted. There,
deleting does nothing and succeeds, moving and making files without a name is refused, and space cannot
be taken without writing to it.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final

from archer.judge.inside.kernel import OWN_PID

Numbers = dict[str, tuple[int | None, int | None]]

ARCHITECTURES: Final = ("x86_64", "aarch64")


class CallGroup(StrEnum):
    """A group of calls; whatever is in none of them is refused."""

    ALLOWED = "allowed"
    """What a program may ask of the kernel without further questions."""
    CONDITIONAL = "conditional"
    """Depends on an argument, see `filters.py`."""
    SETUP = "setup"
    """What the zygote needs to build a sandbox and the C library does not offer everywhere."""


@cache
def tables() -> Mapping[CallGroup, Numbers]:
    """Groups in brackets; a name and two numbers a line, `-` where a machine has no such call."""
    text = files("archer.judge").joinpath("syscalls.txt").read_text(encoding="utf-8")
    tables: dict[CallGroup, Numbers] = {}
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) == 1:
            current = tables[CallGroup(words[0].strip("[]"))] = {}
        elif words:
            name, x86, arm = words
            current[name] = (_number(x86), _number(arm))
    return tables


def _number(word: str) -> int | None:
    return None if word == "-" else int(word)


def numbers(group: CallGroup, machine: str) -> dict[str, int]:
    """The calls of a group that exist on a machine ("x86_64" or "aarch64")."""
    column = ARCHITECTURES.index(machine)
    present = ((name, row[column]) for name, row in tables()[group].items())
    return {name: number for name, number in present if number is not None}


Instruction = tuple[int, int, int, int]

LOAD, IF_EQUAL, IF_AT_LEAST, IF_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
OFFSET_NUMBER, OFFSET_ARCHITECTURE, OFFSET_ARGUMENTS = 0, 4, 16
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
NOTHING, EPERM, ENOSYS, EOPNOTSUPP = 0, 1, 38, 95
AUDIT_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

CLONE_THREAD: Final = 0x10000
PRCTL_THREAD_NAME: Final = (15, 16)
IOCTL_HARMLESS: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
AF_UNIX: Final = 1
STREAM: Final = tuple(1 | flags for flags in (0, 0x800, 0x80000, 0x80800))
"""SOCK_STREAM, with and without SOCK_NONBLOCK and SOCK_CLOEXEC."""
FCNTL_HARMLESS: Final = (*range(8), 36, 37, 38, 1030, 1032)
"""Copies, flags and locks of descriptors, and the size of a pipe; no owners, signals and leases."""
UNNAMED_FILE: Final = 0x400000  # the bit of O_TMPFILE that no other flag has

ITSELF: Final = (0, OWN_PID)
"""Process ids that mean the caller; asking about others would tell which there are."""

# call: (position of the argument looked at, its allowed values)
BY_ARGUMENT: Final[dict[str, tuple[int, tuple[int, ...]]]] = {
    "kill": (0, (OWN_PID,)),
    "tgkill": (0, (OWN_PID,)),
    "prlimit64": (0, (0,)),
    "prctl": (0, PRCTL_THREAD_NAME),
    "ioctl": (1, IOCTL_HARMLESS),
    "fcntl": (1, FCNTL_HARMLESS),
    "getpgid": (0, ITSELF),
    "getsid": (0, ITSELF),
    "getpriority": (1, ITSELF),
    "sched_getparam": (0, ITSELF),
    "sched_getscheduler": (0, ITSELF),
}
DELETING: Final = ("unlink", "unlinkat", "rmdir")
MOVING: Final = ("rename", "renameat", "renameat2")
FLAGS_AT: Final = {"open": 1, "openat": 2}
"""Position of the flags of a call that opens a file."""


def seccomp_filter(machine: str, keep_names: bool = False) -> list[Instruction]:
    """The filter for a machine; the child fills in `OWN_PID`; `keep_names`: no file loses its name."""
    allowed, conditional = (
        numbers(CallGroup.ALLOWED, machine),
        numbers(CallGroup.CONDITIONAL, machine),
    )
    program: list[Instruction] = [
        (LOAD, 0, 0, OFFSET_ARCHITECTURE),
        (IF_EQUAL, 1, 0, AUDIT_ARCHITECTURE[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, OFFSET_NUMBER),
    ]
    program += _block(conditional["clone3"], [(RETURN, 0, 0, FAIL | ENOSYS)])
    program += _block(conditional["clone"], _threads_only())
    program += _block(conditional["socketpair"], _stream_pairs())
    affinity = _one_of(0, ITSELF, FAIL | ENOSYS)  # glibc asks about threads, and can do without
    program += _block(conditional["sched_getaffinity"], affinity)
    for name, (position, values) in BY_ARGUMENT.items():
        program += _block(conditional[name], _one_of(position, values))
    if keep_names:
        program += _names_kept(allowed)
    numbers_of_allowed = set(allowed.values())
    changes = sorted(numbers_of_allowed ^ {number + 1 for number in numbers_of_allowed})
    return [*program, *_search(changes, allowed=False)]


def _names_kept(allowed: dict[str, int]) -> list[Instruction]:
    answers = (
        *((name, FAIL | NOTHING) for name in DELETING),
        *((name, FAIL | EPERM) for name in MOVING),
        ("fallocate", FAIL | EOPNOTSUPP),
        ("openat2", FAIL | ENOSYS),
    )
    program: list[Instruction] = []
    for name, answer in answers:
        if name in allowed:
            program += _block(allowed[name], [(RETURN, 0, 0, answer)])
    for name, position in FLAGS_AT.items():
        if name in allowed:
            program += _block(allowed[name], _without_bit(position, UNNAMED_FILE))
    return program


def _without_bit(position: int, bit: int) -> list[Instruction]:
    return [
        (LOAD, 0, 0, OFFSET_ARGUMENTS + 8 * position),
        (IF_ANY_BIT, 0, 1, bit),
        (RETURN, 0, 0, FAIL | EOPNOTSUPP),
        (RETURN, 0, 0, ALLOW),
    ]


def _search(changes: list[int], allowed: bool) -> list[Instruction]:
    """Binary search; at each number of `changes` refusal turns into permission or the reverse.

    The kernel runs a filter once for every call there is when it is loaded, so its depth counts.
    """
    if not changes:
        return [(RETURN, 0, 0, ALLOW if allowed else FAIL | EPERM)]
    middle = len(changes) // 2
    below = _search(changes[:middle], allowed)
    above = _search(changes[middle + 1 :], allowed ^ (middle % 2 == 0))
    return [(IF_AT_LEAST, len(below), 0, changes[middle]), *below, *above]


def _block(number: int, body: list[Instruction]) -> list[Instruction]:
    return [(IF_EQUAL, 0, len(body), number), *body]


def _threads_only() -> list[Instruction]:
    return [
        (LOAD, 0, 0, OFFSET_ARGUMENTS),
        (IF_ANY_BIT, 0, 1, CLONE_THREAD),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, FAIL | EPERM),
    ]


def _stream_pairs() -> list[Instruction]:
    return [
        (LOAD, 0, 0, OFFSET_ARGUMENTS),
        (IF_EQUAL, 1, 0, AF_UNIX),
        (RETURN, 0, 0, FAIL | EPERM),
        *_one_of(1, STREAM),
    ]


def _one_of(
    position: int, values: tuple[int, ...], otherwise: int = FAIL | EPERM
) -> list[Instruction]:
    body: list[Instruction] = [(LOAD, 0, 0, OFFSET_ARGUMENTS + 8 * position)]
    for value in values:
        body += [(IF_EQUAL, 0, 1, value), (RETURN, 0, 0, ALLOW)]
    return [*body, (RETURN, 0, 0, otherwise)]
