"""Programs run before anything is graded: a hostile one answers rightly if and only if its attack works."""

import contextlib
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from archer.judge.checks import (
    MIB,
    Check,
    FunctionCheck,
    Limits,
    NoSandbox,
    Outcome,
    StdinCheck,
    Tier,
    Verdict,
)
from archer.judge.sandbox_plan import TEMPORARY_BYTES, TEMPORARY_FILES
from archer.judge.tiers import LAYERS

PATIENT: Final = Limits(cpu_seconds=10, wall_seconds=30, memory_bytes=256 * MIB)
HASTY: Final = Limits(cpu_seconds=1, wall_seconds=0.1, memory_bytes=256 * MIB)
MOST_TRIED: Final = 1000
"""Threads; a limit above it, which only an ordinary user with very many has, is not tried."""
ABOVE: Final = "archer-self-test"
"""What a trial writes where it must not be able to."""
TEST: Final = "assert f(1) == 2\nassert f(41) == 42\n"


@dataclass(frozen=True, slots=True)
class Trial:
    """A program with the one right verdict, and the layer to blame for another."""

    name: str
    layer: str
    check: Check
    outcome: Outcome
    flooded: bool = False


def _function(source: str, limits: Limits = PATIENT) -> FunctionCheck:
    return FunctionCheck(source, "f", TEST, limits=limits)


def _attack(
    name: str, layer: str, preparation: str, outcome: Outcome = "fail", flooded: bool = False
) -> Trial:
    """Does it in the first call only: what works once need not work twice."""
    body = "".join(f"        {line}\n" for line in preparation.splitlines())
    once = f"    if not calls:\n        calls.append(x)\n{body}"
    source = f"import os, sys\ncalls = []\ndef f(x):\n{once}    return x + 1\n"
    return Trial(name, layer, _function(source), outcome, flooded)


def _any(name: str, layer: str, *attempts: str) -> Trial:
    """Each of several attacks must be refused; `parent` and `other` are ids of other processes."""
    tried = "".join(
        f"    try:\n        {attempt}\n        break\n    except OSError: pass\n"
        for attempt in attempts
    )
    return _attack(
        name,
        layer,
        "import socket\nparent, other = os.getppid(), 1 if os.getpid() != 1 else 2\n"
        f"for once in (1,):\n{tried}else:\n    raise OSError",
    )


def _honest(name: str, layer: str, source: str) -> Trial:
    return Trial(name, layer, _function(source), "pass")


