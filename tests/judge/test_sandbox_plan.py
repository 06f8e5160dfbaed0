"""What each tier consists of, and what is refused where it cannot hold."""

import ast
import os
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

import archer.judge
from archer.judge import NoSandbox, Tier, sandbox_plan, tiers
from archer.judge.inside.confine import loaded_libraries
from archer.judge.sandbox_plan import make_plan

JUDGE = Path(archer.judge.__file__).parent
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tiers A and B are for Linux")


def test_tier_a_shows_python_and_hides_packages() -> None:
    made = make_plan("A", "program")
    assert made["namespaces"]["user"] == (os.geteuid() != 0)
    assert str(sandbox_plan.standard_library()) in made["show"]
    assert all(path.endswith("-packages") for path in made["root"]["hide"])
    assert made["seccomp"]


def test_as_root_every_zygote_has_a_user_id_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    uids = {make_plan("B", "program")["uid"] for _ in range(5)}
    assert len(uids) == 5
    assert min(uids) >= sandbox_plan.FIRST_UID


def test_reading_rights_are_kept_only_where_python_is_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    monkeypatch.setattr(sandbox_plan, "standard_library", lambda: hidden)
    assert make_plan("B", "program")["capabilities"] == sandbox_plan.READ_ANY_FILE
    monkeypatch.setattr(sandbox_plan, "TEMPORARY", "/elsewhere")
    assert make_plan("A", "program")["capabilities"] == 0
    monkeypatch.setattr(sandbox_plan, "standard_library", lambda: Path("/usr"))
    assert make_plan("B", "program")["capabilities"] == 0


def test_ordinary_users_keep_their_id_and_count_their_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert make_plan("B", "program")["uid"] is None
    assert (
        make_plan("B", "program")["rlimits"]["RLIMIT_NPROC"]
        > sandbox_plan.THREADS + sandbox_plan.OWN_PROCESSES
    )


def _no_landlock() -> int:
    raise OSError(38, "landlock_create_ruleset: Function not implemented")


def test_tier_b_needs_landlock_and_tier_a_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_plan, "landlock_version", _no_landlock)
    with pytest.raises(NoSandbox, match="needs Landlock, which this kernel refuses"):
        make_plan("B", "program")
    assert make_plan("A", "program")["landlock"] is None
    monkeypatch.setattr(sandbox_plan, "landlock_version", lambda: 2)
    with pytest.raises(NoSandbox, match="Landlock 3, this kernel has 2"):
        make_plan("B", "program")


@pytest.mark.parametrize(
    ("version", "size", "network", "highest"),
    [(3, 8, 0, 14), (4, 16, 3, 14), (5, 16, 3, 15), (7, 24, 3, 15)],
)
def test_only_rights_that_the_kernel_knows_are_used(
    version: int, size: int, network: int, highest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_plan, "landlock_version", lambda: version)
    landlock = make_plan("B", "program")["landlock"]
    assert (landlock["size"], landlock["network"]) == (size, network)
    assert landlock["files"].bit_length() == highest + 1
    assert landlock["work"] & ~landlock["files"] == 0


def test_unknown_machines_get_no_linux_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(NoSandbox, match="x86_64 or aarch64"):
        make_plan("A", "program")
    assert make_plan("F", "program")["seccomp"] is None


def test_tier_a_needs_a_place_to_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_plan, "MOUNT_POINTS", ("/no-such-folder", "/etc"))
    with pytest.raises(NoSandbox, match="needs one of the folders"):
        make_plan("A", "program")


def test_tier_a_cannot_show_a_python_below_its_own_temporary_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox_plan, "standard_library", lambda: Path("/tmp/python/lib"))
    with pytest.raises(NoSandbox, match="a /tmp of their own, and Python lies in it"):
        make_plan("A", "program")


def test_a_refused_layer_makes_the_tier_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def impossible(tier: Tier, *arguments: Any) -> dict[str, Any]:
        made = make_plan(tier, *arguments)
        made["numbers"]["landlock_create_ruleset"] = 9999
        made["preload"] = ["no_such_module"]
        return made

    monkeypatch.setattr(tiers, "make_plan", impossible)
    with pytest.raises(NoSandbox, match="no_such_module"):
        tiers.open_bench("B", False, ())


def test_libraries_beside_python_are_shown_one_by_one() -> None:
    folders = loaded_libraries("/nowhere/python")
    assert all(Path(folder).is_dir() for folder in folders)
    private = next(folder for folder in folders if not folder.startswith("/usr"))
    shown = loaded_libraries(f"{private}/python")
    assert private not in shown
    assert any(Path(path).parent == Path(private) and ".so" in path for path in shown)
    assert private not in loaded_libraries(private)


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return found


OWN = ("archer.judge", "archer.errors", "archer.machine.description", "archer.machine.signals")
"""The last three import the standard library alone, too."""


@pytest.mark.parametrize("path", sorted(JUDGE.rglob("*.py")), ids=lambda path: path.stem)
def test_the_judge_depends_on_nothing_but_the_standard_library(path: Path) -> None:
    for name in imports(path):
        inside = path.parent.name == "inside"
        own = name.startswith("." if inside else OWN)
        assert own or name.partition(".")[0] in sys.stdlib_module_names, (path, name)
