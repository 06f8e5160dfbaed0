"""Data files and files of completions: found, fetched, and refused when they are not what they should be."""

import base64
import gzip
import hashlib
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.errors import BadRequest
from archer.tasks import grading as completions
from archer.tasks import livecodebench as packed
from archer.tasks import sources
from archer.tasks.base import Sample, user
from archer.tasks.grading import read_completions
from archer.tasks.livecodebench import pickled_text, read_tests
from archer.tasks.sources import BadData, Data, DataFile, Git, Hub
from conftest import shared

CONTENT = b'{"a": 1}\n\n{"a": 2}\n'
DIGEST = hashlib.sha256(CONTENT).hexdigest()
FILE = DataFile("one/rows.jsonl", DIGEST, Git("someone/data", "abc", "rows.jsonl"))
MADE = DataFile("one/rows.jsonl", DIGEST, None, "it was put together")


def put(folder: Path, content: bytes = CONTENT) -> Path:
    path = folder / FILE.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_rows_are_read_and_the_digest_is_kept(tmp_path: Path) -> None:
    put(tmp_path)
    data = Data(tmp_path)
    assert [row["a"] for row in data.rows(FILE)] == [1, 2]
    assert data.digests == {FILE.path: DIGEST}


def test_packed_rows_are_read(tmp_path: Path) -> None:
    packed = gzip.compress(CONTENT)
    (tmp_path / "rows.gz").write_bytes(packed)
    file = DataFile("rows.gz", hashlib.sha256(packed).hexdigest(), None)
    assert [row["a"] for row in Data(tmp_path).rows(file)] == [1, 2]


def test_a_damaged_file_is_refused_with_its_digest(tmp_path: Path) -> None:
    put(tmp_path, CONTENT + b" ")
    found = hashlib.sha256(CONTENT + b" ").hexdigest()
    with pytest.raises(BadData, match=found) as refusal:
        Data(tmp_path).path(FILE)
    assert DIGEST in str(refusal.value)


def test_a_missing_file_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"someone/data/raw/abc/rows\.jsonl"):
        Data(tmp_path).path(FILE)
    with pytest.raises(BadData, match="it was put together"):
        Data(tmp_path).path(MADE)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="There is no folder"):
        Data(tmp_path / "nothing")


def test_an_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path)

    def closed(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(BadData, match="Permission denied"):
        Data(tmp_path).path(FILE)


def test_the_shared_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "data")
    monkeypatch.setenv("ARCHER_SHARED", str(tmp_path))
    assert Data().path(FILE) == path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ARCHER_SHARED", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "archer" / "data"


