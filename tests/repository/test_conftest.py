"""Shared material that is missing skips a test on a laptop and fails it in CI."""

from pathlib import Path

import pytest

from conftest import REPOSITORY, shared


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
