"""What type checkers say of tests/model/calls.py: something of every wrong call, nothing of the others."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import archer
from conftest import REPOSITORY

CALLS = REPOSITORY / "tests" / "model" / "calls.py"
WRONG = {
    number
    for number, line in enumerate(CALLS.read_text(encoding="utf-8").splitlines(), start=1)
    if line.endswith("# wrong")
}


def test_there_are_wrong_calls() -> None:
    assert len(WRONG) == 15


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="pyright runs on node, which is missing")
def test_pyright_finds_every_wrong_call(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("pyright")
    assert spec is not None
    assert spec.origin is not None
    shutil.copyfile(CALLS, tmp_path / "calls.py")
    config = {
        "include": ["calls.py"],
        "extraPaths": [str(Path(archer.__file__).parents[1])],
        "typeCheckingMode": "standard",
        "enableTypeIgnoreComments": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    script = (
        Path(spec.origin).parent / "dist" / "index.js"
    )  # the wheel brings it: nothing is fetched
    command = ["node", str(script), "-p", str(tmp_path), "--outputjson"]
    done = subprocess.run(
        [*command, "--pythonpath", sys.executable], capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    lines = {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}
    assert lines == WRONG, found


@pytest.mark.slow
def test_mypy_finds_every_wrong_call(tmp_path: Path) -> None:
    text = CALLS.read_text(encoding="utf-8")
    plain = "\n".join(line.partition("  # type: ignore")[0] for line in text.splitlines())
    (tmp_path / "calls.py").write_text(f"{plain}\n", encoding="utf-8")
    cache = os.environ.get("MYPY_CACHE_DIR", str(REPOSITORY / ".mypy_cache"))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, "calls.py"]
    paths = {**os.environ, "MYPYPATH": str(Path(archer.__file__).parents[1])}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=paths
    )
    lines = {
        int(line.split(":")[1])
        for line in done.stdout.splitlines()
        if line.startswith("calls.py:") and ": error:" in line
    }
    assert lines == WRONG, done.stdout
