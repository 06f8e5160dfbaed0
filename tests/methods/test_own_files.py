"""A method of one's own, from a file, in every command that takes one; and what a file may not do."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import archer
from archer import Method
from archer.cli import main
from archer.decoders.saber import Saber
from archer.errors import BadRequest
from archer.extend import Archer
from archer.methods.build import Choice, build, resolve
from archer.methods.own_files import OwnPart, bring, digests, own_parts
from archer.methods.settings import DECODERS, POLICIES
from archer.methods.spelling import cut
from archer.model import Model, load
from archer.runs.executors.on_ray import Actor
from archer.runs.executors.worker import Item, Order
from archer.runs.manifest import model_identity
from archer.server.settings import ServerSettings
from conftest import REPOSITORY
from runs.toy import order_of
from server.running import serving
from studies.tiny_workspace import tiny_workspace

Capture = pytest.CaptureFixture[str]
PROMPT = "Write a function to add all numbers in nums.\nassert solve([1, 2]) == 3\ndef solve(nums):"


def tutorial(page: str, place: int = 0) -> str:
    """The first code of a tutorial: the class that it builds."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    found: str = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[place]
    return found


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The decoder of the tutorial in the folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    path = Path("mine.py")
    path.write_text(tutorial("add-a-decoder.md"), encoding="utf-8")
    yield path
    for table in (DECODERS, POLICIES):
        table.forget()


@pytest.fixture(scope="module")
def pocket() -> Model:
    return load("pocket", device="cpu")


MINE = "./mine.py:Steady+archer:8"


def said(capsys: Capture, *arguments: str) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_own_method_generates_from_its_file(file: Path, capsys: Capture, pocket: Model) -> None:
    found = said(
        capsys, "generate", PROMPT, "--method", MINE, "--length", "32", "--set", "patience=2"
    )
    assert found["method"] == MINE
    assert found["settings"]["patience"] == 2
    assert found["settings"]["radius"] == 8
    bring("mine.py:Steady")
    steady: Any = DECODERS["mine.py:Steady"].make
    (same,) = pocket.generate(PROMPT, Method(steady(patience=2), Archer(radius=8)), length=32)
    assert found["completions"][0]["tokens"] == list(same.tokens)


def test_own_method_by_its_name_in_python_and_its_recipe(file: Path, pocket: Model) -> None:
    with pytest.raises(BadRequest, match=r"or call archer\.bring with this name first"):
        pocket.generate(PROMPT, MINE, length=16)
    archer.bring(MINE)
    (done,) = pocket.generate(PROMPT, MINE, length=16)
    assert done.to_dict()["files"] == {"./mine.py": OwnPart("", file.read_text()).digest}
    recipe = done.recipe()
    DECODERS.forget()
    names: dict[str, Any] = {}
    exec(recipe, names)
    assert "archer.bring('./mine.py:Steady+archer')" in recipe
    assert names["done"].tokens == done.tokens


def test_own_policy_with_a_decoder_of_archers(file: Path, capsys: Capture) -> None:
    Path("keep.py").write_text(tutorial("add-a-policy.md"), encoding="utf-8")
    options = ["--method", "saber+keep.py:BlockArcher", "--length", "16", "--radius", "3"]
    found = said(capsys, "generate", PROMPT, *options)
    assert found["settings"]["radius"] == 3
    both = said(capsys, "generate", PROMPT, "--method", "mine.py:Steady+keep.py:BlockArcher")
    assert both["completions"][0]["finish_reason"] == "stop"


def test_own_method_fills_a_gap(file: Path, capsys: Capture) -> None:
    Path("draft.py").write_text("def f(nums):\n    return {}(nums)\n", encoding="utf-8")
    found = said(capsys, "fill", "draft.py", "--method", MINE, "--length", "2")
    assert found["method"] == MINE


def test_own_method_is_evaluated_and_its_file_recorded(file: Path, capsys: Capture) -> None:
    asked = ["eval", "pocket", "--method", MINE, "--limit", "2", "--out", "run"]
    found = said(capsys, *asked)
    assert found["n"] == 2
    method = json.loads(Path("run/manifest.json").read_text())["identity"]["method"]
    assert method["files"] == {"./mine.py": OwnPart("", file.read_text()).digest}
    file.write_text(
        file.read_text().replace("patience: Annotated[int, Field(ge=1)] = 3", "patience: int = 3")
    )
    assert main(asked) == 2
    assert "method.files" in capsys.readouterr().err


