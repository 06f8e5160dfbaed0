"""How much memory may be taken, as kernel and container see it, once, when an engine is made."""

import os
from collections.abc import Iterator
from pathlib import Path

KILOBYTE = 1024


def available(root: Path = Path("/")) -> int:
    """Bytes that can be had without swapping; where the kernel says nothing, all that the machine has."""
    free = _of_machine(root / "proc/meminfo")
    if free is None:
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(0, min([free, *_of_groups(root)]))


def _of_machine(meminfo: Path) -> int | None:
    """MemAvailable, which counts the page cache that can be given up."""
    for line in _text(meminfo).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * KILOBYTE
    return None


def _of_groups(root: Path) -> Iterator[int]:
    """What the control group of this process, and each group around it, has left, where there is a limit."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        own = top / path.lstrip("/")
        for group in (own, *own.parents):
            if group.is_relative_to(top):
                yield from _left(group, *names)


def _left(group: Path, limit: str, used: str, cached: str) -> Iterator[int]:
    """Limit less use; page cache that is not in use counts as free."""
    most, now = _text(group / limit).strip(), _text(group / used).strip()
    if not (most.isdigit() and now.isdigit()):
        return
    stat = dict(
        line.split(maxsplit=1) for line in _text(group / "memory.stat").splitlines() if " " in line
    )
    yield int(most) - int(now) + int(stat.get(cached, 0))


def _text(file: Path) -> str:
    """What is in a file of the kernel's; nothing where there is none."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
