"""Hostile and honest programs, each with the verdicts that are right for it.

They are in `programs/*.txt`, one after the other:

    ### name
    KIND: the outcomes that are right, and the marks that the verdict must carry
    the program
    ### test            (optional, likewise input and output; else the task is f(x) = x + 1)

KIND is `function` or `script` for a program as it stands. The lines of an `attack` are done before
the right answer is given, and must keep it from being given. The lines of a `nuisance` are done
before the right answer as well, but whatever comes of them, the right answer must get through.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent
from typing import cast

from archer.judge import Check, FunctionCheck, Limits, Outcome, StdinCheck
from tasks.bombs import BOMBS

PROGRAMS = Path(__file__).with_name("programs")
TEST = """
def check(candidate):
    for x in (1, 41, -7):
        assert candidate(x) == x + 1
"""
MEMORY = 256 << 20
PATIENT = Limits(cpu_seconds=10, wall_seconds=40, memory_bytes=MEMORY)
HASTY = Limits(cpu_seconds=5, wall_seconds=0.15, memory_bytes=MEMORY)
IMPORTS = "import ctypes, os, shutil, signal, socket, sys, time\n"
ATTACK = IMPORTS + "def f(x):\n{body}\n    return x + 1\n"
NUISANCE = (
    IMPORTS + "def g(x):\n{body}\n"
    "def f(x):\n    try: g(x)\n    except Exception: pass\n    return x + 1\n"
)
FRAMES = {"attack": ATTACK, "nuisance": NUISANCE}
MARKS = {"flooded", "violated", "violated-or-not"}


@dataclass(frozen=True)
class Case:
    """A program and what the judge may say about it; None where either is right."""

    name: str
    check: Check
    outcomes: frozenset[Outcome]
    flooded: bool | None = False
    violated: bool | None = False
    family: str = "awkward"


def corpus(repository: str) -> list[Case]:
    """All cases, with attacks on the repository aimed at where it really is."""
    paths = sorted(PROGRAMS.glob("*.txt"))
    written = [replace(case, family=path.stem) for path in paths for case in _read(path)]
    return [_aimed(case, repository) for case in (*written, *AWKWARD)]


def _aimed(case: Case, repository: str) -> Case:
    program = case.check.program
    if "REPOSITORY" not in program:
        return case
    program = program.replace("REPOSITORY", repository)
    return replace(case, check=replace(case.check, program=program))


def _read(path: Path) -> Iterator[Case]:
    sections: dict[str, str] = {}
    name = ""
    for block in path.read_text(encoding="utf-8").split("### ")[1:]:
        title, _, text = block.partition("\n")
        if title in ("test", "input", "output"):
            sections[title] = text
            continue
        if name:
            yield _case(name, sections)
        name, sections = title, {"program": text}
    yield _case(name, sections)


def _case(name: str, sections: dict[str, str]) -> Case:
    first, _, program = sections.pop("program").partition("\n")
    kind, _, words = first.partition(": ")
    said = words.split()
    outcomes = frozenset(cast("Outcome", word) for word in said if word not in MARKS)
    if kind in FRAMES:
        program = FRAMES[kind].format(body=indent(program.rstrip(), "    "))
    case = _made(name, kind, program.rstrip("\n"), outcomes, sections)
    return replace(
        case,
        flooded=None if kind == "script" else "flooded" in said,
        violated=None if "violated-or-not" in said or kind == "script" else "violated" in said,
    )


def _made(
    name: str, kind: str, program: str, outcomes: frozenset[Outcome], sections: dict[str, str]
) -> Case:
    limits = HASTY if "timeout" in outcomes else PATIENT
    if kind == "script":
        pair = (sections.get("input", "41\n"), sections.get("output", "42\n"))
        return Case(name, StdinCheck(program, (pair,), limits), outcomes)
    return Case(
        name, FunctionCheck(program, "f", sections.get("test", TEST), None, limits), outcomes
    )


def _function(name: str, program: str, *outcomes: Outcome) -> Case:
    return _made(name, "function", program, frozenset(outcomes), {})


RIGHT = "def f(x):\n    return x + 1\n"

# Programs that cannot well be written down in a text file.
AWKWARD = (
    _function("zero byte in the source", RIGHT + "\0", "fail"),
    _function("surrogate in the source", RIGHT + "# \udc80", "fail"),
    _function("10,000 parentheses", f"x = {'(' * 10000}1{')' * 10000}", "fail", "crash"),
    _function("empty program", "", "fail"),
    _function("source over the cap", RIGHT + "#" * (17 << 20), "fail"),
    _function("honest: 10 MB of source", f"#{'x' * 10_000_000}\n{RIGHT}", "pass"),
    _function("honest: CRLF", RIGHT.replace("\n", "\r\n"), "pass"),
    _made(
        "honest script: big input unread",
        "script",
        "print(42)",
        frozenset({"pass"}),
        {"input": "1\n" * 1_000_000},
    ),
    _made("script: silent", "script", "", frozenset({"fail"}), {}),
    *(
        _function(f"bomb: {name}", text, "fail", "crash", "timeout")
        for name, (text, _) in BOMBS.items()
    ),
)
