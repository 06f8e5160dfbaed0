"""A small runner for generated programs, to watch Pass@1 while training; the judge is elsewhere.

Each program runs in its own interpreter, isolated from the environment, with limits on time, memory
and file size. That stops accidents, not attacks.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence

_PRELUDE = """\
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
scope = {}
exec(compile(sys.stdin.read(), "program", "exec"), scope)
sys.exit(77)
"""
_PASSED = 77
"""An exit code that a program does not reach by accident: reaching the end of the tests."""


def passes(program: str, asserts: Sequence[str], seconds: float = 4.0) -> bool:
    """Whether the program satisfies all asserts within the limits."""
    text = "\n".join([program, *asserts])
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _PRELUDE],
                input=text.encode(),
                cwd=folder,
                env={},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == _PASSED
