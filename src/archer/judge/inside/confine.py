"""Puts up every layer that the plan of `archer.judge.sandbox_plan` names, or OSError says which fails."""

import os
import resource
import sys
from pathlib import Path
from typing import Any

from .kernel import (
    CLONE_NEWPID,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    PR_SET_DUMPABLE,
    PR_SET_KEEPCAPS,
    PR_SET_NO_NEW_PRIVS,
    Kernel,
    SystemCallFilter,
)
from .limits import lower

TEMPORARY = "/tmp"
MAPS = "/proc/self/maps"


class Confinement:
    """The layers of one zygote and its children."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._kernel = Kernel(plan["numbers"])
        self._own_pids = -1
        self._filter = SystemCallFilter(plan["seccomp"]) if plan["seccomp"] else None
        self._shown = [*plan["show"], *loaded_libraries(plan["library"])]

    def enter(self) -> bool:
        """Moves the zygote behind its namespaces; False in the process that merely waits for it."""
        os.environ.clear()
        os.environ.update(HOME=TEMPORARY, TMPDIR=TEMPORARY, LC_ALL="C.UTF-8")
        namespaces = self._plan["namespaces"]
        if namespaces is None:
            return True
        uid, gid = os.getuid(), os.getgid()
        self._kernel.unshare(namespaces["zygote"])
        if namespaces["user"]:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
        if os.fork():
            return False
        self._kernel.die_with_parent()
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._kernel.call("sethostname", b"sandbox", 7)
        self._build_root(self._plan["root"])
        return True

    def _build_root(self, root: dict[str, Any]) -> None:
        """A read-only root directory that holds Python, its libraries, five devices, and /tmp."""
        kernel, new = self._kernel, root["at"]
        kernel.mount("none", "/", "", MS_REC | MS_PRIVATE)
        kernel.mount("tmpfs", new, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
        Path(new + TEMPORARY).mkdir()
        for link, target in root["links"]:
            Path(new + link).symlink_to(target)
        for path in self._shown:
            self._bind(path, new + path)
        for path in self._plan["devices"]:
            self._bind(path, new + path)
        for path in root["hide"]:
            kernel.mount("tmpfs", new + path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k")
        for name, path in self.packages().items():
            self._bind(self._plan["packages"][name], new + path)
        kernel.make_read_only(new)
        kernel.change_root(new)

    def _bind(self, source: str, target: str) -> None:
        if Path(source).is_dir():
            Path(target).mkdir(parents=True, exist_ok=True)
        else:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).touch()
        self._kernel.mount(source, target, "", MS_BIND | MS_REC)

    def packages(self) -> dict[str, str]:
        """Where programs find each package: a root of their own has a folder for them."""
        packages: dict[str, str] = self._plan["packages"]
        if self._plan["root"] is None:
            return packages
        return {name: f"{self._plan['root']['packages_at']}/{name}" for name in packages}

    def fork(self) -> int:
        """os.fork, where the child is the first process of a new process namespace if there is one.

        The namespace dies with its first process, so nothing that a program does can outlive it.
        """
        if self._plan["namespaces"] is None:
            return os.fork()
        self._kernel.unshare(CLONE_NEWPID)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid != 0:
                self._kernel.call("setns", self._own_pids, CLONE_NEWPID)
        return pid

    def confine_child(self, folder: str | None) -> None:
        """Confines the calling process for good. The order matters: each step needs the former."""
        plan, kernel = self._plan, self._kernel
        os.setsid()
        os.umask(0o077)
        if plan["namespaces"] is not None:
            kernel.unshare(plan["namespaces"]["child"])
            kernel.mount(
                "tmpfs", TEMPORARY, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, plan["tmpfs"]
            )
        self._settle(folder)
        for name, value in plan["rlimits"].items():
            lower(getattr(resource, name), value)
        if plan["uid"] is not None:
            kernel.prctl(PR_SET_KEEPCAPS, 1)
            os.setgroups([])
            os.setresgid(plan["uid"], plan["uid"], plan["uid"])
            os.setresuid(plan["uid"], plan["uid"], plan["uid"])
        if sys.platform == "linux":
            self._linux_only(folder)

    def _settle(self, folder: str | None) -> None:
        """Makes the temporary folder, if there is one, the current and the home directory."""
        home = folder or (TEMPORARY if self._plan["namespaces"] else "/")
        os.chdir(home)
        if home != TEMPORARY:
            os.environ.update(HOME=home, TMPDIR=home)

    def _readable(self) -> list[str]:
        if self._plan["namespaces"] is not None:
            return ["/"]
        return [*self._shown, *self.packages().values()]

    def _linux_only(self, folder: str | None) -> None:
        plan, kernel = self._plan, self._kernel
        kernel.drop_capabilities(plan["capabilities"])
        kernel.prctl(PR_SET_DUMPABLE, 0)
        kernel.die_with_parent()
        kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
        landlock = plan["landlock"]
        if landlock is not None:
            rules = [(path, landlock["read"]) for path in self._readable()]
            rules += [(path, landlock["device"]) for path in plan["devices"]]
            if folder is not None or plan["namespaces"]:
                rules.append((folder or TEMPORARY, landlock["work"]))
            kernel.restrict_paths(
                landlock["files"], landlock["network"], landlock["scoped"], rules, landlock["size"]
            )
        if self._filter is not None:
            kernel.filter_system_calls(self._filter)


def loaded_libraries(python: str) -> list[str]:
    """The folders of the shared libraries in this process, so that further ones can be loaded.

    `python` is the folder of the standard library. The folder above it, where it is not one of the
    system's, may hold much else; only its libraries are given.
    """
    if not Path(MAPS).exists():
        return []
    mapped = {line.split(maxsplit=5)[-1].strip() for line in Path(MAPS).read_text().splitlines()}
    folders = {Path(path).parent for path in mapped if ".so" in path and path.startswith("/")}
    shown: list[str] = []
    for folder in sorted(folders):
        if folder == Path(python).parent and not folder.is_relative_to("/usr"):
            shown += [str(path) for path in folder.glob("*.so*") if path.is_file()]
        elif not folder.is_relative_to(python):
            shown.append(str(folder))
    return shown