def publish(folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> Path:
    published = folder / "host" / "someone/data/raw/abc/rows.jsonl"
    published.parent.mkdir(parents=True)
    published.write_bytes(content)
    monkeypatch.setattr(sources, "CODE_HOST", (folder / "host").as_uri())
    return published


def test_a_file_is_fetched_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish(tmp_path, monkeypatch, CONTENT)
    assert Data().path(FILE).read_bytes() == CONTENT
    published.unlink()
    assert Data().path(FILE) == cache / FILE.path
    assert [path.name for path in (cache / "one").iterdir()] == ["rows.jsonl"]


def test_a_fetched_file_is_checked_too(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish(tmp_path, monkeypatch, b"something else")
    with pytest.raises(BadData, match=DIGEST):
        Data().path(FILE)
    published.write_bytes(CONTENT)
    assert Data().path(FILE) == cache / FILE.path


def test_an_origin_out_of_reach_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "CODE_HOST", (cache / "nowhere").as_uri())
    with pytest.raises(
        BadData, match=r"could not be fetched \(No such file or directory\)"
    ) as told:
        Data().path(FILE)
    assert str(told.value).endswith(f"elsewhere and save it as {cache / FILE.path}.")
    with pytest.raises(BadData, match="cannot be downloaded"):
        Data().path(MADE)
    (cache / FILE.path).parent.mkdir(parents=True, exist_ok=True)
    (cache / FILE.path).write_bytes(CONTENT)
    assert Data().path(FILE) == cache / FILE.path


def test_the_hub_is_asked_for_the_pinned_commit(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked: list[object] = []

    def answer(repository: str, path: str, **details: str) -> str:
        asked.append((repository, path, details))
        return str(put(tmp_path))

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", answer)
    file = DataFile(FILE.path, DIGEST, Hub("someone/set", "c0ffee", "rows.jsonl"))
    assert Data().path(file).read_bytes() == CONTENT
    details = {"repo_type": "dataset", "revision": "c0ffee"}
    assert asked == [("someone/set", "rows.jsonl", details)]


def test_a_hub_out_of_reach_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def fail(*_: str, **__: str) -> str:
        raise RuntimeError("no route to the hub")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    file = DataFile(FILE.path, DIGEST, Hub("someone/set", "c0ffee", "rows.jsonl"))
    with pytest.raises(BadData, match=r"no route to the hub.*someone/set@c0ffee"):
        Data().path(file)


def test_the_table_agrees_with_the_manifest() -> None:
    manifest = json.loads(shared("data", "MANIFEST.json").read_text())
    known = {entry["file"]: entry["sha256"] for entry in manifest}
    table = [each for each in vars(sources).values() if isinstance(each, DataFile)]
    local = {file.path: file.sha256 for file in table if file is not sources.LIVECODEBENCH}
    assert len(local) == 15
    for path, digest in local.items():
        counted = known.get(path) or hashlib.sha256(shared("data", path).read_bytes()).hexdigest()
        assert counted == digest, path


SAMPLES = [Sample(number, user("?"), "", {}) for number in range(3)]


def lines(*texts: str) -> str:
    return "".join(
        json.dumps({"task_id": number, "completion": text}) + "\n"
        for number, text in enumerate(texts)
    )


def test_every_completion_comes_with_its_problem(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text("\n" + lines("a", "b") + '  \n{"task_id": "2", "completion": "\u2028c"}')
    assert [(sample.id, text) for sample, text in read_completions(path, SAMPLES)] == [
        (0, "a"),
        (1, "b"),
        (2, "\u2028c"),
    ]


def test_a_line_without_end_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    with path.open("wb") as file:
        file.write(lines("a").encode())
        file.truncate(1 << 40)  # a terabyte of nothing in one line
    with pytest.raises(BadRequest, match=r"Line 2 of .* is longer than 4194304 bytes"):
        read_completions(path, SAMPLES)


def test_more_than_grading_can_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completions, "LARGEST_FILE", 100)
    path = tmp_path / "c.jsonl"
    path.write_text(lines("a" * 30, "b" * 30))
    with pytest.raises(BadRequest, match="Give it in parts"):
        read_completions(path, SAMPLES)
    path.write_text(lines("a" * 30))
    assert len(read_completions(path, SAMPLES)) == 1
    with pytest.raises(BadRequest, match="cannot be read"):
        read_completions(tmp_path, SAMPLES)


TESTS = [{"input": "1\n2", "output": "3", "testtype": "stdin"}]


def pack(value: object, protocol: int = 4) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()


@given(st.text(st.characters(codec=None)), st.sampled_from([2, 3, 4, 5]))
def test_every_text_comes_back(text: str, protocol: int) -> None:
    assert pickled_text(pickle.dumps(text, protocol)) == text


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("length", [0, 1, 255, 256, 65535, 65536, 300_000])
def test_every_length_comes_back(length: int, protocol: int) -> None:
    assert pickled_text(pickle.dumps("ä" * length, protocol)) == "ä" * length


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_packed_tests_are_read(protocol: int) -> None:
    assert read_tests(pack(json.dumps(TESTS), protocol)) == TESTS


def test_plain_tests_are_read() -> None:
    assert read_tests(json.dumps(TESTS)) == TESTS
    assert read_tests("[]") == []


class Harmful:
    """Runs a function when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("the reader ran what it was given",))


@pytest.mark.parametrize(
    "value",
    [Harmful(), ["[]"], b"[]", 1, None, {"a": "[]"}, ("[]",)],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_anything_but_a_text_is_refused(value: object, protocol: int) -> None:
    with pytest.raises(BadData, match="not unpickled"):
        read_tests(pack(value, protocol))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80",
        b"\x80\x04",
        b"\x80\x09X\x00\x00\x00\x00q\x00.",
        b"\x80\x02X\x05\x00\x00\x00abq\x00.",
        b"\x80\x02X\x01\x00\x00\x00aq\x00.more",
        b"\x80\x02X\x01\x00\x00\x00aq\x000.",
        b"\x80\x02X\x01\x00\x00\x00a0q\x00.",
        b"\x80\x02X\x01\x00\x00\x00\xffq\x00.",
        b"\x80\x02cos\nsystem\n.",
    ],
)
def test_malformed_pickles_are_refused(content: bytes) -> None:
    with pytest.raises(BadData, match="not unpickled"):
        pickled_text(content)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        text = pickled_text(b"\x80\x04" + content)
    except BadData:
        return
    assert isinstance(text, str)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("%%%", "damaged"),
        (base64.b64encode(b"not zlib").decode(), "damaged"),
        (base64.b64encode(zlib.compress(b"abc" * 100)[:-8]).decode(), "cut off"),
        (base64.b64encode(zlib.compress(b"abc") + b"more").decode(), "followed by more"),
        (pack("no json"), "not JSON"),
        (pack('{"a": 1}'), "not a list"),
        (pack('[{"input": 1, "output": "", "testtype": ""}]'), "not a list"),
        ("[1]", "not a list"),
    ],
)
def test_damaged_fields_are_refused(field: str, reason: str) -> None:
    with pytest.raises(BadData, match=reason):
        read_tests(field)


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LARGEST", 1000)
    with pytest.raises(BadData, match="too long"):
        read_tests(pack("x" * 100_000))
