"""The body of a request as plain data, bounded in every way so that none holds up the event loop for long."""

import asyncio
import json
import math
import re
from collections.abc import Collection
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from archer.server import limits
from archer.server.refusals import Refusal

TEXTS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""Texts in JSON; one without an end reaches to the end, so that it is tried once only."""


async def read_object(request: Request) -> dict[str, Any]:
    _check_kind(request.headers.get("content-type", ""))
    try:
        async with asyncio.timeout(limits.BODY_SECONDS):
            content = await _bytes(request)
    except TimeoutError:
        raise Refusal(408, "The request did not arrive in time.") from None
    except ClientDisconnect:
        raise Refusal(400, "The client left before its request was complete.") from None
    value = parse(content)
    if not isinstance(value, dict):
        raise Refusal(400, "The request must be a JSON object.")
    return value


def parse(content: bytes) -> Any:
    """Strict JSON: no NaN, no infinities, no name twice, no lone surrogates, no NUL, no excess."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        sentence = f"The request is not UTF-8: byte {error.start} cannot be read."
        raise Refusal(400, sentence) from error
    _check_brackets(text)
    try:
        value = json.loads(text, parse_constant=_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        sentence = f"The request is not JSON: {error.msg} at character {error.pos}."
        raise Refusal(400, sentence) from error
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise Refusal(400, "The request holds a number that is too long to be read.") from error
    _Check().values([value], 0)
    return value


def _check_kind(content_type: str) -> None:
    """Only JSON: a page elsewhere on the web cannot send it without the browser asking first."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "Send JSON with the header `Content-Type: application/json`.")


async def _bytes(request: Request) -> bytes:
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > limits.BODY:
        raise _too_large()
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limits.BODY:
            raise _too_large()
        parts.append(part)
    return b"".join(parts)


def _too_large() -> Refusal:
    return Refusal(413, f"The request is larger than {limits.BODY} bytes.", code="too_large")


def _too_deep() -> Refusal:
    return Refusal(400, f"The request is nested deeper than {limits.DEPTH} levels.")


def _constant(name: str) -> NoReturn:
    raise Refusal(400, f"{name} is not a number in JSON.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > limits.NAMES:
        raise Refusal(400, f"The request holds an object of more than {limits.NAMES} fields.")
    named = dict(pairs)
    if len(named) < len(pairs):
        raise Refusal(400, "The request gives a field twice.")
    return named


def _check_brackets(text: str) -> None:
    """Count lists and objects before they are made: a garbage collector is slow about many of them."""
    if text.count("[") + text.count("{") <= limits.CONTAINERS:
        return
    bare = TEXTS.sub("", text)
    if bare.count("[") + bare.count("{") > limits.CONTAINERS:
        raise Refusal(400, f"The request holds more than {limits.CONTAINERS} lists and objects.")


class _Check:
    """Looks at all values of a body, those of one kind in one list at once, and counts them."""

    def __init__(self) -> None:
        self._left = limits.VALUES

    def values(self, values: Collection[Any], depth: int) -> None:
        """`depth` is the number of brackets around them."""
        self._left -= len(values)
        if self._left < 0:
            raise Refusal(400, f"The request holds more than {limits.VALUES} values.")
        kinds = set(map(type, values))
        if str in kinds:
            _check_text("".join(each for each in values if type(each) is str))
        if int in kinds:  # true and false are of another type
            wholes = [each for each in values if type(each) is int]
            if min(wholes) < -limits.WHOLE or max(wholes) >= limits.WHOLE:
                raise Refusal(400, "The request holds a whole number of more than 64 bits.")
        if float in kinds and not all(math.isfinite(e) for e in values if type(e) is float):
            raise Refusal(400, "The request holds a number that is too large.")
        if kinds & {list, dict}:
            self._inside([each for each in values if type(each) in (list, dict)], depth + 1)

    def _inside(self, containers: Collection[Any], depth: int) -> None:
        if depth > limits.DEPTH:
            raise _too_deep()
        for each in containers:
            if isinstance(each, dict):
                _check_text("".join(each))
                self.values(each.values(), depth)
            else:
                self.values(each, depth)


def _check_text(text: str) -> None:
    if "\0" in text:
        raise Refusal(400, "The request holds the character NUL.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refusal(400, "The request holds half of a surrogate pair.") from error
