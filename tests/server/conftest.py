"""Bundled models, and one server of `pocket` for all tests that need no special one."""

from collections.abc import Iterator

import pytest

import archer
from archer.model import Model
from server.running import Client, serving, until


@pytest.fixture(scope="session")
def pocket() -> Model:
    return archer.load("pocket", device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def sudoku() -> Model:
    return archer.load("pocket-sudoku", device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def _client(pocket: Model) -> Iterator[Client]:
    with serving(pocket) as client:
        yield client


@pytest.fixture
def client(_client: Client) -> Iterator[Client]:
    """The shared server; after every test nothing is left on it and its books balance."""
    yield _client
    until(_client.idle)
    accepted, found = _client.balance()
    assert accepted == found
