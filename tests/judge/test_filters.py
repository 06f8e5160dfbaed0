"""The seccomp filter, run by a small interpreter of its instructions."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from archer.judge.filters import (
    ALLOW,
    ARCHITECTURES,
    AUDIT_ARCHITECTURE,
    DELETING,
    ENOSYS,
    EOPNOTSUPP,
    EPERM,
    FAIL,
    IF_ANY_BIT,
    IF_AT_LEAST,
    IF_EQUAL,
    KILL,
    LOAD,
    MOVING,
    NOTHING,
    OFFSET_ARCHITECTURE,
    OFFSET_ARGUMENTS,
    RETURN,
    CallGroup,
    Numbers,
    numbers,
    seccomp_filter,
    tables,
)
from archer.judge.inside.kernel import OWN_PID, SystemCallFilter

JUMPS: dict[int, Callable[[int, int], bool]] = {
    IF_EQUAL: lambda a, k: a == k,
    IF_AT_LEAST: lambda a, k: a >= k,
    IF_ANY_BIT: lambda a, k: bool(a & k),
}


def decide(
    machine: str,
    number: int,
    *arguments: int,
    architecture: int | None = None,
    keep_names: bool = False,
) -> int:
    """What the filter says about a system call; None as architecture means the right one."""
    words = {0: number, OFFSET_ARCHITECTURE: architecture or AUDIT_ARCHITECTURE[machine]}
    for position in range(6):
        value = arguments[position] if position < len(arguments) else 0
        words[OFFSET_ARGUMENTS + 8 * position] = value
    program, at, accumulator = seccomp_filter(machine, keep_names), 0, 0
    for _ in range(len(program)):
        code, yes, no, value = program[at]
        at += 1
        if code == RETURN:
            return value
        if code == LOAD:
            accumulator = words[value]
        else:
            at += yes if JUMPS[code](accumulator, value) else no
    raise AssertionError("the filter does not return")


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_every_allowed_call_is_allowed_and_every_other_refused(machine: str) -> None:
    allowed = set(numbers(CallGroup.ALLOWED, machine).values())
    special = set(numbers(CallGroup.CONDITIONAL, machine).values())
    for number in range(600):
        if number not in special:
            expected = ALLOW if number in allowed else FAIL | EPERM
            assert decide(machine, number) == expected, number


STREAMS = (1, 0x801, 0x80001, 0x80801)
OTHERS = ([(0,), (OWN_PID,)], EPERM, [(1,)])
SIGNALS = ([(OWN_PID,)], EPERM, [(0,), (1,), (2,), (0xFFFFFFFF,)])
# call: (arguments that are allowed, how others fail, others): threads but no process, itself and nobody else,
# Unix socket pairs alone, and requests that do no harm
Decided = tuple[Sequence[tuple[int, ...]], int, Sequence[tuple[int, ...]]]
CONDITIONAL: dict[str, Decided] = {
    "clone": ([(0x3D0F00,)], EPERM, [(17,)]),
    "clone3": ([], ENOSYS, [()]),
    **dict.fromkeys(("kill", "tgkill"), SIGNALS),
    "prlimit64": ([(0,)], EPERM, [(77,)]),
    **dict.fromkeys(("getpgid", "getsid", "sched_getparam", "sched_getscheduler"), OTHERS),
    "getpriority": ([(0, 0)], EPERM, [(0, 1)]),
    "sched_getaffinity": ([(0,)], ENOSYS, [(1,)]),
    "socketpair": (
        [(1, kind) for kind in STREAMS],
        EPERM,
        [*((2, kind) for kind in STREAMS), *((1, kind) for kind in (0, 2, 3, 5, 0x802, 0x100001))],
    ),
    "fcntl": (
        [(0, command) for command in (0, 1, 2, 3, 4, 5, 6, 7, 1030)],
        EPERM,
        [(0, command) for command in (8, 10, 15, 1024, 1026, 1031, 1033, 1036, 0xFFFFFFFF)],
    ),
    "ioctl": ([(0, 0x5401)], EPERM, [(0, 0x5412)]),
    "prctl": ([(15,)], EPERM, [(38,)]),
}


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("name", CONDITIONAL)
def test_arguments_decide_about_some_calls(name: str, machine: str) -> None:
    number = numbers(CallGroup.CONDITIONAL, machine)[name]
    allowed, error, others = CONDITIONAL[name]
    assert {decide(machine, number, *each) for each in allowed} <= {ALLOW}
    assert {decide(machine, number, *each) for each in others} == {FAIL | error}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_where_names_are_kept_nothing_takes_one_away(machine: str) -> None:
    calls = numbers(CallGroup.ALLOWED, machine)
    for name in ("unlinkat", *(["unlink", "rmdir"] if machine == "x86_64" else [])):
        assert decide(machine, calls[name], keep_names=True) == FAIL | NOTHING
    for name in ("renameat", "renameat2"):
        assert decide(machine, calls[name], keep_names=True) == FAIL | EPERM
    assert decide(machine, calls["fallocate"], keep_names=True) == FAIL | EOPNOTSUPP
    assert decide(machine, calls["openat2"], keep_names=True) == FAIL | ENOSYS
    assert decide(machine, calls["openat"], 0, 0, 0o102, keep_names=True) == ALLOW
    unnamed = 0o20200000 | 2
    assert decide(machine, calls["openat"], 0, 0, unnamed, keep_names=True) == FAIL | EOPNOTSUPP
    kept = {*calls.values()} - {calls.get(name) for name in (*DELETING, *MOVING)}
    for number in kept - {calls["fallocate"], calls["openat2"]}:
        assert decide(machine, number, keep_names=True) == ALLOW


def test_other_architectures_are_killed_and_x32_is_refused() -> None:
    assert decide("x86_64", 0, architecture=AUDIT_ARCHITECTURE["aarch64"]) == KILL
    assert decide("aarch64", 63, architecture=0x40000003) == KILL
    assert decide("x86_64", 0x40000000) == FAIL | EPERM


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_jumps_fit_into_a_byte_and_the_filter_into_the_kernel(machine: str) -> None:
    program = seccomp_filter(machine)
    assert max(itertools.chain.from_iterable(i[1:3] for i in program)) < 256
    assert len(program) <= 4096


def test_the_own_process_id_is_filled_in() -> None:
    packed = SystemCallFilter([(IF_EQUAL, 0, 1, OWN_PID), (RETURN, 0, 0, ALLOW)]).for_process(4711)
    assert packed[4:8] == (4711).to_bytes(4, "little")
    assert len(packed) == 16


@pytest.mark.parametrize("column", [0, 1])
def test_no_number_occurs_twice(column: int) -> None:
    groups = tables().values()
    together: Numbers = {name: row for group in groups for name, row in group.items()}
    assert len(together) == sum(map(len, groups))
    found = Counter(row[column] for row in together.values() if row[column] is not None)
    assert found.most_common(1)[0][1] == 1


def test_well_known_numbers() -> None:
    allowed, conditional = tables()[CallGroup.ALLOWED], tables()[CallGroup.CONDITIONAL]
    assert (allowed["read"], allowed["openat"]) == ((0, 63), (257, 56))
    assert (conditional["clone"], conditional["kill"]) == ((56, 220), (62, 129))
    assert allowed["exit_group"] == (231, 94)


@pytest.mark.parametrize(
    "name", ["socket", "connect", "fork", "vfork", "execve", "ptrace", "mount", "chmod", "fchmodat"]
)
def test_dangerous_calls_are_in_no_table(name: str) -> None:
    assert name not in tables()[CallGroup.ALLOWED]
    assert name not in tables()[CallGroup.CONDITIONAL]
