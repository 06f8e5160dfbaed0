"""Frames and the values in them: the only thing that passes between judge, program and test.

A frame is a length (4 bytes), a kind (1 byte) and a body in JSON. Values are plain data. What JSON
lacks is a tagged object; what is not plain data crosses as an opaque handle. Decoding builds
built-in objects only, never runs anything, and refuses whatever is malformed.
"""

import json
import math
import socket
import struct
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

HEADER = struct.Struct("!IB")
MESSAGE_BYTES = 16 << 20
DEPTH = 200
ITEMS = 1_000_000

READY, FAILED, LOAD, TEST, CALL, QUESTION, ANSWER, VERDICT = b"RXLTCQAV"
FORK, FORKED, EXITED, CLEARED = b"FPEK"


class WireError(Exception):
    """A message or a value breaks the rules of the protocol."""


def frame(kind: int, body: bytes) -> bytes:
    """One message, ready to be sent."""
    if len(body) > MESSAGE_BYTES:
        raise WireError(f"a message of {len(body)} bytes is over the cap of {MESSAGE_BYTES}")
    return HEADER.pack(len(body), kind) + body


class Connection:
    """A blocking socket that carries messages; the only reader of that socket."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._incoming = open(end.fileno(), "rb", closefd=False)  # noqa: SIM115

    def send(self, kind: int, body: bytes) -> None:
        self._end.sendall(frame(kind, body))

    def receive(self) -> tuple[int, bytes]:
        """The next message; EOFError at the end."""
        length, kind = HEADER.unpack(self._exactly(HEADER.size))
        if length > MESSAGE_BYTES:
            raise WireError(f"a message of {length} bytes is over the cap of {MESSAGE_BYTES}")
        return kind, self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        received = self._incoming.read(size)
        if len(received) < size:
            raise EOFError
        return received

    def close(self) -> None:
        self._end.close()


class WireEncoder:
    """Turns values into JSON-ready data; `opaque` gives the tag of what is not plain data."""

    def __init__(self, opaque: Callable[[Any], tuple[str, Any]]) -> None:
        self._opaque = opaque
        self._items = 0

    def encode(self, value: Any, depth: int = 0) -> Any:
        """The JSON-ready form; WireError if it is too deep or too large."""
        self._items += 1
        if depth > DEPTH or self._items > ITEMS:
            raise WireError(f"a value deeper than {DEPTH} or with more than {ITEMS} items")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, int):
            value = int.__int__(value)
            return value if -(1 << 63) <= value < 1 << 63 else {"int": hex(value)}
        if isinstance(value, float):
            value = float.__float__(value)
            return value if math.isfinite(value) else {"float": repr(value)}
        return self._container(value, depth)

    def as_number(self, value: Any) -> Any:
        """The built-in number that a value stands for; None for all else."""
        return None

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, list):
            return [self.encode(item, depth + 1) for item in value]
        if isinstance(value, dict):
            name = next((name for kind, name in DICTS.items() if isinstance(value, kind)), "dict")
            pairs = dict.items(value)
            return {name: [[self.encode(part, depth + 1) for part in pair] for pair in pairs]}
        for kind, name in ITERABLES.items():
            if isinstance(value, kind):
                return {name: [self.encode(item, depth + 1) for item in value]}
        for kind, (name, plain) in SCALARS.items():
            if isinstance(value, kind):
                return {name: plain(value)}
        plain = self.as_number(value)
        if plain is not None:
            return self.encode(plain, depth)
        name, data = self._opaque(value)
        return {name: data}


def _text(value: str) -> Any:
    value = str.__str__(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"str": value.encode("utf-8", "surrogatepass").hex()}
    return value


DICTS: dict[type[dict[Any, Any]], str] = {Counter: "counter", OrderedDict: "ordered"}
"""Kinds of dict that compare in a way of their own."""
ITERABLES: dict[type[Iterable[Any]], str] = {
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
    deque: "deque",
    type({}.keys()): "keys",
    type({}.items()): "items",
}
"""The views of a dict are equal to sets of the same items."""
SCALARS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bytes: ("bytes", bytes.hex),
    bytearray: ("bytearray", bytearray.hex),
    complex: ("complex", lambda z: [repr(z.real), repr(z.imag)]),
    range: ("range", lambda r: [hex(r.start), hex(r.stop), hex(r.step)]),
    Fraction: ("fraction", lambda q: [hex(q.numerator), hex(q.denominator)]),
    Decimal: ("decimal", str),
}


class WireDecoder:
    """Turns JSON-ready data back into values; `handle` gives meaning to tags that are not data."""

    def __init__(self, handle: Callable[[str, Any], Any]) -> None:
        self._handle = handle

    def decode(self, data: Any, depth: int = 0) -> Any:
        """The value; WireError if the data is malformed."""
        if depth > DEPTH + 1:
            raise WireError(f"a value deeper than {DEPTH}")
        if isinstance(data, list):
            return [self.decode(item, depth + 1) for item in data]
        if not isinstance(data, dict):
            return data
        if len(data) != 1:
            raise WireError("a tagged value must have one tag")
        [(name, body)] = data.items()
        try:
            return self._tagged(name, body, depth + 1)
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            raise WireError(f"a malformed {name[:20]}") from error

    def _tagged(self, name: str, body: Any, depth: int) -> Any:
        if name in FROM_PAIRS:
            pairs = {self.decode(key, depth): self.decode(item, depth) for key, item in body}
            return FROM_PAIRS[name](pairs)
        if name in FROM_ITEMS:
            return FROM_ITEMS[name]([self.decode(item, depth) for item in body])
        if name in FROM_PLAIN:
            return FROM_PLAIN[name](body)
        return self._handle(name, body)


FROM_PAIRS: dict[str, Callable[[dict[Any, Any]], Any]] = {
    "dict": lambda pairs: pairs,
    "ordered": OrderedDict,
    "counter": Counter,
}
FROM_ITEMS: dict[str, Callable[[list[Any]], Any]] = {
    **{name: kind for kind, name in ITERABLES.items()},
    "keys": lambda items: dict.fromkeys(items).keys(),
    "items": lambda items: dict(items).items(),
}
FROM_PLAIN: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "str": lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "complex": lambda parts: complex(float(parts[0]), float(parts[1])),
    "range": lambda parts: range(*(int(part, 16) for part in parts)),
    "fraction": lambda parts: Fraction(int(parts[0], 16), int(parts[1], 16)),
    "decimal": Decimal,
}


def dumps(data: Any) -> bytes:
    return TO_JSON.encode(data).encode()


def loads(body: bytes) -> Any:
    """JSON from bytes; WireError if it is none."""
    try:
        return FROM_JSON.decode(body.decode())
    except (ValueError, RecursionError) as error:
        raise WireError("a message that is not JSON") from error


def _no_constant(name: str) -> Any:
    raise ValueError(name)


# Made once: json.dumps and json.loads would make them anew for every message.
TO_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
FROM_JSON = json.JSONDecoder(parse_constant=_no_constant)
