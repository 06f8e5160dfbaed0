"""`archer plan` as it is typed: tables, JSON, a figure, checks, and refusals before any work."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from archer.cli import main
from conftest import REPOSITORY
from support.folders import make_llada

Capture = pytest.CaptureFixture[str]
RESULTS = REPOSITORY / "docs" / "results"
QUICK = ("--rate=40", "--length=64", "--requests=20", "--updates=0.1", "--refreshed=0.2")


def asked(capsys: Capture, *words: str) -> dict[str, Any]:
    assert main(["plan", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_plan_is_a_table_or_an_object(capsys: Capture, tmp_path: Path) -> None:
    figure = tmp_path / "plan.svg"
    words = (*QUICK, "--gpus", "a100,b200", "--budget", "256,1024", "--figure", str(figure))
    found = asked(capsys, *words)
    assert [each["gpu"] for each in found["plan"]] == ["A100 80GB", "B200"]
    assert len(found["all"]) == 4
    slow, fast = found["plan"]
    assert slow["gpus"] > fast["gpus"] >= 1
    assert min(slow["in_time"], fast["in_time"]) >= 0.95
    assert slow["gpus"] == min(e["gpus"] for e in found["all"] if e["gpu"] == slow["gpu"])
    assert (found["rate"], found["length"]) == (40.0, "64")
    assert figure.read_text(encoding="utf-8").startswith("<?xml")
    assert main(["plan", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line.startswith("| GPU | radius | budget | GPUs |")]
    assert len(heads) == 2
    assert len([line for line in lines if line.startswith(("| A100", "| B200"))]) == 2 + 4


@pytest.mark.parametrize(
    ("words", "method", "told"),
    [
        (
            [],
            "archer-doubt",
            "as counted on the bundled model, which says little about another one.",
        ),
        (["--radius", "8"], "archer", "updates as the paper reports them for LLaDA-8B on MBPP"),
        (["--method", "archer-cut"], "archer-cut", "as counted on the bundled model"),
        (["--updates=0.1", "--refreshed=0.2"], "archer-doubt", "as given."),
    ],
)
def test_a_plan_is_for_the_default_and_says_whose_updates_it_counts(
    words: list[str], method: str, told: str, capsys: Capture
) -> None:
    asked_for = ["plan", "--rate=1", "--length=16", "--requests=4", "--gpus=b200", *words]
    assert main(asked_for) == 0
    (note,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("- ")]
    assert note.startswith(f"- Updates of {method} and how many of them are full: ")
    assert told in note


def test_sizes_of_a_file_come_at_a_rate(capsys: Capture, tmp_path: Path) -> None:
    """A stream that repeats the file: GPUs that could not serve it for ever are not named."""
    path = tmp_path / "requests.jsonl"
    lines = [{"prompt": size, "length": 32, "updates": 6, "full": 2} for size in (50, 100, 200)]
    path.write_text("\n".join(map(json.dumps, lines)))
    (best,) = asked(capsys, "--file", str(path), "--gpus", "A100", "--rate", "200")["plan"]
    assert best["requests"] == 3
    assert best["gpus"] * best["most"] >= 200


def test_a_measured_machine_is_planned_for(capsys: Capture, tmp_path: Path) -> None:
    """The costs of a tiny model's turns, then a plan with them."""
    model = make_llada(tmp_path / "model", tokenizer=False)
    words = ["--model", str(model), "--mixes", "6", "--prompts", "4,9", "--lengths", "4,8"]
    assert main(["bench", "passes", *words, "--rows", "1,2,3", "--json"]) == 0
    content = capsys.readouterr().out
    timed = json.loads(content)
    assert len(timed["timed"]) >= 6
    assert min(timed["fitted"].values()) >= 0
    assert {len(each["shares"]) for each in timed["timed"]} == {1, 2, 3}
    path = tmp_path / "passes.json"
    path.write_text(content)
    found = asked(capsys, "--measured", str(path), *QUICK[1:], "--rate", "0.1")
    assert [each["gpu"] for each in found["plan"]] == ["this machine"]
    assert main(["bench", "passes", *words, "--rows", "1,2"]) == 0
    assert "per column" in capsys.readouterr().out


