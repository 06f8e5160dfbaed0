"""Shards of one machine meet on its loopback interface, where nobody else can reach them.

Left to themselves torch's store listens on every interface and gloo on that of the host name; neither asks
who is there.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch import distributed as dist

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore

LOOPBACK = "127.0.0.1"
INTERFACE = "GLOO_SOCKET_IFNAME"
NAMES = ("lo", "lo0")
"""Of the loopback interface, on Linux and on macOS."""


def own_store() -> TCPStore:
    """Where the shards of this machine find each other."""
    listening = socket.create_server((LOOPBACK, 0))
    port = listening.getsockname()[1]
    store: TCPStore = dist.TCPStore(  # type: ignore[attr-defined]
        LOOPBACK, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
    )
    return store


@contextmanager
def on_this_machine() -> Iterator[None]:
    """Whatever gloo opens meanwhile listens on loopback, unless the user chose an interface."""
    here = {name for _, name in socket.if_nameindex()}
    chosen = next((name for name in NAMES if name in here), None)
    if chosen is None or INTERFACE in os.environ:
        yield
        return
    os.environ[INTERFACE] = chosen
    try:
        yield
    finally:
        del os.environ[INTERFACE]
