"""Stand-ins, on the test's side, for the functions and objects of a program."""

import builtins
from collections import deque
from collections.abc import Iterator
from typing import Any, NoReturn

from . import wire

RAISED_BY_PROGRAM = "raised by the program"
ENDS_AN_ITERATION = (StopIteration, StopAsyncIteration, GeneratorExit)


class ProgramFault(BaseException):
    """The program's answer cannot be used, or not passed on: too deep, too large, malformed.

    Not an Exception, so that no test can swallow it.
    """

    def __init__(self, message: str, broken: bool) -> None:
        super().__init__(message)
        self.broken = broken


class Uncrossable(BaseException):
    """The test hands the program something that is not plain data; no program is to blame."""


class ProgramError(Exception):
    """The program raised something that is no ordinary exception, such as SystemExit."""


class Link:
    """The test's connection to the program.

    `stopped` remembers why the conversation is over, so that a test that swallows every exception
    still does not pass. The first question is sent without waiting for the program to be loaded;
    the answer to the loading comes first.
    """

    def __init__(self, connection: wire.Connection) -> None:
        self._connection = connection
        self._loading = True
        self.stopped: ProgramFault | Uncrossable | None = None

    def ask(self, kind: int, request: dict[str, Any]) -> dict[str, Any]:
        if self.stopped is not None:
            raise self.stopped
        try:
            self._connection.send(kind, wire.dumps(request))
        except wire.WireError as error:
            self._stop(ProgramFault(f"The test would pass on {error}.", broken=False))
        self.wait_until_loaded()
        return self._answer()

    def wait_until_loaded(self) -> None:
        """Receives the answer to the loading, if that is still to come."""
        if not self._loading:
            return
        self._loading = False
        try:
            self._answer()
        except Exception as error:  # noqa: BLE001 - whatever the program raised when loaded
            reason = f"{type(error).__name__}: {error} ({RAISED_BY_PROGRAM})"
            self._stop(ProgramFault(reason, broken=False))

    def _answer(self) -> dict[str, Any]:
        """Receives an answer, and raises here what the program raised there."""
        try:
            kind, body = self._connection.receive()
            answer: dict[str, Any] = wire.loads(body)
            if kind != wire.ANSWER or not isinstance(answer, dict):
                raise wire.WireError("an answer of the wrong kind")
            if "fault" in answer:
                fault = str(answer["fault"])[:200]
                self._stop(ProgramFault(f"The program answered with {fault}.", broken=False))
            if "raised" in answer:
                raise_here(answer["raised"], answer.get("message"))
        except wire.WireError as error:
            self._stop(ProgramFault(f"The program sent {error}.", broken=True))
        return answer

    def _stop(self, reason: "ProgramFault | Uncrossable") -> NoReturn:
        self.stopped = reason
        raise reason

    def describe(self, names: list[str]) -> dict[str, Any]:
        """How the program uses some names."""
        value = self.ask(wire.QUESTION, {"do": "describe", "names": names}).get("value")
        return value if isinstance(value, dict) else {}

    def call(self, target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Calls something of the program, and copies back what it did to mutable arguments."""
        request = {
            "do": "call",
            "target": self.encode(target),
            "arguments": [self.encode(argument) for argument in arguments],
            "keywords": {name: self.encode(item) for name, item in keywords.items()},
        }
        answer = self.ask(wire.CALL, request)
        if "arguments" in answer:
            changed = self.decode(answer["arguments"])
            for old, new in zip(arguments, changed, strict=False):
                copy_into(old, new)
        left = answer.get("keywords")
        if isinstance(left, dict):
            for name in keywords.keys() & left.keys():
                copy_into(keywords[name], self.decode(left[name]))
        return self.decode(answer.get("value"))

    def question(self, operation: str, target: "Remote", **details: Any) -> Any:
        """Asks something about an object of the program."""
        request = {"do": operation, "target": self.encode(target), **details}
        return self.decode(self.ask(wire.CALL, request).get("value"))

    def encode(self, value: Any) -> Any:
        """A value on its way to the program."""
        try:
            return wire.WireEncoder(_as_handle).encode(value)
        except Uncrossable as error:
            self._stop(error)
        except wire.WireError as error:
            self._stop(ProgramFault(f"The test would pass on {error}.", broken=False))

    def decode(self, data: Any) -> Any:
        """A value that came from the program."""
        try:
            return wire.WireDecoder(self._remote).decode(data)
        except wire.WireError as error:
            self._stop(ProgramFault(f"The program sent {error}.", broken=True))

    def _remote(self, kind: str, body: Any) -> Any:
        if kind != "opaque" or not isinstance(body[0], int):
            raise wire.WireError("a value of no known kind")
        return Remote(self, body[0], str(body[1]))


def _as_handle(value: Any) -> tuple[str, Any]:
    if isinstance(value, Remote):
        return "handle", value.number
    if isinstance(value, Stub):
        return "name", value.name
    raise Uncrossable(
        f"The test passes a {type(value).__name__} to the program, and only plain data can cross."
    )


def copy_into(old: Any, new: Any) -> None:
    """Makes a mutable argument look as the program left it."""
    if isinstance(old, list | bytearray) and isinstance(new, type(old)):
        old[:] = new
    elif isinstance(old, dict | set) and isinstance(new, type(old)):
        old.clear()
        old.update(new)
    elif isinstance(old, deque) and isinstance(new, deque):
        old.clear()
        old.extend(new)


def raise_here(names: Any, message: Any) -> None:
    """Raises the built-in exception nearest to the one that the program raised.

    Exceptions that end an iteration are turned into RuntimeError: raised inside `map`, they would
    end the test's loop early and skip its assertions.
    """
    text = message if isinstance(message, str) else ""
    for name in names if isinstance(names, list) else []:
        kind = getattr(builtins, name, None) if isinstance(name, str) else None
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            continue
        if issubclass(kind, ENDS_AN_ITERATION):
            kind, text = RuntimeError, f"{name} {text}"
        try:
            error = kind(text)
        except TypeError:
            continue
        raise _marked(error)
    first = str(names[0]) if isinstance(names, list) and names else "something"
    raise _marked(ProgramError(f"{first} {text}"))


def _marked(error: Exception) -> Exception:
    error.add_note(RAISED_BY_PROGRAM)
    return error


class Stub:
    """A function or class of the program, by name."""

    def __init__(self, link: Link, name: str) -> None:
        self._link = link
        self.name = name
        self.__name__ = name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._link.call(self, arguments, keywords)


class Remote:
    """An object of the program that is not plain data. Equal to nothing, not even to itself.

    It can be called, iterated, indexed and asked for its length, its truth and its attributes; none of
    these tells the program what the test expects.
    """

    __hash__ = object.__hash__

    def __init__(self, link: Link, number: int, kind: str) -> None:
        self._link = link
        self.number = number
        self._kind = kind

    def __repr__(self) -> str:
        return f"<{self._kind[:50]} of the program>"

    def __eq__(self, other: object) -> bool:
        return False

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._link.call(self, arguments, keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._link.question("get", self, name=name)

    def __len__(self) -> int:
        return int(self._link.question("length", self))

    def __getitem__(self, key: Any) -> Any:
        return self._link.question("item", self, key=self._link.encode(key))

    def __bool__(self) -> bool:
        return bool(self._link.question("truth", self))

    def __iter__(self) -> Iterator[Any]:
        iterator = self._link.question("iterate", self)
        while True:
            answer = self._link.question("next", iterator)
            if not isinstance(answer, list) or len(answer) != 1:
                return
            yield answer[0]
