"""The wheel with what it asks for and nothing else: no extras, no repository, no network.

Distributions are linked from the environment of the tests, so that nothing is fetched.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from archer.cli import COMMANDS
from conftest import REPOSITORY
from support.processes import ran, running
from support.terminals import PROBLEM

Archer = Callable[..., subprocess.CompletedProcess[str]]
EXTRAS = (
    *("matplotlib", "scipy", "math_verify", "lm_eval", "ray", "pytest"),
    *("fastapi", "uvicorn", "prometheus_client", "mkdocs"),
)
FORKING = """
import json, os, sys
import torch
import archer.cli, archer.cli.live_run, archer.model
for line in sys.stdin:
    child = os.fork()
    if not child:
        sys.stdin = open(os.devnull)
        for name, number in (("out", 1), ("err", 2)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        code = archer.cli.main(json.loads(line))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([code, open("out").read(), open("err").read()]), flush=True)
"""
"""Runs a command for every line; torch is imported once, and no command sees what another did."""


def needed(name: str, seen: dict[str, Distribution], extras: frozenset[str]) -> None:
    """A distribution and all that it needs."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in seen:
        return
    seen[key] = distribution(name)
    for line in seen[key].requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(
            wanted.marker.evaluate({"extra": extra}) for extra in (*extras, "")
        ):
            needed(wanted.name, seen, frozenset(wanted.extras))


def link(found: Distribution, target: Path) -> None:
    """Everything that a distribution brought, into another folder of packages."""
    tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", ".")}
    for top in tops:
        place = Path(str(found.locate_file(top)))
        if place.exists() and not (target / top).exists():
            (target / top).symlink_to(place)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def packages(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and what it needs, as pip would fill it."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    seen: dict[str, Distribution] = {}
    needed("archer-dlm", seen, frozenset())
    del seen["archer-dlm"]
    for found in seen.values():
        link(found, folder)
    return folder


@pytest.fixture(scope="module")
def archer(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archer]:
    """Runs the command in a folder of its own; `-S` leaves nothing on the path but what is given."""
    folder = tmp_path_factory.mktemp("home")
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(packages),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }

    with running(
        [sys.executable, "-S", "-c", FORKING],
        cwd=folder,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forking:

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            print(json.dumps(arguments), file=forking.stdin, flush=True)
            code, out, err = json.loads(forking.stdout.readline())
            return subprocess.CompletedProcess(arguments, code, out, err)

        yield run
        forking.stdin.close()


def test_the_command_runs_by_itself(packages: Path, tmp_path: Path) -> None:
    """In a process of its own, without the one that imports ahead."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(packages)}
    command = (sys.executable, "-S", "-m", "archer", "tasks", "--json")
    done = ran(*command, cwd=tmp_path, env=variables, timeout=300)
    assert "pocket" in json.loads(good(done))


def test_no_extra_and_no_repository_is_there(packages: Path) -> None:
    script = f"import importlib.util as u; print([n for n in {EXTRAS} if u.find_spec(n)])"
    done = ran(sys.executable, "-S", "-c", script, env={"PYTHONPATH": str(packages)})
    assert done.stdout.strip() == "[]"


PACKAGES = {"archer", "archer_studies", "archer_dlm"}


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == PACKAGES
    for kept in ("archer/py.typed", "archer/pocket/model/model.safetensors"):
        assert kept in names
    assert not [name for name in names if Path(name).name.startswith("test_")]


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_first_steps(archer: Archer) -> None:
    """What the first page tells a newcomer to type, in its order."""
    assert "Archer" in good(archer("demo", "--problems", "2"))
    assert "return" in good(archer("generate", PROBLEM, "--trace", "updates.jsonl"))
    page = good(archer("view", "updates.jsonl")).strip()
    assert page.endswith(".html")
    runs = []
    for method in ("archer", "saber"):
        runs.append(f"runs/pocket-{method}")
        out = good(archer("eval", "pocket", "--method", method, "--limit", "2"))
        assert "2 problems" in out
    assert "only B" in good(archer("compare", *runs))
    assert good(archer("report", *runs)).strip() == "report.html"


@pytest.mark.slow
def test_a_study_of_one_problem_writes_its_tables_without_matplotlib(archer: Archer) -> None:
    done = archer("study", "cases", "--quick", "--problems", "1", "--out", "cases")
    assert "In cases: cases.json, tables as .md, .csv and .tex.\n" in good(done)
    assert "pip install '.[report]'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["lm-eval", "run", "--model", "archer"], "lm-eval"),
        (["eval", "math500", "--limit", "1"], "eval"),
        (["grade", "math500", "--reference", "--limit", "1"], "eval"),
        (["serve"], "serve"),
        (["bench", "serve"], "serve"),
        (["eval", "pocket", "--limit", "1", "--ray", "local"], "ray"),
        (["plan", "--figure", "plan.svg"], "report"),
    ],
)
def test_what_needs_an_extra_says_so_at_once(
    archer: Archer, arguments: list[str], extra: str
) -> None:
    done = archer(*arguments)
    assert done.returncode == 2
    assert f"pip install '.[{extra}]'" in done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["methods", "models", "tasks", "study", "doctor"])
def test_what_only_tells_works(archer: Archer, command: str) -> None:
    assert json.loads(good(archer(command, "--json")))


def test_every_command_can_be_imported(archer: Archer) -> None:
    script = good(archer("completion", "bash"))
    assert all(name in script for name in COMMANDS)
