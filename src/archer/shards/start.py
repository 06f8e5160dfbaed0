"""From a checked folder to a network that is one of several: started here, or all of them by torchrun."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
from torch import distributed as dist

from archer.errors import BadRequest, ShardLost
from archer.loading.checkpoint import Folder
from archer.loading.source import Source
from archer.network.group import Group
from archer.network.network import Transformer
from archer.network.shard import Shard, check
from archer.shards.agreement import agree
from archer.shards.follower import Follower
from archer.shards.leader import Leader, Others
from archer.shards.processes import Processes

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store, TCPStore

COMMAND = (sys.executable, "-P", "-m", "archer.shards")
# -P keeps the working directory off the import path: a stray torch.py there must not run.
PATIENCE = timedelta(days=30)
"""How long a shard waits for the next message: a server may be idle for weeks."""
ARRIVAL = 120.0
"""Seconds for the others to start."""
POLL = 0.05
LOOPBACK = "127.0.0.1"
"""Where the shards of one machine meet and nobody else can reach them.

Left to themselves torch's store listens on every interface and gloo on that of the host name; neither asks
who is there.
"""
INTERFACE = "GLOO_SOCKET_IFNAME"
NAMES = ("lo", "lo0")
"""Of the loopback interface, on Linux and on macOS."""


@dataclass(frozen=True)
class ShardTask:
    """All that a process must know to be a shard; the source has nothing left to choose."""

    source: Source
    rank: int
    port: int

    def encoded(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decoded(cls, text: str) -> ShardTask:
        fields = json.loads(text)
        return cls(**{**fields, "source": Source(**fields["source"])})


class _Elsewhere:
    """Others that torchrun started, and ends."""

    def fate(self) -> str | None:
        return None

    def close(self, *, goodbye: bool) -> None:
        pass


def network_of(folder: Folder, source: Source) -> Transformer:
    """The first shard's network, the others at work; under torchrun it returns in the first alone."""
    source, shards = source.settled(folder), source.shards
    check(folder.shape, shards)
    if dist.is_initialized():
        raise BadRequest(
            "This process is part of a group of torch.distributed already, such as that of another model "
            "over shards. Close that one first."
        )
    rank = launched_rank(os.environ, shards)
    if rank is None:
        return _start(folder, source)
    shard = Shard(rank, shards)
    local = int(os.environ.get("LOCAL_RANK", rank))
    device = device_of(str(source.device), local)
    group = join(shard, device, None)
    if rank:
        follow(folder, replace(source, device=str(device)), group)
        raise SystemExit(0)
    return _leading(folder, replace(source, device=str(device)), group, _Elsewhere())


def launched_rank(environment: Mapping[str, str], shards: int) -> int | None:
    """This process's number under torchrun; None where nobody has started the others."""
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return None
    count = int(environment["WORLD_SIZE"])
    if count != shards:
        raise BadRequest(
            f"torchrun started {count} processes for {shards} shards. Give the same number to both."
        )
    return int(environment["RANK"])


def device_of(device: str, number: int) -> torch.device:
    which = torch.device(device)
    if which.type == "cpu":
        return which
    if ":" in device:
        raise BadRequest(
            f"Shards take one device each, so {device} cannot be all of them. Give {which.type}."
        )
    count = torch.accelerator.device_count()
    if number >= count:
        raise BadRequest(
            f"Shard {number + 1} needs a device of its own, and this machine has {count}. Take fewer shards."
        )
    return torch.device(which.type, number)


def join(shard: Shard, device: torch.device, store: Store | None) -> Group:
    """Become part of the group; without a store, as torchrun's environment says."""
    backend = "gloo" if device.type == "cpu" else "nccl"
    with nullcontext() if store is None else on_this_machine():
        dist.init_process_group(
            backend, store=store, rank=shard.rank, world_size=shard.of, timeout=PATIENCE
        )
        data = dist.group.WORLD
        assert data is not None
        control = data if backend == "gloo" else dist.new_group(backend="gloo", timeout=PATIENCE)
    assert isinstance(control, dist.ProcessGroup)
    return Group(shard, data, control)


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


def follow(folder: Folder, source: Source, group: Group) -> None:
    """Be a shard until the first one ends; whoever stops it tells the first, which answers what runs."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    agree(group, folder)
    network = source.network(folder, group.shard)
    follower = Follower(group, folder, network)
    follower.joins(network)
    follower.follow(source.threads)
    group.leave()


def follow_task(task: ShardTask) -> None:
    """The same in a process that the first shard started."""
    store = dist.TCPStore(LOOPBACK, task.port, is_master=False)  # type: ignore[attr-defined]
    store.set(_here(task.rank), "")
    source = task.source
    group = join(Shard(task.rank, source.shards), torch.device(str(source.device)), store)
    follow(source.folder(), source, group)


def _start(folder: Folder, source: Source) -> Transformer:
    """Start the others on this machine and lead them."""
    shards = source.shards
    devices = [str(device_of(str(source.device), rank)) for rank in range(shards)]
    store = own_store()
    tasks = [
        ShardTask(replace(source, device=devices[rank]), rank, store.port)
        for rank in range(1, shards)
    ]
    others = Processes([[*COMMAND, task.encoded()] for task in tasks])
    try:
        _wait_for(store, others, shards)
        others.stuck = lambda: True  # whoever ends now leaves the first one waiting for its address
        group = join(Shard(0, shards), torch.device(devices[0]), store)
        others.stuck = lambda: group.computing
    except BaseException:
        others.close(goodbye=False)
        raise
    try:
        return _leading(folder, replace(source, device=devices[0]), group, others)
    except BaseException:
        others.close(goodbye=False)
        group.leave()
        raise


def _wait_for(store: Store, others: Processes, shards: int) -> None:
    """Until every process is there: a group that waits for one that is gone would wait for ever."""
    last = time.monotonic() + ARRIVAL
    names = [_here(rank) for rank in range(1, shards)]
    while not store.check(names):
        sentence = others.ended()
        if sentence is None and time.monotonic() > last:
            sentence = f"The other shards did not start within {ARRIVAL:.0f} s. Start it again."
        if sentence is not None:
            raise ShardLost(sentence)
        time.sleep(POLL)


def _here(rank: int) -> str:
    return f"archer/here/{rank}"


def _leading(folder: Folder, source: Source, group: Group, others: Others) -> Transformer:
    try:
        agree(group, folder)
    except ShardLost as error:
        raise ShardLost(others.fate() or str(error)) from error
    network = source.network(folder, group.shard, lambda: _still(others))
    leader = Leader(group, folder.shape.vocabulary, folder.mask, others)
    leader.joins(network)
    network.all_shards = leader
    if isinstance(others, Processes):
        others.when_lost = leader.lose
    _still(others)
    weakref.finalize(network, leader.close)
    return network


def _still(others: Others) -> None:
    """Refuse to go on where one has ended; whoever ends later is told to the leader."""
    if isinstance(others, Processes) and (sentence := others.ended()) is not None:
        raise ShardLost(sentence)
