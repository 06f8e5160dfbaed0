"""Decoders, policies and tasks from elsewhere: as objects in Python, by entry point on the command line."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import archer
from archer import Method
from archer.cli import main
from archer.decoders.saber import Saber
from archer.decoders.scheduled import Scheduled
from archer.engine.batch import Batch
from archer.engine.walk import Walk
from archer.errors import BadRequest, Incompatible
from archer.methods.build import build
from archer.methods.catalogue import DECODERS as OWN
from archer.methods.extensions import Extended
from archer.methods.settings import DECODERS, POLICIES
from archer.model import Model, load
from archer.passes.canvas import Canvas, Flags, Scope
from archer.passes.memory import Memory
from archer.policies.blockwise import Dual
from archer.policies.prompt_cache import Archer, Eager
from archer.tasks import ALL_TASKS, TASKS, open_task
from server.running import serving
from support import foreign

Capture = pytest.CaptureFixture[str]
Installer = Callable[..., Path]
PROMPT = "Write a function.\nassert solve([2]) == 0\ndef solve(nums):"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installer]:
    """Puts packages on the path; afterwards nothing of them is left."""

    def put(entries: Mapping[str, Mapping[str, str]] | None = None) -> Path:
        monkeypatch.syspath_prepend(foreign.install(tmp_path, entries))
        for table in (DECODERS, POLICIES, ALL_TASKS):
            table.forget()
        return tmp_path

    yield put
    monkeypatch.undo()
    sys.modules.pop("foreign_parts", None)
    for table in (DECODERS, POLICIES, ALL_TASKS):
        table.forget()


@pytest.fixture(scope="module")
def pocket() -> Model:
    return load("pocket", device="cpu")


def test_a_method_made_of_objects_is_the_named_one(pocket: Model) -> None:
    (named,) = pocket.generate(PROMPT, "saber+archer:8", length=32)
    (made,) = pocket.generate(PROMPT, Method(Saber(), Archer(radius=8), length=32))
    assert made.tokens == named.tokens
    (longer,) = pocket.generate(PROMPT, method=Method(Saber(), Archer(radius=8)), length=32)
    assert longer.tokens == named.tokens


def test_a_method_names_and_tells_itself() -> None:
    made = Method(Scheduled(steps=4), Dual(), length=16)
    assert made.name == "scheduled+dual"
    assert made.settings["steps"] == 4
    assert made.settings["length"] == 16
    assert Method(Saber()).policy == Eager()
    assert Method(Saber(), name="mine").name == "mine"


@pytest.mark.parametrize(
    ("method", "options", "reason"),
    [
        (Method(Saber()), {"radius": 3}, "cannot be given the setting 'radius' as well"),
        (Method(Saber()), {"preset": "paper"}, "cannot be given a preset as well"),
        (Method(Saber()), {"length": 0}, "length must be a whole number, at least 1"),
        (Method(object()), {}, "has no attention, reads, draws, check, blocks"),  # type: ignore[arg-type]
        (Method(Saber, Eager()), {}, "is a class: make one of it"),  # type: ignore[arg-type]
        (Method(Saber(), 8), {}, "The policy of the method .* has no answers"),  # type: ignore[arg-type]
        (Method(Saber(block=5), length=8), {}, "does not divide the length"),
        (Method(Saber(block=8), Dual(), length=16), {}, "'saber' does not go with 'dual'"),
    ],
)
def test_a_method_that_cannot_work_is_refused(
    pocket: Model, method: Method, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadRequest, match=reason):
        pocket.request(PROMPT, method, **options)


@dataclass(frozen=True)
class Bare:
    """A decoder without settings of its own, around another: no pydantic, no base class."""

    inner: Scheduled = field(default_factory=Scheduled)

    reads = Scheduled().reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_a_decoder_need_not_inherit_anything(pocket: Model) -> None:
    (mine,) = pocket.generate(PROMPT, Method(Bare(), length=16))
    (theirs,) = pocket.generate(PROMPT, "confidence", length=16)
    assert mine.tokens == theirs.tokens


class Unfinished:
    """Has what a pass asks for, and not what the engine asks for."""

    answers = Scope.RESPONSE
    block_causal = False

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        return canvas.everything()


def test_a_policy_says_all_that_the_engine_asks_or_is_refused_by_name(pocket: Model) -> None:
    lacking = "has no why, counts_passes, rebuilds, features, .*inside_layers"
    half: Any = Unfinished()
    with pytest.raises(
        BadRequest, match=f"The policy of the method 'saber\\+unfinished' {lacking}"
    ):
        pocket.generate(PROMPT, Method(Saber(), half), length=16)


def test_refusals_name_the_caches_of_other_packages(install: Installer, pocket: Model) -> None:
    install()
    with pytest.raises(
        Incompatible, match=r"the whole response: eager, .* dllm-cache, forgetful or recalling"
    ):
        build("saber+dkv-decode", {})


def test_entry_points_add_names_and_take_none(install: Installer) -> None:
    install()
    assert "slow" in DECODERS
    assert list(DECODERS)[: len(OWN)] == list(OWN)
    assert DECODERS["saber"].make is Saber
    assert len(DECODERS) == len(OWN) + 1
    assert "foreign_parts" not in sys.modules or DECODERS["slow"] is not None
    built = build("slow:5+forgetful", {})
    assert built.settings["haste"] == 5
    assert type(built.policy).__name__ == "Forgetful"
    assert archer.settings("slow")["haste"].meaning == "How much of it there is."
    with pytest.raises(BadRequest, match="haste must be a whole number, at least 1, not 0"):
        build("slow", {"haste": 0})


def test_a_package_is_imported_when_its_name_is_used(install: Installer) -> None:
    install()
    assert list(DECODERS)[-1] == "slow"
    assert "foreign_parts" not in sys.modules
    assert build("saber", {}).decoder == Saber()
    assert "foreign_parts" not in sys.modules
    build("slow", {})
    assert "foreign_parts" in sys.modules


@pytest.mark.slow
def test_a_foreign_task_is_opened_and_scored(
    install: Installer, tmp_path: Path, capsys: Capture
) -> None:
    install()
    assert len(open_task("tiny").samples()) == 2
    assert main(["eval", "tiny", "--method", "slow", "--out", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 2
    assert set(ALL_TASKS) - set(TASKS) == {"tiny"}


def test_a_policy_of_another_package_remembers_wherever_it_is_used(
    install: Installer, pocket: Model, tmp_path: Path, capsys: Capture
) -> None:
    """In Python, alone and swapped out after every update, on the command line, in a run and in a server."""
    install()
    method, length = "saber+recalling", 16
    steps = list(pocket.stream(PROMPT, method, length=length))
    kinds = [step.calls[0].kind.value for step in steps]
    assert kinds == ["cached" if at % 3 else "full" for at in range(len(steps))]
    (alone,) = pocket.generate(PROMPT, method, length=length)
    assert alone.tokens == tuple(steps[-1].after.response[0].tolist())[: len(alone.tokens)]

    walk = Walk(pocket.network, build(method, {"length": length}), steps[0].before)
    batch: Batch[int] = Batch(pocket.network)
    batch.walks[0] = walk
    swapped = 0
    while not walk.done:
        if walk.can_swap_out:
            walk.swap_out()
            swapped += 1
        ((_, step),) = batch.turn([0], lambda: False).steps
    assert swapped == len(steps)
    assert step.after.response.tolist() == steps[-1].after.response.tolist()

    assert main(["generate", PROMPT, "--method", method, "--length", str(length), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["completions"][0]["text"] == alone.text
    assert main(["eval", "tiny", "--method", method, "--out", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 2
    with serving(pocket) as client:
        reply = client.ask(PROMPT, model=f"pocket@{method}", max_tokens=length).json
    assert reply["choices"][0]["message"]["content"] == alone.text


def test_the_command_line_lists_and_uses_them(install: Installer, capsys: Capture) -> None:
    install()
    assert main(["methods"]) == 0
    listed = capsys.readouterr().out
    assert "  slow            One mask at a time, without haste\n" in listed
    assert "  forgetful   Keep nothing at all\n" in listed
    assert main(["methods", "--matrix"]) == 0
    assert "| forgetful" in capsys.readouterr().out
    assert main(["tasks"]) == 0
    assert "Two problems only" in capsys.readouterr().out
    assert main(["generate", PROMPT, "--method", "slow+forgetful", "--length", "8"]) == 0
    (here, error) = capsys.readouterr()
    assert (error, bool(here)) == ("", True)


@pytest.mark.parametrize(
    ("group", "value", "reason"),
    [
        ("archer.decoders", "foreign_parts:Nothing", "AttributeError"),
        ("archer.decoders", "no_such_module:Thing", "ModuleNotFoundError"),
        ("archer.decoders", "foreign_parts:NOT_A_DECODER", "TypeError: it must be a pydantic"),
        (
            "archer.decoders",
            "foreign_parts:Forgetful",
            "TypeError: it has no attention, reads, draws",
        ),
        ("archer.policies", "foreign_parts:Slow", "TypeError: it has no answers"),
        ("archer.tasks", "foreign_parts:Slow", "TypeError: it must be a subclass"),
    ],
)
def test_a_broken_package_is_named_and_harms_nobody_else(
    install: Installer, capsys: Capture, group: str, value: str, reason: str
) -> None:
    install({group: {"bad": value}})
    table: dict[str, Extended[Any]] = {each.group: each for each in (DECODERS, POLICIES, ALL_TASKS)}
    with pytest.raises(BadRequest, match=f"'bad' of the package 'foreign-parts' .*{reason}"):
        table[group]["bad"]
    assert main(["tasks" if group == "archer.tasks" else "methods"]) == 0
    out, err = capsys.readouterr()
    assert "cannot be used" in err
    assert ("pocket" if group == "archer.tasks" else "saber") in out
    assert build("saber+archer", {}).decoder == Saber()


def test_a_broken_package_is_imported_once_and_told_once_however_often_clients_ask(
    install: Installer, pocket: Model, caplog: pytest.LogCaptureFixture
) -> None:
    folder = install({"archer.decoders": {"bad": "broken_parts:Thing"}})
    (folder / "broken_parts.py").write_text(
        "import pathlib\n"
        "with (pathlib.Path(__file__).parent / 'imports').open('a') as file:\n"
        "    file.write('x')\n"
        "raise RuntimeError('no such device')\n"
    )
    with serving(pocket) as client:
        for _ in range(3):
            assert "saber" in client.get("/v1/archer/methods").json["decoders"]
            reply = client.ask(archer={"method": "bad"})
            assert reply.status == 400
            assert "no such device" in reply.json["error"]["message"]
    assert (folder / "imports").read_text() == "x"
    told = [each for each in caplog.records if "cannot be used" in each.getMessage()]
    assert len(told) == 1


def test_what_may_pass_is_tried_again(install: Installer) -> None:
    """A server that is out of descriptors for a moment does not lose a package until it is started anew."""
    folder = install({"archer.decoders": {"late": "late_parts:Late"}})
    (folder / "late_parts.py").write_text(
        "import pathlib\n"
        "mark = pathlib.Path(__file__).parent / 'tried'\n"
        "if not mark.exists():\n"
        "    mark.touch()\n"
        "    raise OSError(24, 'Too many open files')\n"
        "from archer.decoders.saber import Saber as Late\n"
    )
    with pytest.raises(BadRequest, match="Too many open files"):
        DECODERS["late"]
    assert DECODERS["late"].make is Saber


def test_an_unknown_name_lists_those_of_other_packages(install: Installer) -> None:
    install()
    with pytest.raises(BadRequest, match="slow"):
        build("slwo", {})
    with pytest.raises(BadRequest, match="Did you mean 'tiny'"):
        open_task("tinny")
