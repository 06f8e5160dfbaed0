"""The journal: what was acknowledged is never lost, whatever the disk or a kill does."""

import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.errors import BadRun, DiskFault, RunBusy
from archer.files import read_json, replace_json
from archer.runs.folder import JOURNAL, Lock, read_recorded
from archer.runs.journal import Journal, read_records
from support.run_folders import RECORDS, sample, write_folder, write_journal

TEXTS = [{"id": number, "text": 'ä\u2028\x85\n"' * number} for number in range(4)]


def test_records_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write_journal(path, TEXTS[:2])
    write_journal(path, TEXTS[2:])
    assert read_records(path) == TEXTS
    assert path.read_bytes().count(b"\n") == len(TEXTS)


def test_a_missing_journal_is_empty(tmp_path: Path) -> None:
    assert read_records(tmp_path / "journal.jsonl") == []


def test_a_record_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    write = os.write

    def spy(handle: int, data: bytes) -> int:
        seen.append(data)
        return write(handle, data)

    journal = Journal(tmp_path / "journal.jsonl")
    monkeypatch.setattr(os, "write", spy)
    journal.append(TEXTS[3])
    assert len(seen) == 1
    found = json.loads(seen[0])
    assert len(found.pop("check")) == 32
    assert found == TEXTS[3]


def test_a_tail_torn_at_any_byte_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.jsonl"
    write_journal(path, TEXTS)
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        assert read_records(path) == TEXTS[:3]
        with caplog.at_level(logging.WARNING):
            write_journal(path, TEXTS[3:])
        assert read_records(path) == TEXTS
        assert path.read_bytes() == whole
    torn = (tmp_path / "journal.jsonl.torn").read_bytes()
    assert torn.startswith(whole[last : last + 1] + b"\n")
    assert "unfinished record" in caplog.text


Lines = list[bytes]


def swapped(a: int, b: int) -> Callable[[Lines], Lines]:
    def swap(lines: Lines) -> Lines:
        lines[a], lines[b] = lines[b], lines[a]
        return lines

    return swap


def replaced(at: int, before: bytes, after: bytes) -> Callable[[Lines], Lines]:
    def replace(lines: Lines) -> Lines:
        assert before in lines[at]
        lines[at] = lines[at].replace(before, after, 1)
        return lines

    return replace


# name: (what is done to the lines, the line that is named)
CHANGES: dict[str, tuple[Callable[[Lines], Lines], int]] = {
    "a byte of a completion": (replaced(2, b"return 1", b"return 7"), 3),
    "a verdict": (replaced(3, b'"verdict":"fail"', b'"verdict":"pass"'), 4),
    "a blank": (replaced(2, b'"sample"', b'"sample" '), 3),
    "an escape for a letter": (replaced(2, b"return 1", b"\\u0072eturn 1"), 3),
    "a checksum": (lambda lines: [*lines[:2], lines[2][:-4] + b'00"}', *lines[3:]], 3),
    "a line taken out": (lambda lines: lines[:2] + lines[3:], 3),
    "two lines changed over": (swapped(2, 4), 3),
    "a line twice": (lambda lines: [*lines[:3], lines[2], *lines[3:]], 4),
    "the first line gone": (lambda lines: lines[1:], 1),
    "checksums taken off": (lambda lines: [line[:-43] + b"}" for line in lines], 1),
    "one checksum taken off": (lambda lines: [*lines[:3], lines[3][:-43] + b"}", *lines[4:]], 4),
    "an empty line": (lambda lines: [*lines[:2], b"", *lines[2:]], 3),
    "zero bytes": (lambda lines: [*lines[:4], b"\0" * 512, *lines[5:]], 5),
    "a line of another journal": (
        lambda lines: [
            *lines[:2],
            b'{"event":"grade","id":2,"check":"' + b"0" * 32 + b'"}',
            *lines[2:],
        ],
        3,
    ),
    "a half line and more behind it": (lambda lines: [*lines[:2], lines[2][:40], *lines[3:]], 3),
    "two lines run together": (lambda lines: [*lines[:2], lines[2] + lines[3], *lines[4:]], 3),
    "a carriage return": (lambda lines: [*lines[:2], lines[2] + b"\r", *lines[3:]], 3),
    "another encoding": (replaced(2, b"return", b"retur\xff"), 3),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_journal_is_refused_by_the_number_of_its_line(tmp_path: Path, name: str) -> None:
    run = write_folder(tmp_path / "run")
    change, line = CHANGES[name]
    lines = (run / JOURNAL).read_bytes().split(b"\n")[:-1]
    (run / JOURNAL).write_bytes(b"".join(each + b"\n" for each in change(lines)))
    with pytest.raises(BadRun, match=rf"Line {line} of .* is damaged"):
        read_recorded(run)


def test_every_flipped_bit_of_a_journal_is_found(tmp_path: Path) -> None:
    run = write_folder(tmp_path / "run", RECORDS[:2])
    whole = (run / JOURNAL).read_bytes()
    for at in range(len(whole) - 1):
        flipped = whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]
        (run / JOURNAL).write_bytes(flipped)
        with pytest.raises(BadRun):
            read_recorded(run)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "{", "[" * 100_000, "1}{"])
