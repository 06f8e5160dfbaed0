"""Commands in processes and terminals of 80 columns: nothing is cut, broken or left behind."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from archer.cli import COMMANDS, app, main
from archer.cli.output import allotted
from archer.tasks import TASKS, registry
from support.folders import make_llada
from support.processes import ran, running
from support.terminals import PROBLEM, environment, in_terminal, plain, several_in_terminal

Capture = pytest.CaptureFixture[str]


def said(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "archer", *arguments)
    return ran(*command, code=None, input=stdin, env=environment())


def test_python_dash_m_is_the_command() -> None:
    done = said("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout[0].isdigit()
    assert said("nothing").returncode == 2


LISTS = ["methods", "methods archer", "methods --matrix", "tasks", "study", "models"]
REFUSED = "generate x --method sabre"


@pytest.fixture(scope="module")
def terminal() -> dict[str, str]:
    """What a terminal of 80 columns shows of each; in one process, because torch takes its time."""
    commands = [*LISTS, REFUSED]
    shown = several_in_terminal([each.split() for each in commands])
    return dict(zip(commands, map(plain, shown), strict=True))


@pytest.mark.parametrize("spelled", LISTS)
def test_lists_fit_80_columns_without_a_broken_word(
    spelled: str, terminal: dict[str, str], capsys: Capture
) -> None:
    """Every word that the terminal shows is a word that a pipe gets."""
    shown, arguments = terminal[spelled], spelled.split()
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert main(arguments) == 0
    piped = capsys.readouterr().out
    shown, piped = (re.sub(r"\d+ GB of memory", "memory", each) for each in (shown, piped))
    assert set(shown.split()) <= {*piped.split(), *piped.replace("|", " ").split()}
    assert "| ---" not in shown


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 40)), min_size=1), st.integers(0, 200))
def test_columns_share_the_room_there_is(wants: list[tuple[int, int]], room: int) -> None:
    least = [each for each, _ in wants]
    most = [each + more for each, more in wants]
    widths = allotted(least, most, room)
    if not widths:
        assert sum(least) > room
        return
    assert all(low <= width <= high for low, width, high in zip(least, widths, most, strict=True))
    assert sum(widths) == min(room, sum(most))


def test_a_refusal_is_broken_between_words(terminal: dict[str, str], capsys: Capture) -> None:
    shown = terminal[REFUSED]
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert main(REFUSED.split()) == 2
    assert shown.split() == capsys.readouterr().err.split()


def test_the_tasks_are_listed(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARCHER_SHARED", raising=False)
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(TASKS)]] == list(TASKS)
    assert "bundled" in next(line for line in lines if line.startswith("pocket "))
    assert list(registry.ABOUT) == list(TASKS)
    assert main(["tasks", "--json"]) == 0
    told = [row["what"] for row in json.loads(capsys.readouterr().out).values()]
    assert all(each[0].isupper() or each[0].isdigit() for each in told)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_every_command(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "--radius" in script


def test_bash_understands_its_script() -> None:
    script = app().generate_completion(shell="bash")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_help_tells_the_defaults(capsys: Capture) -> None:
    assert main(["generate", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for told in ("[default: the model's]", "[default: pocket]", "[default: 8]", "else 256]"):
        assert told in out
    assert "[default: False]" not in out
    assert main(["bench", "step", "--help"]) == 0
    assert "Tokens of the response. [default: 256]" in capsys.readouterr().out


def test_a_refused_option_points_to_the_help_of_its_command(capsys: Capture) -> None:
    assert main(["eval", "pocket", "--metod", "saber"]) == 2
    assert capsys.readouterr().err.endswith("See `archer eval --help`.\n")
    assert main(["bench", "step", "--respons", "64"]) == 2
    assert capsys.readouterr().err.endswith("See `archer bench step --help`.\n")
    assert main(["evl"]) == 2
    assert capsys.readouterr().err.endswith("See `archer --help`.\n")
    assert main(["completion"]) == 2
    assert "SHELL" in capsys.readouterr().err


def test_a_prompt_from_stdin(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["generate", PROBLEM, "--length", "16"]) == 0
    wanted = capsys.readouterr().out
    assert wanted.strip()
    done = said("generate", "-", "--length", "16", stdin=PROBLEM)
    assert (done.returncode, done.stdout, done.stderr) == (0, wanted, "")
    chat = json.dumps([{"role": "user", "content": PROBLEM}])
    for option, typed in (("--prompt-file", PROBLEM), ("--messages", chat)):
        stdin = io.TextIOWrapper(io.BytesIO(typed.encode()))
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["generate", option, "-", "--length", "16"]) == 0
        assert capsys.readouterr().out == wanted


def test_pocket_says_what_it_can_do(capsys: Capture) -> None:
    assert main(["generate", "Write a haiku about rollback.", "--length", "8"]) == 0
    assert "only writes the body of a small Python function" in capsys.readouterr().err
    assert main(["generate", "Write a haiku about rollback.", "--length", "8", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["generate", PROBLEM, "--length", "8"]) == 0
    assert capsys.readouterr().err == ""


def test_ctrl_c_leaves_one_bar_and_the_command_that_goes_on(tmp_path: Path) -> None:
    arguments = ["eval", "pocket-dev", "--method", "archer:8", "--limit", "100", "--out", "a run"]
    written = in_terminal(
        arguments,
        columns=80,
        folder=tmp_path,
        interrupt=lambda text: re.search(r" [1-9]\d?/100", plain(text)) is not None,
        code=130,
    )
    assert written.count("\x1b[?25h") >= written.count("\x1b[?25l") > 0, "the cursor is back"
    *_, bar, told, command = plain(written).rstrip().split("\n")
    assert "/100" in bar
    assert told == "archer: interrupted. To resume:"
    assert command == "archer eval pocket-dev --method archer:8 --limit 100 --out 'a run'", (
        "to copy"
    )


@pytest.mark.slow
def test_the_whole_of_a_long_answer_stays_in_the_terminal(capsys: Capture) -> None:
    """The live view shows a window of it; at the end all of it is there to scroll back to."""
    asked = ["generate", PROBLEM, "--method", "confidence:8", "--set", "eos=logits"]
    rows = 6
    written = in_terminal(asked, columns=20, rows=rows)
    left = plain(written.rpartition("\x1b[?25h")[2])
    assert main(asked) == 0
    answer = capsys.readouterr().out
    assert sum(-(-max(1, len(line)) // 20) for line in answer.splitlines()) > rows, "it is long"
    assert "".join(left.split()).startswith("".join(answer.split()))


def test_runs_of_end_marks_are_one_mark() -> None:
    written = plain(in_terminal(["generate", PROBLEM]))
    assert "∎" in written
    assert "∎∎" not in written


SCRIPT = "import sys; from archer.cli import main; sys.exit(main())"
COMMAND = [sys.executable, "-c", SCRIPT]
SECONDS = 120


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_llada(tmp_path_factory.mktemp("model"), tokenizer=True))


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error(model: str) -> None:
    command = [*COMMAND, "generate", "--model", model, "--prompt-ids", "5", "--length", "8"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with running(command, **pipes, env=environment()) as child:
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(SECONDS) == 141


def test_light_commands_leave_torch_alone() -> None:
    calls = [["--help"], ["--version"], ["generate", "--help"], ["models"], ["generate", "--nope"]]
    script = (
        "import sys; from archer.cli import main\n"
        f"for argv in {calls!r}: main(argv)\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0


def test_an_interrupt_leaves_the_terminal_intact(model: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    arguments = ["--prompt-ids", "5", "--length", "480", "--method", "llada-confidence"]
    arguments += ["--steps", "9600"]
    written = in_terminal(
        ["generate", "--model", model, *arguments, "--trace", str(trace)],
        interrupt=lambda text: re.search(r"update +[3-9]", text) is not None,
        code=130,
    )
    assert "Traceback" not in written
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")
    last = written.rpartition("\x1b[2K")[2]
    assert re.sub(r"\x1b\[[?\d;]*\w", "", last) == "archer: interrupted.\n"
    assert b'"event":"update"' in trace.read_bytes()
