"""The lm-evaluation-harness really driving a tiny checkpoint on a task of its own, offline."""

import json
import tomllib
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch

import archer
from archer.errors import ArcherError, BadRequest
from archer.model import Model
from support.folders import make_llada

pytest.importorskip("lm_eval", reason="the lm-evaluation-harness is not installed")

from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.registry import Registry
from lm_eval.tasks import TaskManager

from archer.integrations.lm_eval import ArcherLM

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
LENGTH = 16
QUESTIONS = [f"How many apples are {number} apples?" for number in range(5)]
TASK = """
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: {kind}
doc_to_text: "{{{{question}}}}\\n"
doc_to_target: "{{{{answer}}}}"
{options}
metadata:
  version: 1
"""
GENERATES = """
generation_kwargs:
  until: ["z", "Q"]
  max_gen_toks: 16
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
"""
CHOOSES = """
doc_to_choice: ["yes", "no"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_llada(tmp_path_factory.mktemp("model") / "tiny", tokenizer=True, seed=3)


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return archer.load(folder, device="cpu")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("tasks")
    rows = [{"question": text, "answer": str(n)} for n, text in enumerate(QUESTIONS)]
    data = where / "questions.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, kind, options in (
        ("counting", "generate_until", GENERATES),
        ("choosing", "multiple_choice", CHOOSES),
    ):
        text = TASK.format(name=name, kind=kind, data=data, options=options)
        (where / f"{name}.yaml").write_text(text)
    return where


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)


def evaluate(tasks: Path, task: str, lm: ArcherLM, **options: Any) -> dict[str, Any]:
    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    found: dict[str, Any] = simple_evaluate(
        lm, tasks=[task], task_manager=manager, bootstrap_iters=0, **options
    )
    return found


def expected(model: Model, prompts: list[str], **settings: Any) -> list[str]:
    """The naive twin: one prompt after the other, cut by hand."""
    texts = []
    for prompt in prompts:
        (done,) = model.generate(
            prompt, "archer", chat=False, allow_special=True, length=LENGTH, **settings
        )
        assert done.text is not None
        texts.append(done.text.split("z")[0].split("Q")[0])
    return texts


@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_harness_gets_what_the_model_writes(
    folder: Path, model: Model, tasks: Path, batch_size: int
) -> None:
    lm = ArcherLM(str(folder), device="cpu", batch_size=batch_size, radius=4)
    found = evaluate(tasks, "counting", lm)
    samples = sorted(found["samples"]["counting"], key=lambda sample: sample["doc_id"])
    assert [sample["doc"]["question"] for sample in samples] == QUESTIONS
    assert [sample["arguments"][0][0] for sample in samples] == [f"{q}\n" for q in QUESTIONS]
    texts = [sample["resps"][0][0] for sample in samples]
    assert texts == expected(model, [f"{q}\n" for q in QUESTIONS], radius=4)
    assert any(texts)
    assert found["results"]["counting"]["exact_match,none"] == 0.0
    assert found["config"]["archer_settings"]["radius"] == 4
    assert found["config"]["model_device"] == "cpu"


def test_the_folders_chat_template_is_used(folder: Path, model: Model, tasks: Path) -> None:
    lm = ArcherLM(str(folder), device="cpu")
    found = evaluate(tasks, "counting", lm, apply_chat_template=True, limit=2)
    samples = sorted(found["samples"]["counting"], key=lambda sample: sample["doc_id"])
    prompts = [sample["arguments"][0][0] for sample in samples]
    assert [model.encode(prompt, chat=False, allow_special=True) for prompt in prompts] == [
        model.encode(f"{question}\n") for question in QUESTIONS[:2]
    ]
    assert [sample["resps"][0][0] for sample in samples] == expected(model, prompts)


def test_multiple_choice_ranks_by_the_estimate(folder: Path, model: Model, tasks: Path) -> None:
    lm = ArcherLM(str(folder), device="cpu", by="elbo", draws=8, seed=2)
    found = evaluate(tasks, "choosing", lm)
    samples = sorted(found["samples"]["choosing"], key=lambda sample: sample["doc_id"])
    assert len(samples) == len(QUESTIONS)
    for sample in samples:
        for (context, continuation), (answer,) in zip(
            sample["arguments"], sample["resps"], strict=True
        ):
            value, greedy = answer
            ids = model.encode(context.rstrip(), chat=False, allow_special=True)
            whole = model.encode(context + continuation, chat=False, allow_special=True)
            (wanted,) = model.score(ids, whole[len(ids) :], "elbo", draws=8, seed=2)
            assert float(value) == pytest.approx(wanted.log_likelihood, abs=1e-4)
            assert str(greedy) == "False"
    assert "acc,none" in found["results"]["choosing"]
    assert found["config"]["archer_likelihood"]["draws"] == 8


def instances(kind: str, *arguments: tuple[str, ...]) -> list[Instance]:
    return [Instance(kind, {}, each, number) for number, each in enumerate(arguments)]


def test_a_greedy_continuation_is_what_decoding_writes(folder: Path, model: Model) -> None:
    lm = ArcherLM(str(folder), device="cpu", by="confidence")
    ids = model.encode("Count: ".rstrip(), chat=False)
    (done,) = model.generate(ids, "confidence", length=3)
    pairs = [(ids, list(done.tokens)), (ids, [5, 6, 7]), (ids, list(done.tokens)[:2])]
    first, second, third = lm._greedy(pairs)
    assert (first, second) == (True, False)
    (shorter,) = model.generate(ids, "confidence", length=2)
    assert third is (shorter.tokens == done.tokens[:2])


def test_both_contracts_of_log_likelihoods(folder: Path, model: Model) -> None:
    lm = ArcherLM(str(folder), device="cpu", by="confidence")
    asked = instances("loglikelihood", ("Two and two", " four"), ("", "four"), ("  ", "four"))
    found = lm.loglikelihood(asked, disable_tqdm=True)
    assert [(type(value), type(greedy)) for value, greedy in found] == [(float, bool)] * 3
    assert all(value < 0 for value, _ in found)
    eos = model.folder.eos[0]
    four = model.encode("four", chat=False)
    (alone,) = model.score([eos], four, "confidence")
    assert found[1][0] == pytest.approx(alone.log_likelihood, abs=1e-4)
    texts = instances("loglikelihood_rolling", ("four",), ("x" * 600,))
    short, long = lm.loglikelihood_rolling(texts, disable_tqdm=True)
    assert short == pytest.approx(found[1][0], abs=1e-4)
    assert isinstance(long, float)
    assert lm.loglikelihood([]) == []
    assert lm.loglikelihood_rolling([]) == []


def test_a_long_text_is_scored_in_windows(
    folder: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = ArcherLM(str(folder), device="cpu", by="one-step")
    seen: list[tuple[list[int], list[int]]] = []

    def scores(pairs: Any, quiet: bool) -> list[float]:
        seen.extend(pairs)
        return [-1.0] * len(pairs)

    monkeypatch.setattr(lm, "_scores", scores)
    most = model.folder.shape.max_positions
    text = "x" * (2 * most + 5)
    (found,) = lm.loglikelihood_rolling(instances("loglikelihood_rolling", (text,)))
    assert found == -len(seen)
    assert len(seen) > 2
    assert [id for _, own in seen for id in own] == model.encode(text, chat=False)
    assert all(len(context) + len(own) <= most for context, own in seen)


def test_a_model_without_an_end_of_text_needs_a_context(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = ArcherLM(str(folder), device="cpu")
    monkeypatch.setattr(lm._model, "folder", replace(lm._model.folder, eos=()))
    with pytest.raises(BadRequest, match="names no end of text"):
        lm.loglikelihood(instances("loglikelihood", ("", "four")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pretrained": None}, "pretrained=FOLDER_OR_HUB_ID"),
        ({"method": "archr"}, "There is no method 'archr'"),
        ({"radious": 8}, "does not use the setting 'radious'"),
        ({"radius": -1}, "radius must be"),
        ({"batch_size": "auto"}, "a number above 0, not 'auto'"),
        ({"batch_size": 0}, "a number above 0, not 0"),
        ({"max_batch_size": 8}, "does not use the setting 'max_batch_size'"),
        ({"dtype": "float8"}, "no dtype 'float8'"),
        ({"device": "warp"}, "The device 'warp' cannot be used"),
        ({"preset": "fast"}, "no preset 'fast'"),
        ({"max_gen_toks": 0}, "length must be"),
    ],
)
def test_mistakes_in_model_args_are_refused(
    folder: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        ArcherLM(**({"pretrained": str(folder)} | arguments))


def request(prompt: str, **kwargs: Any) -> Instance:
    return Instance("generate_until", {}, (prompt, kwargs), 0, ("task", 0, 1))


def test_requests_are_all_checked_before_the_first_is_decoded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = ArcherLM(str(folder), device="cpu", length=LENGTH)
    monkeypatch.setattr(lm, "_decode", lambda *asked: pytest.fail("work was started"))
    with pytest.raises(BadRequest, match="Shorten the prompt or the length"):
        lm.generate_until([request("a"), request("b" * 600)], disable_tqdm=True)
    with pytest.raises(BadRequest, match="does not use the setting 'top_p'"):
        lm.generate_until([request("a"), request("b", top_p=0.9)], disable_tqdm=True)


def test_the_length_of_a_task_goes_before_that_of_the_model(folder: Path) -> None:
    lm = ArcherLM(str(folder), device="cpu", max_gen_toks=4)
    lengths = []

    def decode(request: Any, stops: tuple[str, ...]) -> list[str]:
        lengths.append((request.method.length, len(request.prompts)))
        return ["text"] * len(request.prompts)

    lm._decode = decode  # type: ignore[method-assign]
    asked = [request("a"), request("b", max_gen_toks=8), request("c", max_gen_toks=8)]
    assert lm.generate_until(asked, disable_tqdm=True) == ["text"] * 3
    assert lengths == [(4, 1), (8, 1), (8, 1)]


def test_a_response_that_failed_stops_the_run(folder: Path) -> None:
    lm = ArcherLM(str(folder), device="cpu", length=LENGTH)
    with torch.no_grad():
        for parameter in lm._model.network.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(ArcherError, match="could not be decoded"):
        lm.generate_until([request("a")], disable_tqdm=True)


def test_an_unfinished_answer_is_left_open(folder: Path) -> None:
    lm = ArcherLM(str(folder), device="cpu")
    asked = {"role": "user", "content": "Count."}
    begun = lm.apply_chat_template(
        [asked, {"role": "assistant", "content": "One,"}], add_generation_prompt=False
    )
    assert begun == lm.apply_chat_template([asked]) + "One,"


def test_templates_and_names_for_the_harness(folder: Path, tmp_path: Path) -> None:
    lm = ArcherLM(str(folder), device="cpu")
    assert lm.chat_template(True) == lm.chat_template("default")
    assert "start_header_id" in lm.chat_template(True)
    assert lm.tokenizer_name == str(folder).replace("/", "__")
    with pytest.raises(BadRequest, match="no chat template 'rag'"):
        lm.chat_template("rag")
    bare = ArcherLM(str(make_llada(tmp_path / "bare", tokenizer=True, template=False)))
    with pytest.raises(BadRequest, match="Leave --apply_chat_template out"):
        bare.chat_template(True)
    mute = ArcherLM(str(make_llada(tmp_path / "mute")))
    with pytest.raises(BadRequest, match="has no tokenizer"):
        mute.apply_chat_template([])


def test_the_devices_default_of_the_harness_means_the_best_there_is(folder: Path) -> None:
    best = archer.load(folder).network.device
    assert ArcherLM(str(folder), device="cuda:0").device == best


def test_the_entry_point_leads_to_the_model() -> None:
    declared = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    registry: Registry[Any] = Registry("model")
    for name, value in declared["lm_eval.models"].items():
        registry.register(name, target=EntryPoint(name, value, "lm_eval.models"))
    assert registry.get("archer") is ArcherLM
