"""`archer serve`: a model behind OpenAI's API."""

import os
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from cyclopts import Parameter
from pydantic import ValidationError

from archer.cli.messages import at_level
from archer.cli.numbers import MaybeWhole, Whole
from archer.cli.options import DEFAULT_MODEL, SERVE, ModelOptions, require
from archer.errors import BadRequest
from archer.server.settings import ServerSettings

DEFAULT = ServerSettings()


@Parameter(name="*", group="Address")
@dataclass(frozen=True)
class AddressOptions:
    """Where the server listens, and to whom."""

    host: str = "127.0.0.1"
    """Address to listen on; anything but localhost requires a key."""
    port: Whole = 8000
    """Port; 0 picks a free one, which is printed when the server is ready."""
    api_key_file: Path | None = None
    """File with API keys, one per line; without it, anyone on this machine may send requests."""
    without_key: bool = False
    """Listen on a public address without requiring a key."""
    no_page: bool = False
    """Leave out the page at /."""
    served_model_name: str | None = None
    """What clients call the model [default: the hub id, or the folder's name]."""
    cors_origin: tuple[str, ...] = ()
    """Origin whose pages may read answers, such as https://chat.example; may be given several times."""
    log_level: Literal["error", "warning", "info"] = "warning"
    """What is written to stderr; info adds a line per request, which never holds its prompt."""


@Parameter(name="*", group="Limits")
@dataclass(frozen=True)
class LimitOptions:
    """How much the server takes on, and for how long."""

    budget: MaybeWhole = DEFAULT.budget
    """Columns per pass [default: measured at the start]."""
    memory: float | None = DEFAULT.memory
    """GiB for running requests [default: half of what is free at the start]."""
    max_length: Whole = DEFAULT.max_length
    """Longest response allowed, in tokens."""
    queue: Whole = DEFAULT.queue
    """Maximum number of waiting prompts."""
    queue_timeout: float = DEFAULT.queue_timeout
    """Maximum seconds that a request may wait."""
    timeout: float = DEFAULT.timeout
    """Maximum seconds from arrival to the last token."""
    rows_per_key: Whole = DEFAULT.rows_per_key
    """Maximum responses that one key may have running at a time."""
    drain: float = DEFAULT.drain
    """Seconds that running requests get to finish when the server is asked to stop."""


DEFAULT_ADDRESS = AddressOptions()
DEFAULT_LIMITS = LimitOptions()


def serve(
    *,
    model: ModelOptions = DEFAULT_MODEL,
    address: AddressOptions = DEFAULT_ADDRESS,
    limits: LimitOptions = DEFAULT_LIMITS,
    method: str | None = None,
    allow_own_code: bool = False,
    preset: Path | None = None,
    allow_weight_updates: Path | None = None,
) -> int:
    """Serve a model through OpenAI's API; / is a page on which you can watch it decode.

    Args:
        method: Method for requests that name none [default: what the model was released with].
        allow_own_code: Let --method name code in a file, ./mine.py:MyDecoder, which then runs in the server.
        preset: The same as a preset file from `archer tune`, with settings.
        allow_weight_updates: Let clients with a key change the weights to those of folders below this one.
    """
    require("The server", SERVE, "serve")
    settings = _settings(
        **asdict(limits),
        api_key_file=address.api_key_file,
        without_key=address.without_key,
        page=not address.no_page,
        method=method,
        allow_own_code=allow_own_code,
        served_model_name=address.served_model_name,
        cors_origin=address.cors_origin,
        preset=preset,
        allow_weight_updates=allow_weight_updates,
    )
    from archer.server.lifecycle import Server

    server = Server(model.load, settings, address.host, address.port)
    with at_level(address.log_level):
        code = server.run()
    if server.still_working:
        _end_here(code)
    return code


def _end_here(code: int) -> NoReturn:
    """End without taking the interpreter down: a thread that is inside torch then aborts the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _settings(**options: Any) -> ServerSettings:
    try:
        return ServerSettings(**options)
    except ValidationError as error:
        fault = error.errors()[0]
        option = str(fault["loc"][0]).replace("_", "-")
        needed = re.sub("^(Input|String|Value error,) ", "", fault["msg"])
        raise BadRequest(f"--{option} {needed}, not {fault['input']}.") from error
