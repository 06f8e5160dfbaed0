"""Errors as OpenAI's clients know them, with the library's sentences: no trace, no path and no prompt."""

import math
from typing import Any

from archer.errors import (
    ArcherError,
    BadRequest,
    Cancelled,
    Closing,
    Expired,
    NonFinite,
    OutOfMemory,
    Overloaded,
    PassFailed,
    TooLong,
    words_of,
)

STOPPING = "The server is stopping; ask another one, or ask again later."
INVALID = "invalid_request_error"
MOST_PARAM = 200
MOST_MESSAGE = 2000
"""Characters; the longest sentence of the library lists all methods."""


class Refusal(Exception):
    """A request that ends with an error; what is sent about it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = _cut(message)
        self.kind = kind
        self.param = param and _cut(param, MOST_PARAM)
        self.code = code
        self.retry_after = retry_after

    @property
    def body(self) -> dict[str, Any]:
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error}

    @property
    def headers(self) -> dict[str, str]:
        if self.retry_after is None:
            return {}
        return {"retry-after": str(max(1, math.ceil(self.retry_after)))}


def _cut(text: str, most: int = MOST_MESSAGE) -> str:
    """What a client sent may stand in a sentence; it is never sent back at length."""
    return text if len(text) <= most else f"{text[:most]}..."


class RowFailed(ArcherError):
    """One of the responses of a request ended with logits that were not finite."""


def refusal(error: ArcherError) -> Refusal:
    """What a client is told about an error of the library."""
    message = words_of(error) or type(error).__name__
    match error:
        case Overloaded():
            kind = "rate_limit_error"
            return Refusal(
                429, message, kind=kind, code="queue_full", retry_after=error.retry_after
            )
        case Expired(where="queue"):
            return Refusal(503, message, kind="server_error", code="queue_timeout")
        case Expired():
            return Refusal(504, message, kind="server_error", code="timeout")
        case Closing():
            return Refusal(503, message, kind="server_error", code="stopping")
        case Cancelled():  # whoever left reads nothing; who still reads was cut off
            sentence = "The server stopped before the answer was complete."
            return Refusal(503, sentence, kind="server_error", code="stopping")
        case NonFinite() | RowFailed():
            return Refusal(422, message, kind="numerical_error", code="not_finite")
        case OutOfMemory():
            return Refusal(500, message, kind="server_error", code="out_of_memory")
        case PassFailed():  # its message is that of another library
            return unexpected()
        case TooLong():
            return Refusal(400, message, param="max_tokens", code="context_length_exceeded")
        case BadRequest():
            return Refusal(400, message)
        case _:
            return Refusal(500, message, kind="server_error")


def unexpected() -> Refusal:
    """What is told when nobody foresaw the error: nothing about it."""
    message = "The server made a mistake. Its log says where; nothing is wrong with the request."
    return Refusal(500, message, kind="server_error")
