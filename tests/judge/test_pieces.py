"""Checks and limits, comparison of outputs, pipes, temporary folders, pools of workers."""

import os
import signal
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from archer.errors import BadRequest
from archer.judge import FunctionCheck, Limits, StdinCheck
from archer.judge import program_run as folders_module
from archer.judge.channel import Channel, Drain, Feed, Watch
from archer.judge.check_runs import same_output
from archer.judge.inside import wire
from archer.judge.inside.folders import Folders, remove
from archer.judge.pool import Pool
from archer.judge.program_run import PREFIX, ended_early, new_base, overfull
from archer.judge.sandbox_plan import TEMPORARY_BYTES


@pytest.mark.parametrize("name", ["cpu_seconds", "wall_seconds", "memory_bytes", "output_bytes"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_limits_must_be_positive_numbers(name: str, value: float) -> None:
    with pytest.raises(BadRequest, match=name):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_too_little_memory_is_refused() -> None:
    with pytest.raises(BadRequest, match="64 MiB"):
        Limits(memory_bytes=1 << 20)


def test_checks_refuse_what_proves_nothing() -> None:
    with pytest.raises(BadRequest, match="not a Python name"):
        FunctionCheck("", "a b", "")
    with pytest.raises(BadRequest, match="not a Python name"):
        FunctionCheck("", "a", "", expose=("1",))
    with pytest.raises(BadRequest, match="at least one case"):
        StdinCheck("", ())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGXCPU])
@pytest.mark.parametrize(
    ("lived", "outcome"), [(0.0, "crash"), (1.4, "crash"), (1.5, "timeout"), (60.0, "timeout")]
)
def test_a_kill_is_the_cpu_limits_once_all_cores_together_could_have_used_it_up(
    number: signal.Signals, lived: float, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the process is said to have used plays no part: on a busy machine it is too little."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    found = ended_early(-number, Limits(cpu_seconds=3), "It", lived).verdict
    assert found.outcome == outcome
    assert found.reason == (
        "It used up 3 s of CPU time." if outcome == "timeout" else f"It was ended by {number.name}."
    )


@pytest.mark.parametrize("code", [0, 1, -signal.SIGSEGV])
def test_other_ends_are_never_the_cpu_limits(code: int) -> None:
    assert ended_early(code, Limits(cpu_seconds=1), "It", 60.0).verdict.outcome == "crash"


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("1 2\n", "1 2", True),
        ("  a \r\nb\r\n\n", "a\nb", True),
        ("0.50 1e1", "0.5 10", True),
        ("", "\n", True),
        ("a\n\nb", "a\nb", False),
        ("a", "A", False),
        ("1 2", "1 2 3", False),
        ("0.333", "0.3333", False),
        ("nan", "NaN", False),
        ("1x", "1", False),
    ],
)
def test_outputs_are_compared_as_livecodebench_does(
    printed: str, expected: str, same: bool
) -> None:
    assert same_output(printed, expected) is same


def test_a_drain_keeps_the_start_and_notes_a_flood() -> None:
    read_end, write_end = os.pipe()
    drain = Drain(read_end, keep=4)
    assert not drain.read()
    os.write(write_end, b"abc")
    assert drain.read()
    assert not drain.flooded
    os.write(write_end, b"defg")
    os.close(write_end)
    assert drain.read()
    assert (bytes(drain.kept), drain.flooded, drain.ended) == (b"abcd", True, False)
    assert not drain.read()
    assert drain.ended
    os.close(read_end)


def test_a_feed_never_waits_and_survives_a_closed_pipe() -> None:
    read_end, write_end = os.pipe()
    feed = Feed(write_end, b"x" * 1_000_000)
    assert not feed.write()
    assert not feed.write()
    os.close(read_end)
    assert feed.write()
    os.close(write_end)


def test_a_channel_sends_later_what_does_not_fit_now() -> None:
    ours, theirs = socket.socketpair()
    sender, receiver = Channel(ours), Channel(theirs)
    body = b"x" * 4_000_000
    sender.send(wire.CALL, body)
    assert sender.sending
    got: list[tuple[int, bytes]] = []
    watch = Watch(30)
    watch.channel(sender, lambda: None)
    watch.channel(receiver, lambda: got.extend(receiver.frames()))
    while not got:
        assert watch.wait(1)
    assert got == [(wire.CALL, body)]
    theirs.close()
    ours.close()


