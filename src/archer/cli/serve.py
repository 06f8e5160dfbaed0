"""`archer serve`: a model behind OpenAI's API."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from cyclopts import Parameter

from archer.cli.extras import SERVE, require
from archer.cli.options import ModelOptions
from archer.cli.whole import MaybeWhole, Whole
from archer.errors import BadRequest

if TYPE_CHECKING:
    from archer.methods.presets import Preset

DEFAULT_MODEL = ModelOptions()
MOST = 1e9
"""Seconds or GiB that anybody means."""


@Parameter(name="*", group="Address")
@dataclass(frozen=True)
class AddressOptions:
    """Where the server listens, and to whom."""

    host: str = "127.0.0.1"
    """Address to listen on; any other than this machine's own needs a key."""
    port: Whole = 8000
    """0 takes a free port, which is printed when the server is ready."""
    api_key_file: Path | None = None
    """File with API keys, one per line; without it, everybody on this machine may ask."""
    without_key: bool = False
    """Listen on an address that others can reach, without a key."""
    no_page: bool = False
    """Leave out the page at /."""


@Parameter(name="*", group="Limits")
@dataclass(frozen=True)
class LimitOptions:
    """How much the server takes on, and for how long."""

    budget: MaybeWhole = None
    """Columns per pass; measured at the start."""
    memory: float | None = None
    """GiB for running requests; half of what is free at the start."""
    max_length: Whole = 1024
    """The most tokens in a response."""
    queue: Whole = 64
    """The most prompts that may wait."""
    queue_timeout: float = 60.0
    """The longest that a request may wait, in seconds."""
    timeout: float = 600.0
    """The longest from arrival to the last token, in seconds."""
    rows_per_key: Whole = 16
    """Responses that one key may have running at a time."""
    drain: float = 30.0
    """Seconds for running requests to finish when the server is told to stop."""


DEFAULT_ADDRESS = AddressOptions()
DEFAULT_LIMITS = LimitOptions()


def serve(
    *,
    model: ModelOptions = DEFAULT_MODEL,
    address: AddressOptions = DEFAULT_ADDRESS,
    limits: LimitOptions = DEFAULT_LIMITS,
    preset: Path | None = None,
) -> int:
    """Serve a model through OpenAI's API; / is a page on which you can watch it decode.

    Parameters
    ----------
    preset
        File of `archer tune`: how requests are decoded that name no method; archer with its defaults.
    """
    require("The server", SERVE, "serve")
    _check(limits)
    chosen = None if preset is None else _preset(preset, limits.max_length)
    from archer.server.access import read_keys
    from archer.server.lifecycle import Server, Setup
    from archer.server.limits import Limits

    setup = Setup(
        host=address.host,
        port=address.port,
        keys=() if address.api_key_file is None else read_keys(address.api_key_file),
        without_key=address.without_key,
        page=not address.no_page,
        budget=limits.budget,
        memory=None if limits.memory is None else int(limits.memory * (1 << 30)),
        limits=Limits(
            length=limits.max_length,
            queue=limits.queue,
            queue_seconds=limits.queue_timeout,
            seconds=limits.timeout,
            rows_per_key=limits.rows_per_key,
            drain_seconds=limits.drain,
        ),
        preset=chosen,
    )
    server = Server(model.load, setup)
    code = server.run()
    if server.still_loading:
        _end_here(code)
    return code


def _end_here(code: int) -> NoReturn:
    """End without taking the interpreter down: a thread that is inside torch then aborts the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _preset(path: Path, longest: int) -> Preset:
    from archer.methods.presets import open_preset

    found = open_preset(path)
    length = found.settings.get("length", 0)
    if length > longest:
        raise BadRequest(
            f"The preset {path} asks for responses of {length} tokens, and {longest} are allowed: raise "
            "--max-length."
        )
    return found


def _check(limits: LimitOptions) -> None:
    for name in ("budget", "max_length", "queue", "rows_per_key"):
        value = getattr(limits, name)
        if value is not None and value < 1:
            option = name.replace("_", "-")
            raise BadRequest(f"--{option} takes a whole number, at least 1, not {value}.")
    for name in ("memory", "queue_timeout", "timeout"):
        value = getattr(limits, name)
        if value is not None and not 0 < value <= MOST:
            option = name.replace("_", "-")
            raise BadRequest(f"--{option} takes a number above 0, not {value}.")
    if not 0 <= limits.drain < float("inf"):
        raise BadRequest(f"--drain takes a number of seconds, not {limits.drain}.")
