"""Tier D: what macOS needs instead of Landlock, seccomp and a limit on address space.

Written from documentation and not tried on a Mac. The judge's self-test decides there whether it
holds; if it does not, nothing is graded.
"""

import subprocess
from typing import Final

READABLE: Final = (
    "/usr/lib",
    "/System/Library",
    "/private/var/db/dyld",
    "/dev/urandom",
    "/dev/null",
)


def seatbelt_profile(python_folders: list[str]) -> str:
    """A profile that denies all but reading Python and the system, and writing to FOLDER."""
    shown = "".join(f'\n  (subpath "{path}")' for path in (*READABLE, *python_folders))
    return f"""(version 1)
(deny default)
(allow sysctl-read)
(allow file-read-metadata)
(allow signal (target self))
(allow file-read* file-map-executable{shown})
(allow file-write-data (literal "/dev/null"))
(allow file-read* file-write* (subpath (param "FOLDER")))
"""


def resident_bytes(pid: int) -> int:
    """Memory that a process holds, by `ps`; 0 if it is gone."""
    command = ["ps", "-o", "rss=", "-p", str(pid)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return int(listed) * 1024 if listed else 0
