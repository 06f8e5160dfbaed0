"""How shards end: told to, killed, or at odds with each other."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from archer.errors import ShardLost
from archer.loading.checkpoint import load_network, read_folder
from archer.loading.source import Source
from archer.model import Model, load
from archer.network.group import Group
from archer.network.network import Transformer
from archer.shards import start
from archer.shards.agreement import agree, digests
from archer.shards.leader import Leader
from archer.shards.message import Message
from archer.shards.one_shard import compare
from archer.shards.processes import Processes
from archer.shards.start import ShardTask, launched_rank
from shards.pairs_of_models import FOLDERS, processes_of
from support.processes import alive, children, ran, running

WITHIN = 10.0
LISTENING = "0A"
"""How /proc/net/tcp writes this state."""
SHORT = ("--length", "12", "--dtype", "float64")
LONG = ("--length", "480", "--method", "confidence")


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Model]:
    model = load(FOLDERS["llada"](tmp_path / "model"), shards=2, device="cpu")
    yield model
    model.close()


def gone(pid: int, within: float = WITHIN) -> bool:
    """Whether a process ends in time; a zombie has ended."""
    last = time.monotonic() + within
    while time.monotonic() < last:
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def test_a_killed_shard_ends_the_first_with_a_sentence(shared: Model) -> None:
    (pid,) = processes_of(shared).pids
    shared.generate([[3, 1, 4]], "confidence", length=4)
    heard: list[ShardLost] = []
    assert shared.network.all_shards is not None
    shared.network.all_shards.when_lost(heard.append)
    os.kill(pid, signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(
        ShardLost, match=r"^Shard 2 of 2 ended by SIGKILL, and the model cannot go on"
    ):
        shared.generate([[3, 1, 4]], "confidence", length=64)
    with pytest.raises(ShardLost, match="Shard 2 of 2 ended by SIGKILL"):
        shared.generate([[3, 1, 4]], "confidence", length=4)
    assert time.monotonic() - started < WITHIN
    assert [str(each) for each in heard] == [str(heard[0])]
    late: list[ShardLost] = []
    shared.network.all_shards.when_lost(late.append)
    assert late == heard


def test_an_engine_with_a_thread_fails_what_runs_and_takes_nothing_more(shared: Model) -> None:
    from archer.errors import Closing

    engine = shared.engine(budget=64)
    engine.start()
    handle = engine.submit([3, 1, 4], "confidence", length=400)
    (pid,) = processes_of(shared).pids
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ShardLost, match="Shard 2 of 2 ended by SIGKILL"):
        handle.result()
    with pytest.raises(Closing):
        engine.submit([3, 1, 4], "confidence", length=8)
    engine.close()


def test_with_one_the_rest_are_ended() -> None:
    """Whoever is left would keep its weights and wait for orders that never come."""
    others = Processes([["sleep", "60"]] * 3)
    heard: list[str] = []
    others.when_lost = heard.append
    os.kill(others.pids[1], signal.SIGKILL)
    assert all(gone(pid) for pid in others.pids)
    others.close(goodbye=False)
    (sentence,) = heard
    assert sentence.startswith("Shard 3 of 4 ended by SIGKILL")


@pytest.mark.slow
def test_a_shard_that_ends_while_the_first_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Processes] = []

    class Noted(Processes):
        def __init__(self, commands: Sequence[Sequence[str]]) -> None:
            super().__init__(commands)
            started.append(self)

    def killed_meanwhile(*given: Any, **options: Any) -> Transformer:
        os.kill(started[0].pids[0], signal.SIGKILL)
        assert started[0].fate() is not None
        return load_network(*given, **options)

    monkeypatch.setattr(start, "Processes", Noted)
    monkeypatch.setattr("archer.loading.checkpoint.load_network", killed_meanwhile)
    with pytest.raises(ShardLost, match="Shard 2 of 2 ended by SIGKILL"):
        load(FOLDERS["llada"](tmp_path / "model"), shards=2, device="cpu")
    assert not torch.distributed.is_initialized()


ENDS_BEFORE_JOINING = """
import sys
import archer
from archer.shards import processes, start

