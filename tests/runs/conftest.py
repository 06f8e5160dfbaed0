"""A small model, one judge for all tests of a file, and a run that nothing disturbed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from archer.model import Model
from archer.runs import evaluation
from archer.runs.evaluation import Grader, evaluate, open_grader
from archer.tasks import Data
from runs.toy import Quiet, Toy, toy_model, toy_request


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return toy_model(tmp_path_factory.mktemp("toy") / "model")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with open_grader(Toy(Data())) as opened:
        yield opened


@contextmanager
def _patched(grader: Grader) -> Iterator[None]:
    @contextmanager
    def opened(task: Any, *, unsafe_no_sandbox: bool) -> Iterator[Grader]:
        yield grader

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "open_grader", opened)
        yield


@pytest.fixture
def one_judge(grader: Grader) -> Iterator[None]:
    """Opening a judge takes longer than such a run."""
    with _patched(grader):
        yield


@pytest.fixture(scope="module")
def unbroken(model: Model, grader: Grader, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("unbroken") / "run"
    with _patched(grader):
        evaluate(toy_request(model, traces=2), out, Quiet())
    return out
