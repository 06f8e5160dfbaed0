"""Data files: found, fetched, and refused when they are not what the table says."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from archer.tasks import sources
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
    assert len(local) == 11
    assert local.items() <= known.items()
