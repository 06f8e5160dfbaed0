"""The seccomp filter as data: which system calls a sandboxed program may make.

The filter is an allow-list in the kernel's classic BPF, compiled here and loaded by the sandbox.
What is not named is refused with EPERM, so a system call that a future kernel adds is refused too.
A program can start threads, but no process; it can signal only itself; it can make a socket pair
(asyncio needs one), but no socket.
"""

from typing import Final

from archer.judge.inside.kernel import OWN_PID
from archer.judge.syscalls import ALLOWED, CONDITIONAL, numbers

Instruction = tuple[int, int, int, int]

LOAD, IF_EQUAL, IF_AT_LEAST, IF_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
OFFSET_NUMBER, OFFSET_ARCHITECTURE, OFFSET_ARGUMENTS = 0, 4, 16
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS = 1, 38
AUDIT_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

CLONE_THREAD: Final = 0x10000
PRCTL_THREAD_NAME: Final = (15, 16)
IOCTL_HARMLESS: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
AF_UNIX: Final = 1

# call: (position of the argument looked at, its allowed values)
BY_ARGUMENT: Final[dict[str, tuple[int, tuple[int, ...]]]] = {
    "kill": (0, (OWN_PID,)),
    "tgkill": (0, (OWN_PID,)),
    "prlimit64": (0, (0,)),
    "prctl": (0, PRCTL_THREAD_NAME),
    "ioctl": (1, IOCTL_HARMLESS),
    "socketpair": (0, (AF_UNIX,)),
}


def seccomp_filter(machine: str) -> list[Instruction]:
    """The whole filter for a machine; `OWN_PID` stands for the process id, filled in by the child."""
    allowed, conditional = numbers(ALLOWED, machine), numbers(CONDITIONAL, machine)
    program: list[Instruction] = [
        (LOAD, 0, 0, OFFSET_ARCHITECTURE),
        (IF_EQUAL, 1, 0, AUDIT_ARCHITECTURE[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, OFFSET_NUMBER),
    ]
    program += _block(conditional["clone3"], [(RETURN, 0, 0, FAIL | ENOSYS)])
    program += _block(conditional["clone"], _threads_only())
    for name, (position, values) in BY_ARGUMENT.items():
        program += _block(conditional[name], _one_of(position, values))
    numbers_of_allowed = set(allowed.values())
    changes = sorted(numbers_of_allowed ^ {number + 1 for number in numbers_of_allowed})
    return [*program, *_search(changes, allowed=False)]


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


def _one_of(position: int, values: tuple[int, ...]) -> list[Instruction]:
    body: list[Instruction] = [(LOAD, 0, 0, OFFSET_ARGUMENTS + 8 * position)]
    for value in values:
        body += [(IF_EQUAL, 0, 1, value), (RETURN, 0, 0, ALLOW)]
    return [*body, (RETURN, 0, 0, FAIL | EPERM)]
