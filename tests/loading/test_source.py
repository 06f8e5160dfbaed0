"""How to load a model, declared once: what holds a source holds all of it."""

import inspect
import json
from dataclasses import asdict, fields
from pathlib import Path

import pytest
import torch

import archer
from archer.cli.options import ModelOptions
from archer.errors import BadRequest
from archer.loading.source import Source
from archer.model import Model, load
from support.folders import make_llada

NAMES = [field.name for field in fields(Source)]


def test_everybody_takes_the_fields_of_a_source() -> None:
    assert list(inspect.signature(archer.load).parameters) == NAMES
    assert [field.name for field in fields(ModelOptions)] == NAMES
    with pytest.raises(TypeError, match="quantise"):
        load("pocket", quantise="int8")  # type: ignore[call-arg]


def test_it_is_plain_data_whatever_it_was_given(tmp_path: Path) -> None:
    given = Source(tmp_path, device=torch.device("cpu"), dtype=torch.float64)  # type: ignore[arg-type]
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
        str(folder), device="cpu", dtype="float32", threads=settled.threads, shards=2
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
