"""The exception tree as it is drawn in the module, and what missing material does to a test."""

import pickle
from pathlib import Path

import pytest

from archer import errors
from conftest import REPOSITORY, shared


def test_an_impossible_request_is_also_a_value_error() -> None:
    assert issubclass(errors.BadRequest, ValueError)
    assert issubclass(errors.Incompatible, errors.BadRequest)


def test_non_finite_logits_name_update_and_pass() -> None:
    error = errors.NonFinite(update=7, kind="cached")
    assert (error.update, error.kind) == (7, "cached")
    assert str(error).startswith("The cached pass of update 7 returned NaN or infinite logits.")


def test_non_finite_logits_survive_the_way_between_processes() -> None:
    copy = pickle.loads(pickle.dumps(errors.NonFinite(7, "full")))
    assert (copy.update, copy.kind) == (7, "full")


def test_the_variable_says_where_the_material_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("ARCHER_SHARED", str(tmp_path))
    assert shared("data") == tmp_path / "data"


@pytest.mark.parametrize("ci", ["", "false"])
def test_missing_material_skips(monkeypatch: pytest.MonkeyPatch, ci: str) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.delenv("ARCHER_SHARED", raising=False)
    with pytest.raises(pytest.skip.Exception) as caught:
        shared("no", "such", "file")
    assert str(REPOSITORY.parent / "shared" / "no" / "such" / "file") in str(caught.value)


def test_missing_material_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="set ARCHER_SHARED"):
        shared("no", "such", "file")