def test_a_good_checksum_makes_no_record_of_what_is_none(tmp_path: Path, value: str) -> None:
    run = write_folder(tmp_path / "run", [])
    text = json.dumps(sample(0), separators=(",", ":")).replace("0.25", value)
    check = hashlib.sha256(text.encode()).hexdigest()[:32]
    (run / JOURNAL).write_text(f'{text[:-1]},"check":"{check}"}}\n')
    with pytest.raises(BadRun, match=r"Line 1 of .* is damaged"):
        read_recorded(run)


class Faulty:
    """A disk that misbehaves at one call of one function, and works again afterwards."""

    def __init__(self, real: Callable[..., int | None], at: int, wrong: Callable[..., int]) -> None:
        self.real, self.at, self.wrong, self.calls = real, at, wrong, 0

    def __call__(self, *arguments: object) -> int | None:
        self.calls += 1
        return self.wrong(*arguments) if self.calls == self.at else self.real(*arguments)


def refuses(code: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


def writes_only(share: float) -> Callable[..., int]:
    real = os.write

    def partly(handle: int, data: bytes) -> int:
        return real(handle, data[: int(len(data) * share)])

    return partly


FAULTS: dict[str, tuple[str, Callable[..., int]]] = {
    "write: no space": ("write", refuses(errno.ENOSPC)),
    "write: input/output error": ("write", refuses(errno.EIO)),
    "write: quota": ("write", refuses(errno.EDQUOT)),
    "write: nothing of it": ("write", writes_only(0.0)),
    "write: half of it": ("write", writes_only(0.5)),
    "write: all but the end": ("write", writes_only(0.999)),
    "fsync: input/output error": ("fsync", refuses(errno.EIO)),
    "fsync: no space": ("fsync", refuses(errno.ENOSPC)),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_failing_disk_loses_nothing_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, at: int
) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    function, wrong = FAULTS[fault]
    acknowledged = []
    with monkeypatch.context() as patched:
        patched.setattr(os, function, Faulty(getattr(os, function), at, wrong))
        for record in TEXTS[: at - 1]:
            journal.append(record)
            acknowledged.append(record)
        with pytest.raises(DiskFault, match="recorded before is intact"):
            journal.append(TEXTS[at - 1])
    with pytest.raises(DiskFault, match="nothing more is recorded"):
        journal.append(TEXTS[0])
    journal.close()
    assert acknowledged == TEXTS[: at - 1]
    assert read_records(path) == acknowledged
    write_journal(path, TEXTS[at - 1 :])
    assert read_records(path) == TEXTS


def test_a_failed_write_that_cannot_be_taken_back_is_cut_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append(TEXTS[0])
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(os, "write", writes_only(0.5))
        patched.setattr(os, "ftruncate", refuses(errno.EIO))
        with pytest.raises(DiskFault):
            journal.append(TEXTS[3])
    journal.close()
    assert "could not be taken back" in caplog.text
    write_journal(path, TEXTS[1:])
    assert read_records(path) == TEXTS


def test_a_folder_that_is_gone_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DiskFault, match="No such file"):
        Journal(tmp_path / "gone" / "journal.jsonl")


def test_a_journal_deleted_or_replaced_during_a_run_is_noticed_at_the_next_write(
    tmp_path: Path,
) -> None:
    losses: tuple[Callable[[Path], object], ...] = (
        lambda path: path.unlink(),
        lambda path: path.rename(path.with_name("moved")),
        lambda path: shutil.rmtree(path.parent),
        lambda path: path.parent.rename(path.parent.with_name("elsewhere")),
        lambda path: replace_json(path, {}),
    )
    for number, loses in enumerate(losses):
        folder = tmp_path / str(number)
        folder.mkdir()
        journal = Journal(folder / "journal.jsonl")
        journal.append(TEXTS[0])
        loses(folder / "journal.jsonl")
        with pytest.raises(DiskFault, match="was deleted, moved or replaced"):
            journal.append(TEXTS[1])
        journal.close()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (OSError("the disk is on fire"), "the disk is on fire"),
        (OSError(), "OSError"),
        (PermissionError(), "PermissionError"),
    ],
)
def test_every_disk_message_names_its_reason(error: OSError, reason: str) -> None:
    assert f"({reason})" in str(DiskFault.of(Path("journal.jsonl"), error))


@given(content=st.binary(max_size=60))
def test_any_content_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("drawn") / "journal.jsonl"
    path.write_bytes(content)
    try:
        found = read_records(path)
    except BadRun:
        return
    assert len(found) == content.count(b"\n")


def test_a_replaced_file_is_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "summary.json"
    replace_json(path, {"n": 1})
    for function in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, function, refuses(errno.ENOSPC))
            patched.setattr(Path, "replace", lambda self, _: refuses(errno.EIO)())
            with pytest.raises(DiskFault):
                replace_json(path, {"n": 2})
        assert read_json(path) == {"n": 1}
    replace_json(path, {"n": 2})
    assert read_json(path) == {"n": 2}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_a_damaged_json_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(content)
    with pytest.raises(BadRun, match="damaged"):
        read_json(path)
    with pytest.raises(BadRun, match="cannot be read"):
        read_json(tmp_path / "none.json")


def test_a_second_writer_is_refused_with_the_first_ones_number(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    with pytest.raises(RunBusy, match=rf"process {os.getpid()}"):
        Lock(tmp_path)
    lock.release()
    Lock(tmp_path).release()
    with pytest.raises(DiskFault):
        Lock(tmp_path / "gone")
