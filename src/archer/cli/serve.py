"""`archer serve`: a model behind OpenAI's API."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from archer.cli.options import ModelOptions
from archer.errors import ArcherError, BadRequest

DEFAULT_MODEL = ModelOptions()
NEEDED = ("fastapi", "uvicorn", "prometheus_client")


@Parameter(name="*", group="Address")
@dataclass(frozen=True)
class AddressOptions:
    """Where the server listens, and to whom."""

    host: str = "127.0.0.1"
    """Address to listen at; another than this machine's own needs a key."""
    port: int = 8000
    """0 takes a free one, which is told when the server is ready."""
    api_key_file: Path | None = None
    """File with API keys, one per line; without it everybody on this machine may ask."""
    without_key: bool = False
    """Listen at an address that others can reach although there is no key."""
    no_page: bool = False
    """Leave out the page at /."""


@Parameter(name="*", group="Limits")
@dataclass(frozen=True)
class LimitOptions:
    """How much is taken on, and for how long."""

    budget: int | None = None
    """Columns per pass; measured at the start."""
    memory: float | None = None
    """GiB for running requests; what the machine has left."""
    max_length: int = 1024
    """Tokens of a response at most."""
    queue: int = 64
    """Requests that may wait."""
    queue_timeout: float = 60.0
    """Seconds that a request may wait."""
    timeout: float = 600.0
    """Seconds from arrival to the last token."""
    rows_per_key: int = 16
    """Responses that one key may have running."""
    drain: float = 30.0
    """Seconds for what is running when the server is told to stop."""


DEFAULT_ADDRESS = AddressOptions()
DEFAULT_LIMITS = LimitOptions()


def serve(
    *,
    model: ModelOptions = DEFAULT_MODEL,
    address: AddressOptions = DEFAULT_ADDRESS,
    limits: LimitOptions = DEFAULT_LIMITS,
) -> int:
    """Serve a model by OpenAI's API; / is a page on which one watches it decode."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ArcherError(
            f"The server needs {', '.join(missing)}: pip install 'archer-dlm[serve]'."
        )
    _check(limits)
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
    )
    return Server(model.load, setup).run()


def _check(limits: LimitOptions) -> None:
    for name in ("budget", "max_length", "queue", "rows_per_key"):
        value = getattr(limits, name)
        if value is not None and value < 1:
            option = name.replace("_", "-")
            raise BadRequest(f"--{option} takes a whole number, at least 1, not {value}.")
    for name in ("memory", "queue_timeout", "timeout"):
        value = getattr(limits, name)
        if value is not None and not 0 < value < float("inf"):
            option = name.replace("_", "-")
            raise BadRequest(f"--{option} takes a number above 0, not {value}.")
    if not 0 <= limits.drain < float("inf"):
        raise BadRequest(f"--drain takes a number of seconds, not {limits.drain}.")
