"""A model that the tests of this room share."""

import pytest

from archer.model import Model, load
from support.folders import make_llada


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = make_llada(tmp_path_factory.mktemp("llada"), tokenizer=True)
    return load(folder, device="cpu", dtype="float64")
