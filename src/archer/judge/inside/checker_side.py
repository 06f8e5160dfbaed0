"""The test's side: runs a test in a limited process of its own, away from the program.

The program's functions are stubs here: a call crosses to the sandbox as data, and data comes back.
Values that are not plain data become `Remote` objects, which are equal to nothing and have no
arithmetic, so that a program cannot answer a comparison.
"""

import ast
import builtins
import importlib
import random
import socket
from typing import Any, NoReturn

from . import limits, wire
from .remote import RAISED_BY_PROGRAM, Link, ProgramFault, Stub, Uncrossable

REASON_LENGTH = 300
TEST_FILE = "test.py"

# Modules that a test may borrow from a program that imported them; the test gets its own copy.
LENDABLE = frozenset(
    (
        *("bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions"),
        *("functools", "heapq", "itertools", "json", "math", "operator", "random", "re"),
        *("statistics", "string", "sys", "time", "typing"),
    )
)

BUILT_IN = frozenset(dir(builtins))


def serve(connection: wire.Connection) -> NoReturn:
    """Runs the one test of this process, reports what it saw, and waits to be ended.

    An end of its own accord would compete for the processor with the judge that reads the report.
    """
    _, body = connection.receive()
    order = wire.loads(body)
    limits.limit_this_process(order["cpu_seconds"], order["memory_bytes"])
    outcome, reason, broken = judge(Link(connection), order)
    verdict = {"outcome": outcome, "reason": reason[:REASON_LENGTH], "broken": broken}
    connection.send(wire.VERDICT, wire.dumps(verdict))
    while True:
        connection.receive()


def rehearse() -> None:
    """Goes once through what a test needs, for its memory; random numbers stay as they were."""
    limits.rehearse()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for value in ({}, {"value": 2}):
            theirs.sendall(wire.frame(wire.ANSWER, wire.dumps(value)))
        order = {"test": "assert f([1]) == 2\n", "entry_point": "f", "expose": None}
        judge(Link(wire.Connection(ours)), order)
    random.seed(0)


def judge(link: Link, order: dict[str, Any]) -> tuple[str, str, bool]:
    """(outcome, reason, whether the program broke the protocol)."""
    outcome, reason = "pass", ""
    try:
        _run(link, order)
    except BaseException as error:  # noqa: BLE001 - whatever the test raised, it did not pass
        outcome, reason = "fail", _explain(error)
    stopped = link.stopped
    if isinstance(stopped, ProgramFault):
        return "fail", str(stopped), stopped.broken
    if isinstance(stopped, Uncrossable):
        return "harness_error", str(stopped), False
    return outcome, reason, False


def _run(link: Link, order: dict[str, Any]) -> None:
    try:
        tree = ast.parse(order["test"])
        code = compile(tree, TEST_FILE, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"the test does not compile: {error}") from None
    entry = Stub(link, order["entry_point"])
    handed = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
    namespace: dict[str, Any] = {"__name__": "test"}
    if not (handed and order["expose"] is not None):
        namespace[order["entry_point"]] = entry
    namespace.update(_borrowed(link, free_names(tree) - namespace.keys(), order["expose"]))
    exec(code, namespace)
    if handed:
        namespace["check"](entry)
    link.wait_until_loaded()


def _borrowed(link: Link, names: set[str], expose: list[str] | None) -> dict[str, Any]:
    """What the test uses without defining it, as far as the program has it and may lend it.

    What bears the name of a standard module is the test's own copy, whatever the program made of it.
    """
    if not names:
        return {}
    exposed = names if expose is None else names & set(expose)
    lent: dict[str, Any] = {}
    for name, description in link.describe(sorted(names)).items():
        module = name if name in LENDABLE else str(description).removeprefix("from ")
        if description == "nothing" or name not in names:
            continue
        if module in LENDABLE:
            lent |= _from_library(module, name)
        elif description not in ("module", "value") and name in exposed:
            lent[name] = Stub(link, name)
    return lent


def _from_library(module: str, name: str) -> dict[str, Any]:
    """The test's own copy of a standard module, or of what a program imported from one."""
    own = importlib.import_module(module)
    if module == name:
        return {name: own}
    return {name: getattr(own, name)} if hasattr(own, name) else {}


def free_names(tree: ast.Module) -> set[str]:
    """Names that a test reads and nowhere defines, without the built-in ones."""
    used: set[str] = set()
    bound: set[str] = set(BUILT_IN)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return used - bound


def _explain(error: BaseException) -> str:
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == TEST_FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    try:
        message = str(error)
    except (ValueError, RecursionError, MemoryError):
        message = ""
    text = f"{type(error).__name__}: {message[:200]}" if message else type(error).__name__
    where = [f"line {line} of the test"] if line else []
    if RAISED_BY_PROGRAM in getattr(error, "__notes__", ()):
        where.append(RAISED_BY_PROGRAM)
    return f"{text} ({', '.join(where)})" if where else text
