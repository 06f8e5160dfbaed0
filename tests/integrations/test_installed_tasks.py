"""The harness's own tasks that need log-likelihoods, as they are installed, on a few rows of our own."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from support.folders import make_llada

pytest.importorskip("lm_eval", reason="the lm-evaluation-harness is not installed")

import lm_eval.tasks
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

from archer.integrations.lm_eval import ArcherLM

INSTALLED = Path(lm_eval.tasks.__file__).parent
SPLITS = ("train", "validation", "test", "dev")
ROWS: dict[str, dict[str, Any]] = {
    "arc/arc_easy.yaml": {
        "question": "What is cold?",
        "choices": {"text": ["ice", "fire"], "label": ["A", "B"]},
        "answerKey": "A",
    },
    "hellaswag/hellaswag.yaml": {
        "activity_label": "Tea",
        "ctx_a": "A pot is filled.",
        "ctx_b": "she",
        "endings": ["pours it.", "[title] eats it."],
        "label": "0",
    },
    "mmlu/default/mmlu_anatomy.yaml": {
        "question": "How many lungs?",
        "choices": ["one", "two", "six", "ten"],
        "answer": 1,
    },
    "piqa/piqa.yaml": {
        "goal": "Open a door.",
        "sol1": "Turn the knob.",
        "sol2": "Sing.",
        "label": 0,
    },
    "winogrande/default.yaml": {
        "sentence": "The cup was in the box because _ was small.",
        "option1": "the cup",
        "option2": "the box",
        "answer": "1",
    },
    "lambada/lambada_openai.yaml": {"text": "She poured the tea into the cup"},
    "wikitext/wikitext.yaml": {"page": " = Tea = \n Tea is a drink , and it is hot . \n"},
}
RIGHT = {
    "arc_easy": (2, 0),
    "hellaswag": (2, 0),
    "mmlu_anatomy": (4, 1),
    "piqa": (2, 0),
    "default": (2, 0),
}
"""How many answers each row has, and which is right."""


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> ArcherLM:
    folder = make_llada(tmp_path_factory.mktemp("model") / "tiny", tokenizer=True, seed=3)
    return ArcherLM(str(folder), device="cpu", by="one-step")


@pytest.mark.thinned(3)
@pytest.mark.parametrize("place", ROWS)
def test_an_installed_task_gets_log_likelihoods(
    place: str, lm: ArcherLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)
    installed = INSTALLED / place
    name = f"local_{installed.stem}"
    data = tmp_path / "rows.jsonl"
    data.write_text(2 * f"{json.dumps(ROWS[place])}\n")
    local = {
        "include": str(installed),
        "task": name,
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": dict.fromkeys(SPLITS, str(data))},
    }
    own = tmp_path / "tasks"
    own.mkdir()
    (own / f"{name}.yaml").write_text(json.dumps(local))
    manager = TaskManager(include_path=str(own), include_defaults=False)
    found = simple_evaluate(lm, tasks=[name], task_manager=manager, bootstrap_iters=0)
    result = found["results"][name]
    first, second = found["samples"][name]
    values = [answer[0] for answer in first["resps"]]
    assert values == [answer[0] for answer in second["resps"]]
    if installed.stem == "wikitext":
        assert float(values[0]) < 0
        assert result["word_perplexity,none"] > 1
        return
    scores = [float(value) for value, _ in values]
    assert all(score < 0 for score in scores)
    if installed.stem == "lambada_openai":
        assert result["perplexity,none"] == pytest.approx(math.exp(-scores[0]))
        return
    count, right = RIGHT[installed.stem]
    assert len(scores) == count
    assert result["acc,none"] == float(scores.index(max(scores)) == right)
