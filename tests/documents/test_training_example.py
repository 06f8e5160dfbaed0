"""`examples/grpo_pocket.py`: its gradient is that of the decoder in use, and it can be resumed."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from archer.errors import ArcherError
from archer.judge import Judge
from archer.model import load
from archer.results.completion import Completion
from archer.tasks.registry import open_task

REPOSITORY = Path(__file__).resolve().parents[2]
TINY = {"problems": 2, "samples": 3, "states": 1, "evaluated": 2, "drawn": 1}
PROMPT = "Write a function to add all numbers in nums.\nassert solve([1, 2]) == 3\ndef solve(nums):"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(REPOSITORY / "examples" / "grpo_pocket.py"))


def arguments(out: Path, **changes: int) -> list[str]:
    pairs = (TINY | changes).items()
    return [part for name, value in pairs for part in (f"--{name}", str(value))] + [f"--out={out}"]


def test_the_gradient_is_that_of_the_decoder_in_use(
    example: dict[str, Any], tmp_path: Path
) -> None:
    """Its log-probabilities add up to a replay, and drawn updates stand for all of them."""
    model = load("pocket", device="cpu")
    trainer = example["Trainer"](model.save(tmp_path / "pocket"))
    how: dict[str, Any] = {"method": "entropy", "steps": 6, "temperature": 0.8}
    (done,) = model.generate(PROMPT, **how, length=12, seed=3)
    rollout = example["Rollout"](model.encode(PROMPT), done, 1.0)
    updates = sorted(set(done.written_at))
    with torch.no_grad():
        found = example["log_probabilities"](
            trainer, [(rollout, each, 1.0) for each in updates], 0.8
        )
    (wanted,) = model.score(PROMPT, list(done.tokens), "replay", **how)
    assert wanted.written_at == done.written_at
    assert float(found.sum()) == pytest.approx(wanted.log_likelihood, abs=1e-3)

    class EachOnce:
        def choices(self, doubted: list[int], weights: list[float], k: int) -> list[int]:
            self.shares = [weight / sum(weights) for weight in weights]
            return doubted

    draw = EachOnce()
    chosen = rollout.looks(1, draw)
    assert sorted(update for _, update, _ in chosen) == updates
    for (_, _, times), share in zip(chosen, draw.shares, strict=True):
        assert times * share == pytest.approx(1.0), "on average each update counts once"


def test_the_best_of_a_group_are_preferred(example: dict[str, Any]) -> None:
    model = load("pocket", device="cpu")
    done = model.generate(PROMPT, "entropy", length=4, steps=4, temperature=1.0, n=4)
    (problem, *_) = open_task("pocket-dev").samples()
    grouped = example["grouped"]
    rollouts = grouped(model, [problem] * 4, done, [1.0, 0.0, 1.0, 1.0], 2)
    assert [each.advantage for each in rollouts] == [0.5, -0.5]
    assert rollouts[0].done is done[0]


def test_a_program_that_passes_all_tests_is_rewarded(example: dict[str, Any]) -> None:
    task: Any = open_task("pocket")
    samples = [*task.samples()[:2], task.samples()[0]]
    texts = [samples[0].row["body"], "\n    return None", samples[0].row["body"]]
    done = [replace(Completion.failed(ArcherError("")), text=text) for text in texts]
    with Judge(task.limits, workers=1) as judge:
        assert example["solved"](judge, task, samples, done) == [1.0, 0.0, 1.0]


@pytest.mark.slow
def test_a_training_that_was_ended_goes_on_as_if_it_had_not_been(
    example: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With short programs, every second of which is taken for right."""
    main, scope = example["main"], example["improve"].__globals__
    monkeypatch.setitem(scope, "GREEDY", {"method": "llada-confidence", "length": 4})
    monkeypatch.setitem(scope, "SAMPLED", {"method": "entropy", "length": 6, "steps": 3})
    monkeypatch.setitem(
        scope, "solved", lambda judge, task, asked, done: [at % 2.0 for at in range(len(asked))]
    )
    once = main(arguments(tmp_path / "once", steps=2))
    assert ["pass@1" in record for record in once] == [True, False, False, True]
    assert [each["version"] for each in once[1:3]] == [1, 2]
    assert once[2]["rate"] == once[1]["next_rate"]
    assert once[1]["moved"] > 0
    assert once[1]["away"] == pytest.approx(0, abs=1e-5), "nothing has been learnt yet"
    main(arguments(tmp_path / "twice", steps=1))
    twice = main(arguments(tmp_path / "twice", steps=2))
    ends = [load_file(tmp_path / name / "trainer-2.safetensors") for name in ("once", "twice")]
    assert ends[0].keys() == ends[1].keys()
    for name, tensor in ends[0].items():
        assert torch.equal(tensor, ends[1][name]), name
    assert twice[-1]["solved"] == once[-1]["solved"]
    kept = json.loads((tmp_path / "once" / "grpo.json").read_text())
    assert kept["records"] == once
    assert kept["machine"]["cpu"]
    with pytest.raises(SystemExit, match="other settings"):
        main(arguments(tmp_path / "once", steps=2, seed=1))
    assert len(capsys.readouterr().out.splitlines()) == 4 + 3 + 2


def test_the_picture_is_that_of_the_record() -> None:
    script = runpy.run_path(str(REPOSITORY / "docs" / "picture_grpo.py"))
    kept = script["TARGET"].read_text(encoding="utf-8")
    assert script["drawing"]() == kept, "run `python docs/picture_grpo.py`"