def test_own_method_is_timed(file: Path, capsys: Capture) -> None:
    sizes = ["--prompt", "8", "--response", "8", "--repeats", "1"]
    found = said(capsys, "bench", "decode", "--methods", f"saber,{MINE}", *sizes)
    assert [row["method"] for row in found["rows"]] == ["saber", MINE]


@pytest.mark.slow
def test_own_method_is_tuned_and_its_preset_names_it_again(file: Path, capsys: Capture) -> None:
    asked = ["tune", "pocket", "--candidate", MINE, "--problems", "3", "--at-most", "9"]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    preset = json.loads(Path("tune/pocket/preset.json").read_text())
    if preset["method"] == "./mine.py:Steady+archer":
        assert "preset.json --method ./mine.py:Steady+archer" in shown
    held = {"format": "archer-preset", "version": 1, "method": "./mine.py:Steady+archer"}
    Path("own.json").write_text(json.dumps(held | {"settings": {"length": 16}}))
    named = ["--preset", "own.json", "--method", "./mine.py:Steady+archer"]
    assert said(capsys, "generate", PROMPT, *named)["settings"]["length"] == 16


@pytest.mark.slow
def test_own_method_in_the_main_study(file: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    from archer_studies.paper import main as study

    bring(MINE)
    workspace = replace(tiny_workspace(tmp_path), methods=(MINE,))
    measured = study.measure(workspace)
    own = [row for row in measured.rows if row["method"] == MINE]
    assert [row["task"] for row in own] == ["tiny", "tiny-long", "overall"]
    assert own[0]["speedup"] > 0


@pytest.mark.slow
def test_own_method_in_the_main_study_by_its_command(file: Path, capsys: Capture) -> None:
    found = said(capsys, "study", "main", "--method", MINE, "--quick", "--out", "out")
    assert MINE in {row["method"] for row in found["rows"]}


def test_only_the_main_study_takes_methods(file: Path, capsys: Capture) -> None:
    assert main(["study", "radius", "--method", MINE]) == 2
    assert (
        "Only the study main takes further methods; leave out --method." in capsys.readouterr().err
    )
    assert main(["study", "main", "--method", "./mine.py:Stady"]) == 2
    assert "Did you mean 'Steady'?" in capsys.readouterr().err


def test_own_method_is_served_only_with_the_flag(file: Path, pocket: Model) -> None:
    with pytest.raises(BadRequest, match="a server needs allow_own_code=True as well"):
        ServerSettings(method=MINE).read_files()
    with serving(pocket, method=MINE, allow_own_code=True) as client:
        reply = client.ask(PROMPT, max_tokens=16).json
        named = client.ask(PROMPT, max_tokens=16, model=f"pocket@{MINE}").json
    assert reply["choices"][0]["message"] == named["choices"][0]["message"]


def test_a_request_to_a_server_never_runs_a_file(file: Path, pocket: Model) -> None:
    Path("bad.py").write_text("from pathlib import Path\nPath('ran').touch()")
    with serving(pocket) as client:
        reply = client.ask(PROMPT, archer={"method": "./bad.py:Steady"})
        by_id = client.ask(PROMPT, model="pocket@./bad.py:Steady")
    assert reply.status == by_id.status == 400
    assert "which runs only where you name it yourself" in reply.json["error"]["message"]
    assert not Path("ran").exists()


def test_a_preset_never_runs_a_file(file: Path, capsys: Capture) -> None:
    held = {"format": "archer-preset", "version": 1, "method": MINE, "settings": {}}
    Path("own.json").write_text(json.dumps(held))
    assert main(["generate", PROMPT, "--preset", "own.json"]) == 2
    assert "'./mine.py:Steady' is code in a file" in capsys.readouterr().err


def test_workers_are_given_the_text_of_a_file(file: Path) -> None:
    bring(MINE)
    (part,) = own_parts(MINE)
    item = Item("1", 1, (5,), Choice(MINE), own=(part,))
    DECODERS.forget()
    file.unlink()
    again = Item.of(json.loads(json.dumps(asdict(item))))
    assert again == item
    for each in again.own:
        each.bring()
    assert build(MINE, {}).files == {"./mine.py": part.digest} == digests(MINE)


def test_an_actor_of_ray_decodes_by_a_file_that_it_does_not_have(file: Path, pocket: Model) -> None:
    bring(MINE)
    ids = pocket.encode(PROMPT)
    (here,) = pocket.generate(ids, MINE, length=16)
    item = Item("1", 1, tuple(ids), Choice(MINE, {"length": 16}), own=tuple(own_parts(MINE)))
    DECODERS.forget()
    file.unlink()
    actor = Actor()
    assert actor.open(Order(order_of(pocket).source, model_identity(pocket)).to_dict()) == {}
    answer = actor.complete(json.loads(json.dumps(asdict(item))))
    assert answer["record"]["tokens"] == list(here.tokens)


@pytest.mark.slow
def test_an_evaluation_by_workers_is_the_same(file: Path, capsys: Capture) -> None:
    asked = ["eval", "pocket", "--method", MINE, "--limit", "4"]
    alone = said(capsys, *asked, "--out", "alone")
    several = said(capsys, *asked, "--out", "several", "--workers", "2")
    assert alone["pass@1"] == several["pass@1"]
    lines = [
        {
            each["doc_id"]: each["resps"]
            for each in map(json.loads, Path(run, "samples.jsonl").read_text().splitlines())
        }
        for run in ("alone", "several")
    ]
    assert lines[0] == lines[1]


@pytest.mark.parametrize(
    ("text", "method", "reason"),
    [
        (None, "no.py:Steady", "The file no.py cannot be read: No such file or directory."),
        ("def (", "bad.py:Steady", "The file bad.py cannot be used: it gives SyntaxError: "),
        ("1 / 0", "bad.py:Steady", "it gives ZeroDivisionError: division by zero."),
        ("import sys; sys.exit(3)", "bad.py:Steady", "it gives SystemExit: 3."),
        (
            "raise ValueError('x' * 10**6)",
            "bad.py:Steady",
            "it gives ValueError: " + "x" * 300 + "...",
        ),
        ("class A: ...", "bad.py:Steady", "has no class 'Steady'. It has A."),
        ("", "bad.py:Steady", "has no class 'Steady'. It has no class."),
        ("class A: ...", "bad.py:A", "bad.py:A cannot be used: it must be a pydantic dataclass"),
        ("\xff", "bad.py:A", "The file bad.py is not UTF-8: byte 0"),
        ("#" * (1 << 20) + "#", "bad.py:A", "The file bad.py is larger than 1 MiB"),
        ("", "bad.py", "Name the decoder in that file: bad.py:CLASS."),
        (None, "sabre", "A decoder of your own goes by its file, ./FILE.py:CLASS"),
        (None, "saber+archre", "A cache policy of your own goes by its file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    text: str | None,
    method: str,
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("bad.py").write_bytes(text.encode("latin-1"))
    assert main(["generate", PROMPT, "--method", method]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())


def test_a_name_is_cut_where_its_value_begins() -> None:
    assert cut("archer:8") == ("archer", "8")
    assert cut("archer") == ("archer", None)
    assert cut("a/b.py:Steady:5") == ("a/b.py:Steady", "5")
    assert cut("a/b.py:Steady") == ("a/b.py:Steady", None)
    assert cut("a/b.py") == ("a/b.py", None)


def test_own_decoder_as_an_object_wherever_a_name_goes(pocket: Model) -> None:
    (named,) = pocket.generate(PROMPT, "saber+archer:8", length=32)
    for method in (
        Method(Saber(), "archer:8"),
        Method("saber", Archer(radius=8)),
        Method("saber", "archer:8"),
    ):
        (same,) = pocket.generate(PROMPT, method, length=32)
        assert same.tokens == named.tokens
        assert method.name == "saber+archer"
    (alone,) = pocket.generate(PROMPT, Saber(), length=32)
    assert alone.tokens == pocket.generate(PROMPT, "saber", length=32)[0].tokens
    doubting = Method("saber-doubt", "surprise")
    assert build(doubting.name, doubting.settings).decoder == doubting.decoder


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (Saber, r"Saber is a class: make one of it, Saber\(...\)."),
        (5, "A method is a name, a Method or a decoder, and 5 is no decoder: it has no attention"),
        (Archer(), "is no decoder: it has no attention"),
    ],
)
def test_what_is_no_method_is_refused_with_a_sentence(method: Any, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        resolve(method, {})


def test_a_part_of_a_method_that_is_no_name_is_refused() -> None:
    with pytest.raises(BadRequest, match="There is no method 'archre:8': 'archre' is not a cache"):
        Method(Saber(), "archre:8")
