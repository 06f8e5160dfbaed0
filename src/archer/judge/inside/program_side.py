"""The program's side: runs model-written code, which may rewrite it: all that leaves is answers."""

import builtins
import contextlib
import os
import socket
import sys
import traceback
import types
from collections import deque
from collections.abc import Callable
from typing import Any

from . import limits, wire

MUTABLE = (list, dict, set, deque, bytearray)
MESSAGE_LENGTH = 300
NUMBERS = ("b", "i", "u", "f", "c")
"""Kinds of numpy: truth, whole, unsigned, real, complex."""


def serve(connection: wire.Connection) -> int:
    """Loads the one program of this process, then runs it or answers calls; returns an exit code."""
    _, body = connection.receive()
    order = wire.loads(body)
    limits.limit_this_process(order["cpu_seconds"], order["memory_bytes"])
    if order["script"]:
        connection.close()
        return run_script(order["source"])
    converse(connection, order["source"])
    os._exit(0)


def converse(connection: wire.Connection, source: str) -> None:
    """Loads a program and answers questions about it until nobody asks any more."""
    program = Program()
    reply = program.answer(lambda: program.load(source))
    with contextlib.suppress(EOFError, OSError):
        while True:
            connection.send(wire.ANSWER, reply)
            _, body = connection.receive()
            reply = program.reply(body)


def rehearse() -> None:
    """Goes once through what a program needs: pages are copied now, not against the clock."""
    _fresh_streams()
    vars(builtins).update(exit=sys.exit, quit=sys.exit)
    call = {"do": "call", "target": {"name": "f"}, "arguments": ["rehearsal"], "keywords": {}}
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for kind, order in (
            (wire.LOAD, {"source": "def f(x):\n    return [x]\n"}),
            (wire.CALL, call),
        ):
            ours.sendall(wire.frame(kind, wire.dumps(order)))
        ours.shutdown(socket.SHUT_WR)
        connection = wire.Connection(theirs)
        _, body = connection.receive()
        limits.rehearse()
        converse(connection, wire.loads(body)["source"])
    del sys.modules["program"]


def _fresh_streams() -> None:
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def run_script(source: str) -> int:
    """Runs a program as `python program.py` would; the caller ends the process with the result."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = ["program.py"]
    try:
        exec(compile(source, "program.py", "exec"), module.__dict__)
    except SystemExit:
        raise
    except BaseException:  # noqa: BLE001 - whatever the program raised is its own failure
        traceback.print_exc()
        return 1
    return 0


class HandleEncoder(wire.WireEncoder):
    """Takes numbers of array libraries for the built-in ones that they are equal to."""

    def as_number(self, value: Any) -> Any:
        """None for all but a single number that says which kind it is of."""
        if getattr(value, "shape", None) != () or not callable(getattr(value, "item", None)):
            return None
        if getattr(getattr(value, "dtype", None), "kind", None) not in NUMBERS:
            return None
        plain = value.item()
        return plain if type(plain) in (bool, int, float, complex) else None


class Program:
    """A loaded program, and the objects of it that the test holds handles to."""

    def __init__(self) -> None:
        self._module = types.ModuleType("program")
        self._handles: list[Any] = []

    def load(self, source: str) -> Any:
        sys.modules["program"] = self._module
        exec(compile(source, "program.py", "exec"), self._module.__dict__)
        return {}

    def reply(self, body: bytes) -> bytes:
        """The answer to one question of the test."""
        return self.answer(lambda: self._perform(wire.loads(body)))

    def answer(self, action: Callable[[], Any]) -> bytes:
        """What an action gave: its value, the exception that it raised, or why neither can cross."""
        try:
            body = wire.dumps(action())
        except wire.WireError as error:
            return wire.dumps({"fault": str(error)})
        except BaseException as error:  # noqa: BLE001 - every exception of the program is an answer
            names = [kind.__name__ for kind in type(error).__mro__]
            return wire.dumps({"raised": names, "message": _message(error)})
        if len(body) > wire.MESSAGE_BYTES:
            return wire.dumps({"fault": f"an answer of {len(body)} bytes"})
        return body

    def _perform(self, request: dict[str, Any]) -> Any:
        decoder = wire.WireDecoder(self._resolve)
        operation = request["do"]
        if operation == "describe":
            return {"value": {name: self._describe(name) for name in request["names"]}}
        target = decoder.decode(request["target"])
        if operation == "call":
            return self._call(target, decoder, request)
        if operation == "get":
            return {"value": self._encode(getattr(target, request["name"]))}
        if operation == "item":
            return {"value": self._encode(target[decoder.decode(request["key"])])}
        plain: dict[str, Callable[[Any], Any]] = {
            "iterate": iter,
            "next": _next,
            "length": len,
            "truth": bool,
        }
        return {"value": self._encode(plain[operation](target))}

    def _call(self, target: Any, decoder: wire.WireDecoder, request: dict[str, Any]) -> Any:
        arguments = decoder.decode(request["arguments"])
        keywords = {name: decoder.decode(item) for name, item in request["keywords"].items()}
        value = self._encode(target(*arguments, **keywords))
        answer = {"value": value}
        if any(isinstance(argument, MUTABLE) for argument in arguments):
            changed = self._encode(arguments)
            if changed != request["arguments"]:
                answer["arguments"] = changed
        if any(isinstance(item, MUTABLE) for item in keywords.values()):
            left = {name: self._encode(item) for name, item in keywords.items()}
            if left != request["keywords"]:
                answer["keywords"] = left
        return answer

    def _encode(self, value: Any) -> Any:
        return HandleEncoder(self._hand_out).encode(value)

    def _hand_out(self, value: Any) -> tuple[str, Any]:
        self._handles.append(value)
        return "opaque", [len(self._handles) - 1, type(value).__name__]

    def _resolve(self, kind: str, body: Any) -> Any:
        if kind == "handle":
            return self._handles[body]
        try:
            return self._module.__dict__[body]
        except KeyError:
            raise NameError(f"name {body!r} is not defined") from None

    def _describe(self, name: str) -> str:
        """How the program uses a name: "module", "callable", "from MODULE", "value" or "nothing"."""
        if name not in self._module.__dict__:
            return "nothing"
        thing = self._module.__dict__[name]
        if isinstance(thing, types.ModuleType):
            return "module"
        origin = getattr(thing, "__module__", None)
        if callable(thing) and origin != "program" and isinstance(origin, str):
            return f"from {origin}"
        return "callable" if callable(thing) else "value"


def _next(iterator: Any) -> list[Any]:
    """The next item in a list of its own; an empty list at the end."""
    try:
        return [next(iterator)]
    except StopIteration:
        return []


def _message(error: BaseException) -> str:
    try:
        text = str(error)[:MESSAGE_LENGTH]
    except BaseException:  # noqa: BLE001 - a message that cannot be had is no message
        return ""
    return text.encode("utf-8", "backslashreplace").decode()
