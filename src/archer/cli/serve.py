"""`archer serve`: a model behind OpenAI's API."""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from cyclopts import Parameter
from pydantic import ValidationError

from archer.cli.messages import at_level
from archer.cli.numbers import Whole, names, whole
from archer.cli.options import DEFAULT_MODEL, SERVE, ModelOptions, require
from archer.errors import BadRequest
from archer.server.settings import ServerSettings

T = TypeVar("T")


def taken(*fields: str) -> Callable[[type[T]], type[T]]:
    """Gives a group of options these fields of the server's settings: type, default and help are theirs."""

    def give(group: type[T]) -> type[T]:
        types = get_type_hints(ServerSettings)
        for name in fields:
            field = ServerSettings.model_fields[name]
            words = " ".join((field.description or "").split())
            parameter = Parameter(help=words, **_as_typed(types[name]))
            group.__annotations__[name] = Annotated[types[name], parameter]
            setattr(group, name, field.default)
        return group

    return give


def _as_typed(kind: Any) -> dict[str, Any]:
    """How a value of this type is written: whole numbers as they are, several names behind one another."""
    if get_origin(kind) is tuple:
        return {"converter": names, "n_tokens": 1}
    return {"converter": whole} if int in (kind, *get_args(kind)) else {}


LIMITS = (
    "budget",
    "memory",
    "max_length",
    "queue",
    "queue_timeout",
    "timeout",
    "rows_per_key",
    "drain",
)
ADDRESS = ("api_key_file", "without_key", "served_model_name", "cors_origin")
REST = [name for name in ServerSettings.model_fields if name not in (*LIMITS, *ADDRESS, "page")]


@Parameter(name="*", group="Address")
@dataclass(frozen=True)
@taken(*ADDRESS)
class AddressOptions:
    """Where the server listens, and to whom."""

    host: str = "127.0.0.1"
    """Address to listen on; anything but localhost requires a key."""
    port: Whole = 8000
    """Port; 0 picks a free one, which is printed when the server is ready."""


@Parameter(name="*", group="Limits")
@dataclass(frozen=True)
@taken(*LIMITS)
class LimitOptions:
    """How much the server takes on, and for how long."""


@Parameter(name="*")
@dataclass(frozen=True)
@taken(*REST)
class ServingOptions:
    """What it answers, and how."""


DEFAULT_SERVING, DEFAULT_ADDRESS = ServingOptions(), AddressOptions()
DEFAULT_LIMITS = LimitOptions()


def serve(
    *,
    model: ModelOptions = DEFAULT_MODEL,
    address: AddressOptions = DEFAULT_ADDRESS,
    limits: LimitOptions = DEFAULT_LIMITS,
    serving: ServingOptions = DEFAULT_SERVING,
    no_page: bool = False,
    log_level: Literal["error", "warning", "info"] = "warning",
) -> int:
    """Serve a model through OpenAI's API; / is a page on which you can watch it decode.

    Args:
        no_page: Leave out the page at /.
        log_level: What is written to stderr; info adds a line per request, which never holds its prompt.
    """
    require("The server", SERVE, "serve")
    options = asdict(serving) | asdict(address) | asdict(limits) | {"page": not no_page}
    settings = _settings(**{name: options[name] for name in ServerSettings.model_fields})
    from archer.server.lifecycle import Server

    server = Server(model.load, settings, address.host, address.port)
    with at_level(log_level):
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
