"""`archer lm-eval`: the harness's own command line, with the model `archer`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import archer
from archer.cli import main
from support.folders import make_llada

Capture = pytest.CaptureFixture[str]

TASK = """
task: echo
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: generate_until
doc_to_text: "{{{{text}}}}"
doc_to_target: "{{{{text}}}}"
generation_kwargs:
  until: ["z"]
  max_gen_toks: 8
metric_list:
  - metric: exact_match
"""
START = "import sys; from archer.cli import main; sys.exit(main(sys.argv[1:]))"


def test_everything_is_passed_on_and_errors_come_back(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    pytest.importorskip("lm_eval", reason="the lm-evaluation-harness is not installed")
    from lm_eval.api.registry import get_model

    seen: list[str] = []

    def cli_evaluate() -> None:
        seen.extend(sys.argv)
        get_model("archer")(pretrained="./none", radious=8)

    monkeypatch.setattr("lm_eval.__main__.cli_evaluate", cli_evaluate)
    before = sys.argv
    for _ in range(2):
        assert main(["lm-eval", "run", "--model", "archer", "--tasks", "a,b"]) == 2
    assert seen == ["lm_eval", "run", "--model", "archer", "--tasks", "a,b"] * 2
    assert sys.argv is before
    assert "does not use the setting 'radious'" in capsys.readouterr().err
    assert get_model("dummy").__name__ == "DummyLM"


def harness(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, without the network, with caches in the folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(archer.__file__).parents[1]),
        "HF_HOME": str(folder / "cache"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
    }
    command = [sys.executable, "-c", START, "lm-eval", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_harness_writes_its_own_files(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval", reason="the lm-evaluation-harness is not installed")
    model = make_llada(tmp_path / "tiny", tokenizer=True)
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "one"}\n{"text": "two"}\n')
    (tmp_path / "echo.yaml").write_text(TASK.format(data=data))
    out = tmp_path / "out"
    chosen = ("--model", "archer", "--model_args", f"pretrained={model},method=archer,radius=8")
    task = ("--tasks", "echo", "--include_path", str(tmp_path))
    done = harness(tmp_path, "run", *chosen, *task, "--output_path", str(out), "--log_samples")
    assert done.returncode == 0, done.stderr
    assert "|echo " in done.stdout
    [samples] = out.rglob("samples_echo_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [row["doc"]["text"] for row in rows] == ["one", "two"]
    assert all(isinstance(row["resps"][0][0], str) for row in rows)
    [results] = out.rglob("results_*.json")
    assert json.loads(results.read_text())["config"]["archer_method"] == "archer"