def test_a_channel_notices_the_end_when_it_reads() -> None:
    ours, theirs = socket.socketpair()
    sender = Channel(ours)
    theirs.close()
    sender.send(wire.CALL, b"lost")
    assert not sender.sending
    assert list(sender.frames()) == []
    assert sender.ended
    ours.close()


def test_a_channel_refuses_a_frame_over_the_cap() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"\xff\xff\xff\xffA")
        with pytest.raises(wire.WireError, match="cap"):
            list(Channel(theirs).frames())


def test_folders_are_removed_whatever_is_in_them(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    base = tmp_path / "base"
    folders = Folders(str(base), None)
    folder = Path(folders.make())
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    (folder / "link").symlink_to(outside)
    (folder / "locked").mkdir()
    (folder / "locked" / "file").write_text("x")
    (folder / "locked").chmod(0)
    (folder / ".moved-1").mkdir()
    (folder / ".moved-1" / "full").mkdir()
    folder.chmod(0)
    remove(folder)
    assert not folder.exists()
    folders.make()
    folders.close()
    assert not base.exists()
    assert (outside / "kept").read_text() == "kept"


def test_a_name_is_nobody_elses_and_taken_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = Path(new_base()), Path(new_base())
    assert first.parent == tmp_path.resolve()
    assert first.name.startswith(PREFIX)
    assert first.name != second.name
    assert not first.exists()
    assert not second.exists()
    folders = Folders(str(first), None)
    assert stat.S_IMODE(first.stat().st_mode) == 0o311
    assert {stat.S_IMODE(Path(folders.make()).stat().st_mode) for _ in range(3)} == {0o700}
    with pytest.raises(FileExistsError):
        Folders(str(first), None)
    folders.close()
    folders.close()
    assert list(tmp_path.iterdir()) == []


def test_full_folders_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders_module, "TEMPORARY_FILES", 5)
    monkeypatch.setattr(folders_module, "TEMPORARY_BYTES", 1 << 20)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "file").write_bytes(bytes(1000))
    assert not overfull(tmp_path)
    for number in range(3):
        (tmp_path / str(number)).touch()
    assert overfull(tmp_path)
    assert overfull(tmp_path.parent / "absent") is False


def test_large_files_are_noticed(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(TEMPORARY_BYTES + 1)
    assert overfull(tmp_path)


@dataclass
class Worker:
    """Knows whether it was closed."""

    number: int
    closed: bool = False

    def close(self) -> None:
        self.closed = True


def test_members_are_started_only_when_all_others_are_taken() -> None:
    started: list[Worker] = []

    def start() -> Worker:
        started.append(Worker(len(started) + 1))
        return started[-1]

    first = Worker(0)
    pool = Pool(3, first, start)
    with pool.member() as one:
        assert one is first
    with pool.member() as one, pool.member() as other:
        assert (one, other) == (first, Worker(1))
    pool.close()
    assert len(started) == 1
    assert first.closed
    assert started[0].closed


def test_a_member_is_replaced_after_a_fault_and_kept_after_what_is_harmless() -> None:
    first = Worker(0)
    pool = Pool(1, first, lambda: Worker(1), harmless=(KeyError,))
    with pytest.raises(KeyError), pool.member():
        raise KeyError
    with pool.member() as one:
        assert one is first
    with pytest.raises(OSError, match="gone"), pool.member():
        raise OSError("gone")
    assert one.closed
    with pool.member() as one:
        assert one == Worker(1)


def test_who_cannot_be_started_leaves_its_place() -> None:
    refusals = [OSError("not now")]

    def start() -> Worker:
        if refusals:
            raise refusals.pop()
        return Worker(2)

    pool = Pool(1, Worker(0), start)
    with pytest.raises(RuntimeError), pool.member():
        raise RuntimeError
    with pytest.raises(OSError, match="not now"), pool.member():
        pass
    with pool.member() as one:
        assert one == Worker(2)
