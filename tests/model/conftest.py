"""Tiny random models with a tokenizer, one with shifted logits."""

import pytest

from archer.model import Model, load
from support.folders import make_dream, make_llada


@pytest.fixture(scope="session")
def llada(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(make_llada(tmp_path_factory.mktemp("llada"), tokenizer=True), device="cpu")


@pytest.fixture(scope="session")
def dream(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(make_dream(tmp_path_factory.mktemp("dream"), tokenizer=True), device="cpu")
