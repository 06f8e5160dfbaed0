"""Models by name and how to load them: folders, hub ids, and what goes wrong with either."""

import inspect
import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path

import pytest
import torch

import archer
from archer.cli.options import ModelOptions
from archer.errors import BadModel, BadRequest
from archer.loading.checkpoint import load_network, read_folder
from archer.loading.hub import locate
from archer.loading.source import Source
from archer.loading.text.text import read_text
from archer.model import Model, load
from support.fake_hub import COMMIT, FakeHub
from support.folders import make_llada

NAME = "some-body/LLaDA-tiny"
DATA = {
    "config.json",
    "model.safetensors.index.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "chat_template.jinja",
}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake hub is on this machine, whatever the way to the real one is."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture
def repository(tmp_path: Path, canary: Path) -> Path:
    """A repository as they are: beside the model it holds code, pickles and other things."""
    auto_map = {"AutoModel": "modeling_x.Model"}
    folder = make_llada(tmp_path / "repo", shards=2, tokenizer=True, auto_map=auto_map)
    code = f"from pathlib import Path\nPath({str(canary)!r}).write_text('run')\n"
    (folder / "modeling_x.py").write_text(code)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    (folder / "vocab.txt").write_text("a\n")
    for name in ("pytorch_model.bin", "model.pt", "model.ckpt", "README.md", "model.gguf"):
        (folder / name).write_bytes(b"not for us")
    (folder / "original").mkdir()
    (folder / "original" / "consolidated.safetensors").write_bytes(b"not for us")
    return folder


@pytest.fixture
def hub(repository: Path) -> Iterator[FakeHub]:
    with FakeHub(NAME, repository).running() as hub:
        yield hub


def fetch(hub: FakeHub, tmp_path: Path, revision: str | None = COMMIT, name: str = NAME) -> Path:
    return locate(name, revision, endpoint=hub.endpoint, cache=tmp_path / "cache")


@pytest.mark.parametrize("revision", [None, "main", COMMIT, COMMIT[:7]])
def test_a_hub_model_is_fetched_and_loads(
    hub: FakeHub, tmp_path: Path, revision: str | None
) -> None:
    folder = read_folder(fetch(hub, tmp_path, revision))
    network = load_network(folder, device=torch.device("cpu"), dtype=torch.float32)
    text = read_text(folder)
    assert folder.path.name == COMMIT
    assert network.shape.layers == 2
    assert text is not None
    assert text.decode(text.encode_chat("hi")) == "hi"


def test_only_data_is_fetched_and_no_code_runs(hub: FakeHub, tmp_path: Path, canary: Path) -> None:
    path = fetch(hub, tmp_path)
    folder = read_folder(path)
    load_network(folder, device=torch.device("cpu"), dtype=torch.float32)
    read_text(folder)
    assert hub.fetched == DATA
    assert {each.name for each in path.iterdir()} == DATA
    assert not canary.exists()


def test_the_second_time_the_hub_need_not_be_there(repository: Path, tmp_path: Path) -> None:
    with FakeHub(NAME, repository).running() as hub:
        first = fetch(hub, tmp_path)
    assert fetch(hub, tmp_path) == first


def test_an_unpinned_model_is_worth_a_warning(
    hub: FakeHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "archer.loading.hub"):
        fetch(hub, tmp_path, "6059b30")
        assert not caplog.records
        fetch(hub, tmp_path, "main")
    assert [record.getMessage() for record in caplog.records] == [
        f"{NAME} is not pinned to a commit; results may change with the hub."
    ]