processes.STUCK_AFTER = 0.5
ends = (
    "import sys; from archer.shards import start; from torch import distributed;"
    "task = start.ShardTask.decoded(sys.argv[1]);"
    "store = distributed.TCPStore(start.LOOPBACK, task.port, is_master=False);"
    "store.set(start._here(task.rank), ''); sys.exit(3)"
)
start.COMMAND = (sys.executable, "-c", ends)
archer.load(sys.argv[1], shards=2, device="cpu")
"""


@pytest.mark.slow
def test_a_shard_that_ends_before_it_has_joined(tmp_path: Path) -> None:
    """Nothing breaks off then: the first would wait for its address for ever."""
    folder = FOLDERS["llada"](tmp_path / "model")
    found = ran(sys.executable, "-c", ENDS_BEFORE_JOINING, folder, code=1, timeout=300)
    assert found.stderr.startswith("Shard 2 of 2 ended with exit code 3")
    assert found.stderr.count("\n") == 1


def test_a_closed_model_says_so(shared: Model) -> None:
    (pid,) = processes_of(shared).pids
    shared.close()
    assert gone(pid, 1.0)
    with pytest.raises(ShardLost, match="This model was closed"):
        shared.generate([[3, 1, 4]], "confidence", length=4)


def command(folder: Path, *more: str) -> list[str]:
    options = ("--model", str(folder), "--shards", "2", "--prompt-ids", "3,1,4", "--device", "cpu")
    return [sys.executable, "-m", "archer", "generate", *options, *more]


def is_connected(pid: int) -> bool:
    """Whether a process is a shard that talks to the first; what ends or closes meanwhile is none."""
    with contextlib.suppress(FileNotFoundError):
        links = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
        line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return b"archer.shards" in line and sum("socket:" in each for each in links) >= 2
    return False


PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


@contextmanager
def started(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A command that decodes for long, with its second shard at work."""
    with running(command(folder, *LONG), text=True, **PIPES) as first:
        yield first, second_shard(first)


def second_shard(first: subprocess.Popen[str]) -> int:
    last = time.monotonic() + 90
    while time.monotonic() < last and first.poll() is None:
        for pid in children(first.pid):
            if is_connected(pid):
                time.sleep(1.5)
                return pid
        time.sleep(0.05)
    first.kill()
    raise AssertionError(first.communicate())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_shard_ends_the_command_with_one_sentence(tmp_path: Path) -> None:
    with started(FOLDERS["llada"](tmp_path / "model")) as (first, other):
        os.kill(other, signal.SIGKILL)
        _, said = first.communicate(timeout=WITHIN)
    assert first.returncode == 1
    assert said.count("\n") == 1
    assert said.startswith("archer: Shard 2 of 2 ended by SIGKILL")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_first_shard_ends_the_others_with_one_sentence(tmp_path: Path) -> None:
    with started(FOLDERS["llada"](tmp_path / "model")) as (first, other):
        first.kill()
        assert gone(other)
        _, said = first.communicate(timeout=WITHIN)
    assert said == "archer: shard 2 of 2: the first shard ended, so this one ends.\n"


def alone(folder: Path) -> subprocess.CompletedProcess[str]:
    """What one process makes of the same command."""
    return ran(*(each for each in command(folder, *SHORT) if each not in ("--shards", "2")))


@pytest.mark.slow
def test_the_command_prints_what_one_process_prints(tmp_path: Path) -> None:
    folder = FOLDERS["llada"](tmp_path / "model")
    first, second = alone(folder), ran(*command(folder, *SHORT))
    assert second.stdout == first.stdout
    assert second.stderr == first.stderr == ""


@pytest.mark.slow
def test_torchrun_starts_the_shards_just_as_well(tmp_path: Path) -> None:
    folder = FOLDERS["llada"](tmp_path / "model")
    shared = command(folder, *SHORT, "--trace", str(tmp_path / "trace.jsonl"))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    address = ["--master-addr", "127.0.0.1", "--master-port", "0", "--rdzv-backend", "c10d"]
    found = ran(*launcher, *address, "--rdzv-endpoint", "127.0.0.1:0", *shared[1:])
    assert found.stdout == alone(folder).stdout
    assert (tmp_path / "trace.jsonl").read_text(encoding="utf-8").count('"end"') == 1


def test_numbers_that_differ_end_the_run() -> None:
    same = torch.tensor([[1.0, 2.0, 3.0, 0.0]] * 3, dtype=torch.float64)
    compare(same)
    other = same.clone()
    other[2, 1] += 1
    with pytest.raises(ShardLost, match=r"^Shard 3 of 3 came to other numbers than the first\."):
        compare(other)


def test_orders_that_differ_are_found_in_the_next_pass(shared: Model) -> None:
    shared.generate([[3, 1, 4]], "confidence", length=4)
    leader = shared.network.all_shards
    assert isinstance(leader, Leader)
    leader._orders.update(b"an order that was never given")
    with pytest.raises(ShardLost, match="Shard 2 of 2 came to other numbers than the first"):
        shared.generate([[3, 1, 4]], "confidence", length=4)


def test_a_weight_that_changes_later_in_one_shard_is_not_seen(shared: Model) -> None:
    """Its share of a sum reaches all shards alike; docs/devices.md says so."""
    before = shared.generate([[3, 1, 4]], "confidence", length=4)[0].updates
    with torch.inference_mode():
        shared.network.layer(1).feed_norm.mul_(1.01)
    assert shared.generate([[3, 1, 4]], "confidence", length=4)[0].updates == before


