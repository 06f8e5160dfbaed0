"""The body of a request as plain data: bounded in bytes, time and depth, and free of what JSON leaves open.

Starlette's own limit on bodies answers with plain text, which OpenAI's clients cannot read; hence this one.
"""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from archer.server import limits
from archer.server.refusals import Refusal


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object that was sent."""
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
    """Strict JSON: no NaN, no infinities, no name twice, no lone surrogates, no NUL, nothing too deep."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        sentence = f"The request is not UTF-8: byte {error.start} cannot be read."
        raise Refusal(400, sentence) from error
    try:
        value = json.loads(text, parse_constant=_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        sentence = f"The request is not JSON: {error.msg} at character {error.pos}."
        raise Refusal(400, sentence) from error
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise Refusal(400, "The request holds a number that is too long to be read.") from error
    _check(value, 1)
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
    named = dict(pairs)
    if len(named) < len(pairs):
        raise Refusal(400, "The request gives a field twice.")
    return named


def _check(value: Any, depth: int) -> None:
    if depth > limits.DEPTH:
        raise _too_deep()
    match value:
        case dict():
            for name, inner in value.items():
                _check(name, depth)
                _check(inner, depth + 1)
        case list():
            for inner in value:
                _check(inner, depth + 1)
        case str():
            _check_text(value)
        case bool():
            pass
        case int():
            if not -limits.WHOLE <= value < limits.WHOLE:
                raise Refusal(400, "The request holds a whole number of more than 64 bits.")
        case float():
            if not math.isfinite(value):
                raise Refusal(400, "The request holds a number that is too large.")


def _check_text(text: str) -> None:
    if "\0" in text:
        raise Refusal(400, "The request holds the character NUL.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refusal(400, "The request holds half of a surrogate pair.") from error