def refusal(hub: FakeHub, tmp_path: Path, revision: str = COMMIT, name: str = NAME) -> str:
    with pytest.raises(BadModel) as refused:
        fetch(hub, tmp_path, revision, name)
    sentence = str(refused.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def test_an_unknown_repository(hub: FakeHub, tmp_path: Path) -> None:
    sentence = refusal(hub, tmp_path, name="some-body/absent")
    assert "knows no model some-body/absent" in sentence
    assert "give the folder in place of the name" in sentence


@pytest.mark.parametrize("revision", ["v9", "0" * 40])
def test_an_unknown_revision(hub: FakeHub, tmp_path: Path, revision: str) -> None:
    assert f"but not its revision '{revision}'" in refusal(hub, tmp_path, revision)


def test_a_gated_repository(repository: Path, tmp_path: Path) -> None:
    with FakeHub(NAME, repository, gated=True).running() as hub:
        sentence = refusal(hub, tmp_path)
    assert "conditions to be accepted" in sentence
    assert "give the folder in place of the name" in sentence


def test_a_broken_hub(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with FakeHub(NAME, repository, broken=True).running() as hub:
        assert "the hub is out of reach" in refusal(hub, tmp_path)


def closed_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(
        BadModel, match="not on this machine and the hub is out of reach"
    ) as refused:
        locate(NAME, COMMIT, endpoint=closed_port(), cache=tmp_path)
    assert str(refused.value).endswith("give the folder in place of the name.")


def test_anything_else_that_goes_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*arguments: object, **options: object) -> str:
        raise RuntimeError("the disk\nis full.")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with pytest.raises(BadModel, match=r"could not be fetched \(the disk is full\); download it"):
        locate(NAME, COMMIT, cache=tmp_path)


def test_a_folder_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locate(tmp_path, None) == tmp_path
    assert locate(str(tmp_path), None) == tmp_path
    assert (locate("pocket", None) / "config.json").is_file()
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert locate("a/b", None) == Path("a/b"), "although it could be a hub id"


@pytest.mark.parametrize(
    "name", ["", "LLaDA", "./a", "../a/b", "/a/b", "a/b/c", "a b/c", "~/x", "a/\0"]
)
def test_neither_folder_nor_hub_id(name: str) -> None:
    with pytest.raises(BadModel, match="is not a hub id such as"):
        locate(name, None)


def test_a_misspelled_bundled_model_gets_a_suggestion() -> None:
    with pytest.raises(BadModel, match=r"Did you mean 'pocket'\?$"):
        locate("poket", None)


@pytest.mark.parametrize("name", ["a--b/c", "a/b..c", "a/" + "b" * 200])
def test_ids_that_only_the_hub_client_refuses(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadModel, match="could not be fetched"):
        locate(name, COMMIT, endpoint=closed_port(), cache=tmp_path)


NAMES = [field.name for field in fields(Source)]


def test_everybody_takes_the_fields_of_a_source() -> None:
    assert list(inspect.signature(archer.load).parameters) == NAMES
    assert [field.name for field in fields(ModelOptions)] == NAMES
    with pytest.raises(TypeError, match="quantise"):
        load("pocket", quantise="int8")  # type: ignore[call-arg]


def test_it_is_plain_data_whatever_it_was_given(tmp_path: Path) -> None:
    given = Source(tmp_path, device=torch.device("cpu"), dtype=torch.float64)
    assert given == Source(str(tmp_path), device="cpu", dtype="float64")
    assert Source(**json.loads(json.dumps(asdict(given)))) == given


def test_a_path_is_never_taken_for_a_hub_id() -> None:
    assert Source(Path("owner/name")).name == "./owner/name"
    assert Source("owner/name").name == "owner/name"
    with pytest.raises(archer.BadModel, match="There is no folder"):
        load(Path("owner/name"), device="cpu")


def test_a_model_knows_how_it_was_loaded(tmp_path: Path) -> None:
    folder = make_llada(tmp_path)
    options = ModelOptions(str(folder), device="cpu", dtype="float32", threads=1, compiled=True)
    model = Model.open(options)
    assert model.source is options
    assert (model.threads, model.network.compiled) == (1, True)


def test_nothing_is_left_to_choose_for_the_processes_of_one_machine(tmp_path: Path) -> None:
    folder = make_llada(tmp_path)
    source = Source(folder, device="cpu", shards=2)
    settled = source.settled(source.folder())
    assert settled == Source(
        str(folder),
        device="cpu",
        dtype="float32",
        threads=settled.threads,
        shards=2,
        family="llada",
    )
    assert settled.threads is not None


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (Source("x", dtype="float8"), "There is no dtype 'float8' here"),
        (Source("x", quantize="int4"), "There is no quantisation 'int4' here"),
        (Source("x", threads=0), "threads must be a whole number"),
        (Source("x", compiled=True, shards=2), "Compiled passes cannot be divided over shards"),
    ],
)
def test_what_no_checkpoint_can_be_loaded_with_is_refused_first(
    wrong: Source, sentence: str
) -> None:
    for refused in (wrong.check, wrong.folder):
        with pytest.raises(BadRequest, match=sentence):
            refused()


@pytest.mark.parametrize("shards", [0, -1, "2", 10**9, 1.5])
def test_a_number_of_shards_that_is_none_is_refused(shards: object) -> None:
    with pytest.raises(BadRequest, match="shards must be a whole number from 1 to 4096, not"):
        load("pocket", shards=shards)  # type: ignore[arg-type]
