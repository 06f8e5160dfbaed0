"""The smaller commands: methods, models, doctor, demo, help and version."""

import json
import re
import sys

import pytest

import archer.checks.doctor
from archer import __version__
from archer.checks.doctor import MachineReport
from archer.checks.products import Products
from archer.cli import COMMANDS, demo, demo_sudoku, main
from archer.judge import Judge, NoSandbox
from archer.loading.architectures import ARCHITECTURES
from archer.loading.hub import BUNDLED
from archer.machine.devices import ISA_SETTING, Attempt, Bf16
from archer.methods.catalogue import DECODERS, DEFAULT_METHOD, METHODS, POLICIES
from archer.pocket import grids
from archer.pocket.results import published
from archer.results.trace import Placed, Update
from archer.terminal.glyphs import TAKEN_SIGN
from support.recorded import update
from support.terminals import in_terminal, plain

Capture = pytest.CaptureFixture[str]


def test_methods_are_listed_with_a_line_each(capsys: Capture) -> None:
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in (*METHODS, *DECODERS, *POLICIES):
        assert any(line.startswith(f"  {name} ") for line in lines), name
    assert any(line.strip() == "radius=8" for line in lines)


def test_methods_as_json(capsys: Capture) -> None:
    assert main(["methods", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["methods"]) == list(METHODS)
    assert found["decoders"]["saber"]["settings"]["n"] == 2
    assert "rollback" not in found["decoders"]["saber"]["settings"]
    assert found["policies"]["archer"]["settings"] == {"radius": 8}
    assert found["presets"]["paper"]["radius"] == 8
    assert found["common"]["settings"]["length"] == 256


def test_models_are_listed(capsys: Capture) -> None:
    assert main(["models"]) == 0
    out = capsys.readouterr().out
    for name, row in ARCHITECTURES.items():
        assert (name in out) == bool(row.models), "nobody can load what is published nowhere"
        assert all(each.id in out for each in row.models)
    for name, each in BUNDLED.items():
        assert re.search(rf"^  {name} +{re.escape(each.note)}$", out, re.MULTILINE)


def test_models_as_json(capsys: Capture) -> None:
    assert main(["models", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bundled"] == ["pocket", "pocket-dream", "pocket-blind", "pocket-sudoku"]
    assert found["families"]["dream"]["trained_window"] == 2048
    ids = [each["id"] for each in found["families"]["llada"]["models"]]
    assert "GSAI-ML/LLaDA-8B-Instruct" in ids
    assert found["families"]["sdar"]["method"] == "sdar"


@pytest.mark.parametrize(
    ("free", "small", "large"),
    [(1, None, None), (2, "bfloat16", None), (20, "float32", "bfloat16")],
)
def test_what_fits_this_machine_is_said(
    free: int,
    small: str | None,
    large: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.setattr("archer.machine.available.available", lambda: free * 10**9)
    assert main(["models", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["families"]
    tiny, big = found["a2d-qwen3"]["models"][0], found["llada"]["models"][0]
    assert (tiny["fits"], big["fits"]) == (small, large)
    assert (tiny["laptop"], big["laptop"]) == (True, False)
    assert main(["models"]) == 0
    out = capsys.readouterr().out
    assert f"{free} GB of memory are free" in out
    fits = f"fits here in {small}" if small else "does not fit here"
    assert f"{fits}; for a laptop" in " ".join(out.split())


def machine(bf16: Bf16, judge: str) -> MachineReport:
    products = Products({"float32": 8.0}, None, "There is no w8a8.")
    return MachineReport(
        "3.11", "Linux", ("cpu",), "cpu", "float32", 2, {"torch": "2"}, bf16, products, judge
    )


def test_doctor(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    report = machine(Bf16(Attempt("killed", "by SIGILL"), Attempt("ok")), "B: x")
    monkeypatch.setattr(archer.checks.doctor, "examine", lambda: report)
    assert main(["doctor"]) == 0
    *facts, blank, remedy, _, eight_bits = capsys.readouterr().out.splitlines()
    assert facts[0] == "python          3.11"
    assert facts[-4:] == [
        "bf16 on cpu     killed by SIGILL",
        "w8a8 on cpu     refused",
        "fastest on cpu  float32 (float32 1.0 x; a product of 256 rows)",
        f"bf16 capped     ok ({ISA_SETTING})",
    ]
    assert blank == ""
    assert remedy.endswith("or use float32.")
    assert eight_bits == "There is no w8a8."
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bf16"]["as_is"] == {"outcome": "killed", "detail": "by SIGILL"}
    assert found["bf16"]["refusal"] == remedy
    assert (found["device"], found["devices"]) == ("cpu", ["cpu"])
    assert found["judge"] == "B: x"
    assert found["products"]["refusal"] == eight_bits


def test_what_doctor_says_of_the_judge_stays_in_its_column(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    report = machine(Bf16(Attempt("ok")), "A: " + "wall " * 20)
    monkeypatch.setattr(archer.checks.doctor, "examine", lambda: report)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["doctor"]) == 0
    *_, broken, after, _, _, _, _ = capsys.readouterr().out.splitlines()
    assert after == "bf16 on cpu     ok"
    assert broken.startswith(" " * len("bf16 on cpu     ") + "wall")


def test_demo_solves_and_compares(capsys: Capture) -> None:
    """A correction decides what hidden tests say; scores are the published ones, times this machine's."""
    assert main(["demo", "--problems", "1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Loading the model that comes with Archer ...\n")
    told = re.search(
        r"archer-doubt wrote 'm' at update (\d+), took it back, and wrote '7' there at update (\d+) of \d+. "
        r"With 'm' it would end in\n  return n - m if n == m .*\n"
        r"which passes what the model was shown, and fails a hidden test: assert apply\(0, 0\) == -7.\n",
        out,
    )
    assert told is not None
    assert int(told[1]) < int(told[2])
    marks = {
        name: line.split()[1:]
        for line in out.splitlines()
        for name in demo.JUDGED
        if line.startswith(f"{name}  ") and "right" in line
    }
    right, wrong = ["right", "right"], ["right", "wrong"]
    assert marks == {
        "saber": right,
        "archer-doubt": right,
        "archer": right,
        "llada-confidence": wrong,
        "fast-dllm-parallel": wrong,
    }
    assert "One problem, chosen to show this. The evidence is the table below." in out
    assert "just now, the mean of 1 problem, on this machine" in out
    for row in published()["methods"].values():
        if row["arm"] in ("LLaDA-Confidence", "Saber", "Archer", "archer-doubt"):
            table = out.partition("\nTiming")[2].splitlines()
            line = next(line for line in table if line.startswith(f"{row['arm']}  "))
            assert f"{row['visible']['score']:.1f} % [{row['visible']['low']:.0f}, " in line


@pytest.mark.slow
def test_the_demo_draws_two_methods_side_by_side() -> None:
    written = plain(in_terminal(["demo", "--problems", "1"]))
    assert any(
        "llada-confidence · pocket" in line and f"{DEFAULT_METHOD} · pocket" in line
        for line in written.split("\n")
    )
    table = written[written.rindex("visible tests") :].split("\n")[1:5]
    assert all(re.search(r"% \[\d\d, \d\d\].*x$", row.rstrip()) for row in table), "a line each"


def test_the_sudoku_demo_takes_a_wrong_digit_back(capsys: Capture) -> None:
    """The digit that was taken back is wrong, the one that replaced it right, and the grid is solved."""
    assert main(["demo", "sudoku", "--problems", "1"]) == 0
    out = capsys.readouterr().out
    told = re.search(
        r"wrote (\d) in row (\d), column (\d) at update (\d+), took it back, and wrote (\d) there at "
        r"update (\d+).\nEvery row, column and box has every digit: the grid is solved.",
        out,
    )
    assert told is not None
    wrong, row, column, before, right, after = map(int, told.groups())
    place = 9 * (row - 1) + column - 1
    puzzle = demo_sudoku.puzzle()
    assert puzzle.givens[place] == grids.EMPTY
    assert int(puzzle.solution[place]) == right != wrong
    assert before < after
    drawn = out.partition("┌")[2].partition("└")[0]
    cells = "".join(line[len(line) // 2 :] for line in drawn.splitlines()[1:])
    assert "".join(re.findall(r"\d", cells)) == puzzle.solution
    for method in demo_sudoku.METHODS:
        assert re.search(rf"{method} +[01] of 1 ", out)


@pytest.mark.slow
def test_the_sudoku_demo_draws_the_grid() -> None:
    written = plain(in_terminal(["demo", "sudoku", "--problems", "1"]))
    assert f"{DEFAULT_METHOD} · pocket-sudoku" in written
    assert written.count("┌─────────┬─────────┬─────────┐") > 10
    assert TAKEN_SIGN in written


def placing(number: int, placed: dict[int, int], taken: tuple[int, ...] = ()) -> Update:
    changes = [Placed(at=at, token=token, confidence=0.5) for at, token in placed.items()]
    return update(number, accepted=changes, remasked=taken)


def test_the_correction_that_is_told_is_the_last_one_of_text() -> None:
    """Not one that returns as it was, and not one that has to do with end marks (here 0)."""
    walk = [
        placing(1, {0: 5, 1: 6, 2: 7, 3: 0}, (0, 1, 3)),
        placing(2, {0: 8, 1: 6, 3: 9}, (2,)),
        placing(3, {2: 1}),
        placing(4, {4: 2}),
    ]
    assert demo.last_correction(walk, frozenset({0})) == demo.Correction(2, 7, 1, 1, 3)
    assert demo.last_correction(walk[:2], frozenset({0})) == demo.Correction(0, 5, 1, 8, 2)
    assert demo.last_correction(walk[:1], frozenset({0})) is None


def test_what_the_tests_say_without_the_correction() -> None:
    assert "fails what the model was shown: assert f(1)." in demo._why("assert f(1)", None)
    assert "and fails a hidden test: assert f(2)." in demo._why(None, "assert f(2)")
    assert "here they see no difference." in demo._why(None, None)


@pytest.mark.slow
def test_where_nothing_confines_programs_the_demo_runs_none(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(self: Judge) -> Judge:
        raise NoSandbox("Nothing confines programs here.")

    monkeypatch.setattr(Judge, "__enter__", nowhere)
    assert main(["demo", "--problems", "1"]) == 0
    out = capsys.readouterr().out
    assert "What they wrote is not run: Nothing confines programs here." in out
    assert "on this problem" not in out
    assert "just now, the mean of 1 problem" in out


def test_a_demo_needs_problems(capsys: Capture) -> None:
    assert main(["demo", "--problems", "0"]) == 2
    assert "for --problems: give a whole number of at least 1, not 0." in capsys.readouterr().err


def test_version_and_help(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: Capture) -> None:
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: archer {name}")


def test_an_unknown_command_gets_a_hint(capsys: Capture) -> None:
    assert main(["genrate"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith('archer: Unknown command "genrate". Did you mean "generate"?')
    assert err.count("\n") == 1
