"""Thin wrappers of the kernel's confinement calls, which raise OSError; `sandbox_plan` decides what for."""

import ctypes
import os
import stat
import struct
from collections.abc import Mapping, Sequence
from typing import Any

CLONE_NEWPID = 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE, AT_EMPTY_PATH = -100, 0x8000, 0x1000
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID = 1, 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS = 1, 4, 8
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
SECCOMP_MODE_FILTER = 2
SIGKILL = 9
CAPABILITY_VERSION = 0x20080522
LANDLOCK_RULE_PATH_BENEATH = 1
LANDLOCK_ABI_QUESTION = 1
OWN_PID = 0xFFFFFFFE


FILTER_INSTRUCTION = struct.Struct("=HBBI")


class FilterProgram(ctypes.Structure):
    """struct sock_fprog: a BPF program for PR_SET_SECCOMP."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


class Kernel:
    """The C library of this process, and the numbers of calls that it does not wrap."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._numbers = numbers

    def call(self, name: str, *arguments: Any) -> int:
        return self._checked(name, self._libc[name](*arguments))

    def system_call(self, name: str, *arguments: Any) -> int:
        """Makes a system call by number; int arguments are passed as C long."""
        plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
        return self._checked(name, self._libc.syscall(ctypes.c_long(self._numbers[name]), *plain))

    def _checked(self, name: str, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")
        return result

    def unshare(self, flags: int) -> None:
        """Moves this process into new namespaces."""
        self.call("unshare", flags)

    def mount(self, source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        self.call(
            "mount",
            source.encode(),
            target.encode(),
            kind.encode(),
            ctypes.c_ulong(flags),
            options.encode(),
        )

    def make_read_only(self, path: str) -> None:
        """Makes the mount at a path, and all below it, read-only and free of setuid."""
        attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
        self.system_call(
            "mount_setattr", AT_FDCWD, path.encode(), AT_RECURSIVE, attributes, len(attributes)
        )

    def change_root(self, path: str) -> None:
        """Makes a mount the root directory and lets go of the old root altogether."""
        os.chdir(path)
        self.system_call("pivot_root", b".", b".")
        self.call("umount2", b".", MNT_DETACH)
        os.chdir("/")

    def die_with_parent(self) -> None:
        """Has this process killed when its parent ends; cleared by a change of user."""
        self.prctl(PR_SET_PDEATHSIG, SIGKILL)

    def prctl(self, option: int, value: Any, further: Any = 0) -> None:
        self.call("prctl", option, value, further, 0, 0)

    def drop_capabilities(self, kept: int) -> None:
        """Gives up every capability but those of a bit mask."""
        header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
        self.system_call("capset", header, struct.pack("=6I", kept, kept, 0, 0, 0, 0))

    def landlock_abi(self) -> int:
        """The version of Landlock that the kernel offers, at least 1; OSError without Landlock."""
        return self.system_call("landlock_create_ruleset", None, 0, LANDLOCK_ABI_QUESTION)

    def restrict_paths(
        self, files: int, network: int, scoped: int, rules: Sequence[tuple[str, int]], size: int
    ) -> None:
        """Landlock: all handled accesses are refused, but for those that a rule gives to a path."""
        attributes = struct.pack("=QQQ", files, network, scoped)[:size]
        ruleset = self.system_call("landlock_create_ruleset", attributes, size, 0)
        for path, access in rules:
            beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
            if not stat.S_ISDIR(os.fstat(beneath).st_mode):
                access &= FILE_ACCESS
            rule = struct.pack("=Qi", access, beneath)
            self.system_call("landlock_add_rule", ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, 0)
            os.close(beneath)
        self.system_call("landlock_restrict_self", ruleset, 0)
        os.close(ruleset)

    def filter_system_calls(self, filter_: "SystemCallFilter") -> None:
        """Seccomp: loads a filter, with the own process id filled in."""
        packed = filter_.for_process(os.getpid())
        program = FilterProgram(len(packed) // FILTER_INSTRUCTION.size, packed)
        self.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))


class SystemCallFilter:
    """A seccomp filter, packed once, in which OWN_PID stands for the process id."""

    def __init__(self, instructions: Sequence[Sequence[int]]) -> None:
        self._packed = b"".join(FILTER_INSTRUCTION.pack(*each) for each in instructions)
        size = FILTER_INSTRUCTION.size
        self._pids = [size * i + 4 for i, each in enumerate(instructions) if each[3] == OWN_PID]

    def for_process(self, pid: int) -> bytes:
        """The filter of one process."""
        packed = bytearray(self._packed)
        for position in self._pids:
            struct.pack_into("=I", packed, position, pid)
        return bytes(packed)


# Landlock rights that may be given on a file: execute, write, read, truncate.
FILE_ACCESS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14