def made_again(folder: Path, spoil: str) -> Path:
    """A copy of a model folder in which one thing is another."""
    other = folder.parent / spoil
    shutil.copytree(folder, other)
    path = other / "model.safetensors"
    if spoil == "config":
        config = json.loads((other / "config.json").read_text(encoding="utf-8"))
        (other / "config.json").write_text(json.dumps(config | {"comment": "mine"}))
    elif spoil == "weights":
        tensors = load_file(path)
        save_file({name: tensor * 2 for name, tensor in tensors.items()}, path)
    elif spoil == "files":
        save_file(load_file(path), path, metadata={"made": "again"})
    return other


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        ("config", "another config.json"),
        ("weights", "other weights"),
        ("files", "other weight files"),
    ],
)
def test_another_checkpoint_is_refused_before_loading(
    tmp_path: Path, spoil: str, what: str
) -> None:
    first = read_folder(FOLDERS["llada"](tmp_path / "model"))
    second = read_folder(made_again(first.path, spoil))
    own, other = (b"".join(digests(each).values()) for each in (first, second))

    class Heard(Group):
        def __init__(self, *heard: bytes) -> None:
            self.heard = heard

        def compare(self, own: bytes) -> list[bytes]:
            return list(self.heard)

    agree(Heard(own, own), first)
    with pytest.raises(ShardLost, match=f"^Shard 3 of 3 has {what} than the first"):
        agree(Heard(own, own, other), first)
    copied = shutil.copytree(first.path, tmp_path / "copy")
    assert digests(read_folder(copied)) == digests(first)


def launched(folder: Path, rank: int, port: int) -> AbstractContextManager[subprocess.Popen[str]]:
    """One process of two as torchrun starts it."""
    environment = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    return running(
        command(folder, *SHORT), env=os.environ | environment | address, text=True, **PIPES
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="names the loopback interface")
def test_machines_with_other_weights_are_refused(tmp_path: Path) -> None:
    folder = FOLDERS["llada"](tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    other = made_again(folder, "weights")
    with launched(folder, 0, port) as first, launched(other, 1, port) as second:
        both = (first, second)
        said = [each.communicate(timeout=120)[1] for each in both]
    assert [each.returncode for each in both] == [1, 1]
    assert "Shard 2 of 2 has other weights than the first" in said[0]


def test_who_is_told_to_stop_is_the_first(shared: Model) -> None:
    """SIGTERM to every process at once, as service managers send it, does not end the others."""
    (pid,) = processes_of(shared).pids
    os.kill(pid, signal.SIGTERM)
    assert not gone(pid, 0.5)
    assert len(shared.generate([[3, 1, 4]], "confidence", length=4)[0].tokens) == 4
    shared.close()
    assert gone(pid, 1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_shards_of_one_machine_listen_on_loopback_alone(shared: Model) -> None:
    found = [each for pid in (os.getpid(), *processes_of(shared).pids) for each in listening(pid)]
    assert len(found) >= 3
    assert {address.rpartition(":")[0] for address in found} == {"0100007F"}


def listening(pid: int) -> Iterator[str]:
    """Addresses at which a process listens, as the kernel writes them."""
    own = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            own.add(str(each.readlink()))
    for kind in ("tcp", "tcp6"):
        lines = Path(f"/proc/{pid}/net/{kind}").read_text(encoding="ascii").splitlines()[1:]
        for cells in map(str.split, lines):
            if cells[3] == LISTENING and f"socket:[{cells[9]}]" in own:
                yield cells[1]


def test_a_stray_file_in_the_working_directory_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = FOLDERS["llada"](tmp_path / "model")
    (tmp_path / "torch.py").write_text("raise SystemExit('a stray file ran')")
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(load(folder, shards=2, device="cpu")) as model:
        assert len(model.generate([[3, 1, 4]], "confidence", length=4)[0].tokens) == 4


def test_messages_arrive_as_they_were() -> None:
    import numpy as np

    flags = np.arange(26).reshape(2, 13) % 3 == 0
    numbers = np.arange(-3, 9).reshape(3, 4)
    sent = Message("pass", {"a": [1, None], "b": "c"}, (flags, numbers, flags[:0]))
    found = Message.decoded(sent.encoded())
    assert (found.kind, found.fields) == ("pass", {"a": [1, None], "b": "c"})
    assert [each.tolist() for each in found.arrays] == [each.tolist() for each in sent.arrays]
    assert [each.dtype for each in found.arrays] == [each.dtype for each in sent.arrays]


def test_the_rank_is_the_one_torchrun_gives() -> None:
    from archer.errors import BadRequest

    assert launched_rank({}, 2) is None
    assert launched_rank({"RANK": "1", "WORLD_SIZE": "2"}, 2) == 1
    with pytest.raises(BadRequest, match="torchrun started 4 processes for 2 shards"):
        launched_rank({"RANK": "1", "WORLD_SIZE": "4"}, 2)


def test_a_task_arrives_as_it_was() -> None:
    source = Source("folder", device="cpu", dtype="float64", quantize="int8", shards=2)
    task = ShardTask(source, rank=1, port=4711)
    assert ShardTask.decoded(task.encoded()) == task