def test_the_worked_plan_is_of_the_command_that_the_documentation_shows() -> None:
    """Every radius and budget it names, on every GPU, with whatever a plan tells today."""
    found = json.loads((RESULTS / "plan-llada-8b.json").read_text(encoding="utf-8"))
    docs = (REPOSITORY / "docs" / "planning.md").read_text(encoding="utf-8")
    (shown,) = (line.split() for line in docs.splitlines() if "--figure plan.svg" in line)
    given = dict(zip(shown[2::2], shown[3::2], strict=True))
    assert (found["rate"], found["prompt"]) == (float(given["--rate"]), given["--prompt"])
    settings = [
        (gpu, float(radius), int(budget))
        for gpu in ("A100 80GB", "H100 SXM", "B200")
        for radius in given["--radius"].split(",")
        for budget in given["--budget"].split(",")
    ]
    told = [(each["gpu"], float(each["radius"]), each["budget"]) for each in found["all"]]
    assert told == settings
    for each in found["all"]:
        assert each["gpus"] * each["most"] >= found["rate"]


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (["--rate", "0"], "--rate takes requests per second"),
        (["--rate", "inf"], "--rate takes requests per second"),
        (["--prompt", "many"], "prompt takes a number of tokens"),
        (["--length", "9-3"], "length takes a number of tokens"),
        (
            ["--requests", "0"],
            "--requests takes a whole number from 1 to 20000, not 0.",
        ),
        (
            ["--requests", "999999"],
            "--requests takes a whole number from 1 to 20000",
        ),
        (["--gpus", "Z80"], "There is no GPU 'Z80' here. GPUs: RTX 4090"),
        (["--gpus", "H"], "There is no GPU 'H' here"),
        (["--gpus", "4090"], "There is no GPU '4090' here"),
        (["--budget", "0"], "for --budget: give whole numbers of at least 1"),
        (["--radius", "0.5"], "A radius is a number, at least 1, or inf, not 0.5"),
        (["--radius", "wide"], "for --radius: give numbers above 0, or inf"),
        (["--method", "wino"], "How many updates 'wino' takes is not known"),
        (["--method", "saber", "--radius", "8"], "saber has no radius"),
        (["--updates", "0.5"], "Give --updates and --refreshed together"),
        (["--updates", "0", "--refreshed", "0.1"], "updates takes updates per token"),
        (["--updates", "1", "--refreshed", "0.1", "--radius", "8"], "leave one of them out"),
        (["--shape", "gpt"], "There is no shape 'gpt'"),
        (["--shape", "llada2-mini"], "llada2-mini attends block by block"),
        (["--efficiency", "0"], "--efficiency takes a fraction"),
        (["--row-ms", "-1"], "--pass-ms and --row-ms take milliseconds"),
        (["--in-time", "2"], "--in-time takes a fraction"),
        (["--p99", "-1"], "--p99 takes seconds above 0"),
        (["--p99", "0.1"], "cannot end within 0.1 s"),
        (["--measured", "/nowhere.json"], "cannot be read"),
        (["--file", "/nowhere.jsonl"], "cannot be read"),
        (["--prompt", "9999"], "need 10255 positions, but the model has 4096"),
        (["--prompt", "9999999"], "none above 131072, not '9999999'"),
        ([*QUICK[1:], "--rate", "1e300"], "and plans end at 16384"),
        (["--figure", "/nowhere/plan.svg"], "/nowhere/plan.svg cannot be written"),
        (
            ["--figure", "/"],
            "/ cannot be written (Is a directory). Name a file in a folder that exists",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], phrase: str, capsys: Capture) -> None:
    assert main(["plan", *words]) == 2
    assert phrase in " ".join(capsys.readouterr().err.split())


def test_a_file_of_requests_may_be_a_pipe(tmp_path: Path, capsys: Capture) -> None:
    """Which has nothing to say a second time."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    request = b'{"prompt": 64, "length": 16}'
    writer = threading.Thread(target=pipe.write_bytes, args=(request,), daemon=True)
    writer.start()
    (best,) = asked(capsys, "--file", str(pipe), "--rate", "2", "--gpus", "H100")["plan"]
    writer.join()
    assert best["requests"] == 1


def test_a_repeated_option_is_named_when_it_is_refused(capsys: Capture) -> None:
    assert main(["plan", "--radius", "4", "--radius", "x"]) == 2
    assert "Invalid value for --radius: give numbers above 0" in capsys.readouterr().err