TRIALS: Final[tuple[Trial, ...]] = (
    _attack("reads /etc/passwd", "files", "open('/etc/passwd').read()"),
    _attack("writes into the library", "files", "open(os.__file__, 'a')"),
    _any(
        "writes above its folder",
        "files",
        *(f"open('{above}/{ABOVE}', 'w').close()" for above in ("..", "../..")),
    ),
    _any(
        "makes a socket",
        "network",
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_INET6, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
    ),
    _attack(
        "makes a datagram socket",
        "network",
        "import socket\nsocket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    ),
    _attack("starts a process", "processes", "if os.fork() == 0: os._exit(0)"),
    _any(
        "signals others",
        "signals",
        *("os.kill(parent, 0)", "os.kill(-1, 0)", "os.kill(other, 0)", "os.killpg(parent, 0)"),
    ),
    _attack(
        "has the kernel send signals",
        "signals",
        "import fcntl\nfcntl.fcntl(os.pipe()[0], 8, os.getppid())  # F_SETOWN",
    ),
    _attack(
        "gives a command to a device",
        "devices",
        "import fcntl\nfcntl.ioctl(os.pipe()[0], 0x5452, bytes(4))  # FIOASYNC",
    ),
    _attack(
        "fills the disk out of sight",
        "disk",
        "import time\nos.mkdir('d', 0o300)\nfor n in range(3):\n"
        "    open(f'd/{n}', 'wb').write(bytes(8 << 20))\ntime.sleep(20)",
    ),
    _attack(
        "makes thousands of files",
        "disk",
        "import time\nopen('n', 'w').close()\n"
        f"for n in range({TEMPORARY_FILES}): os.link('n', str(n))  # names are cheapest so\n"
        "time.sleep(5)",
    ),
    _attack(
        "makes a file that is too large",
        "limits",
        f"with open('large', 'wb') as file: file.truncate({TEMPORARY_BYTES + 1})",
    ),
    _attack("opens many files", "limits", "for n in range(200): os.dup(0)"),
    _attack(
        "takes a file's name away",
        "names",
        "open('n', 'w').close()\nos.unlink('n')\nassert not os.path.exists('n')",
    ),
    _attack("gives a file another name", "names", "open('n', 'w').close()\nos.rename('n', 'm')"),
    _attack("makes a file without a name", "names", "os.open('.', os.O_TMPFILE | os.O_RDWR)"),
    _any(
        "learns of other processes",
        "signals",
        "os.getpgid(other)",
        "os.getsid(other)",
        "os.getpriority(os.PRIO_PROCESS, other)",
        "os.sched_getscheduler(other)",
        "os.sched_getparam(other)",
    ),
    _attack(
        "learns the name of the machine",
        "identity",
        f"assert os.uname().nodename == {platform.node()!r} != 'sandbox'",
    ),
    _attack("takes 1 GiB", "limits", "bytearray(1 << 30)"),
    Trial("never ends", "limits", _function("def f(x):\n    while True: pass", HASTY), "timeout"),
    _attack("floods its output", "limits", "os.write(1, b'x' * 300000)", "pass", flooded=True),
    Trial(
        "is equal to everything",
        "protocol",
        _function("class A:\n    __eq__ = lambda *a: True\ndef f(x): return A()"),
        "fail",
    ),
    Trial("exits with success", "protocol", _function("import os\nos._exit(0)"), "crash"),
    _honest("an honest function", "protocol", "def f(x): return x + 1"),
    _honest(
        "an honest import",
        "files",
        "import decimal, zlib, unittest\ndef f(x): return int(decimal.Decimal(x) + 1)",
    ),
    _attack(
        "an honest thread",
        "limits",
        "import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()",
        "pass",
    ),
    Trial(
        "an honest class",
        "protocol",
        FunctionCheck(
            "class C:\n    def g(self, x): x.append(1)\n",
            "C",
            "a = []\nC().g(a)\nassert a == [1]",
            limits=PATIENT,
        ),
        "pass",
    ),
    Trial(
        "an honest script",
        "protocol",
        StdinCheck("print(int(input()) + 1)", (("1\n", "2\n"),), limits=PATIENT),
        "pass",
    ),
)


def crowd(most: int) -> tuple[Trial, ...]:
    """The trial of starting one thread more than N; none where those would be too many."""
    if most > MOST_TRIED:
        return ()
    start = (
        "import threading\nthreading.stack_size(1 << 16)\nover = threading.Event()\n"
        "def wait(): over.wait()\ntry:\n"
        f"    for n in range({most + 1}): threading.Thread(target=wait, daemon=True).start()\n"
        "finally: over.set()"
    )
    return (_attack("starts many threads", "threads", start),)


def self_test(grade: Callable[[Check], Verdict], tier: Tier, most_threads: int) -> None:
    """Runs the trials of a tier, whose user may have `most_threads`; NoSandbox at a wrong verdict."""
    for trial in (*TRIALS, *crowd(most_threads)):
        if trial.layer not in LAYERS[tier]:
            continue
        verdict = grade(trial.check)
        if verdict.outcome != trial.outcome or verdict.flooded != trial.flooded:
            with contextlib.suppress(OSError):
                Path(tempfile.gettempdir(), ABOVE).unlink()
            raise NoSandbox(
                f"The judge's self-test failed in tier {tier}, so nothing is graded: the program "
                f"that {trial.name} must get {trial.outcome} and got {verdict.outcome} "
                f"({verdict.reason or 'no reason'}). The layer that does not hold: {trial.layer}."
            )
