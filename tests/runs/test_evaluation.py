"""A run: complete, resumed, refused, disturbed; always the same results or a clear error."""

import errno
import hashlib
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from archer.errors import ArcherError, BadRequest, BadRun, DiskFault
from archer.judge import Verdict
from archer.methods.build import Choice
from archer.model import Model, load
from archer.pages.trajectory import trajectories
from archer.runs import decoding, evaluation
from archer.runs.evaluation import evaluate
from archer.runs.executors.dispatch import _item
from archer.runs.executors.worker import Item
from archer.runs.folder import JOURNAL, MANIFEST, SAMPLES, SUMMARY, TRACES, read_recorded
from archer.runs.journal import Journal
from archer.runs.manifest import RunRequest, check_gap, model_identity
from archer.runs.selection import Selection, parse_shard, parse_subset
from archer.tasks import Data, Sample, grading, open_task
from runs.toy import Disturbed, Quiet, Stop, Toy, results, toy_model, toy_request
from support.folders import make_a2d, make_llada, write_adapter

pytestmark = pytest.mark.usefixtures("one_judge")


@pytest.fixture
def copied(unbroken: Path, tmp_path: Path) -> Path:
    return shutil.copytree(unbroken, tmp_path / "run")


def test_a_run_completes_and_grades_every_problem_once(model: Model, tmp_path: Path) -> None:
    heard = Quiet()
    outcome = evaluate(toy_request(model), tmp_path / "run", heard)
    recorded = read_recorded(tmp_path / "run")
    assert heard.total == len(heard.samples) == len(heard.grades) == Toy.size
    assert set(recorded.samples) == set(recorded.grades) == set(map(str, range(Toy.size)))
    assert outcome.unjudged == ()
    assert json.loads((tmp_path / "run" / SUMMARY).read_text()) == outcome.summary.plain()


def test_the_summary_is_what_the_journal_says(unbroken: Path) -> None:
    recorded = read_recorded(unbroken)
    summary = json.loads((unbroken / SUMMARY).read_text())
    texts = [len(record.completion) for record in recorded.samples.values()]
    assert summary["task"] == "toy"
    assert summary["n"] == Toy.size
    assert summary["complete"] is True
    assert summary["pass@1"] == sum(length % 2 == 0 for length in texts) / len(texts)
    assert summary["pass@1_extended"] == sum(length % 4 == 0 for length in texts) / len(texts)
    assert summary["pass@1_as_published"] == sum(length % 2 for length in texts) / len(texts)
    assert 0 < summary["pass@1"] < 1, "verdicts must differ for these tests to mean something"
    low, high = summary["pass@1_interval"]
    assert low < summary["pass@1"] < high
    passes = sum(summary[f"{kind}_passes"] for kind in ("full", "cached", "reused"))
    assert summary["updates"] == passes
    assert summary["refresh_fraction"] == summary["full_passes"] / summary["updates"]
    assert summary["per_problem"]["updates"] == summary["updates"] / Toy.size
    assert summary["seconds"] > 0


def test_samples_have_the_harness_form(unbroken: Path) -> None:
    recorded = read_recorded(unbroken)
    lines = [json.loads(line) for line in (unbroken / SAMPLES).read_text().splitlines()]
    assert [line["doc_id"] for line in lines] == list(range(Toy.size))
    for line in lines:
        done = recorded.samples[str(line["doc_id"])]
        assert line["resps"] == [[done.completion]]
        assert line["filtered_resps"] == [
            Toy(Data()).extract(done.completion, Toy(Data()).samples()[0], "repaired")
        ]
        prompt = line["arguments"]["gen_args_0"]["arg_0"]
        assert prompt.endswith("<|end_header_id|>\n\nWell,")
        assert line["prompt_hash"] == hashlib.sha256(prompt.encode()).hexdigest()
        assert line["metrics"] == ["pass@1", "pass@1_extended"]
        assert line["pass@1"] == float(len(done.completion) % 2 == 0)


def test_the_manifest_says_what_was_given_and_what_was_defaulted(unbroken: Path) -> None:
    manifest = json.loads((unbroken / MANIFEST).read_text())
    identity, around = manifest["identity"], manifest["circumstances"]
    assert identity["method"]["settings"]["eos"] == "none"
    assert identity["method"]["settings"]["temperature"] == 1.0
    assert around["given"]["settings"] == {"length": 6, "temperature": 1.0}
    assert len(identity["model"]["files"]["model.safetensors"]) == 64
    assert identity["model"]["dtype"] == "float32"
    assert around["judge"]["tier"] in set("ABCDEF")
    assert around["packages"]["torch"] == torch.__version__
    assert around["shards"] == 1


@pytest.mark.parametrize("after", [1, 5, Toy.size])
def test_an_interrupted_run_goes_on(
    model: Model, unbroken: Path, tmp_path: Path, after: int
) -> None:
    with pytest.raises(Stop):
        evaluate(toy_request(model), tmp_path / "run", Disturbed(after))
    heard = Quiet()
    evaluate(toy_request(model), tmp_path / "run", heard)
    assert len(heard.samples) == Toy.size - after
    assert results(tmp_path / "run") == results(unbroken)


def test_a_finished_run_is_left_as_it_is(model: Model, copied: Path) -> None:
    before = (copied / JOURNAL).read_bytes()
    heard = Quiet()
    outcome = evaluate(toy_request(model), copied, heard)
    assert not heard.samples
    assert not heard.grades
    assert outcome.summary.complete
    assert (copied / JOURNAL).read_bytes() == before


def test_traces_are_kept_of_the_first_problems(
    model: Model, unbroken: Path, tmp_path: Path
) -> None:
    evaluate(toy_request(model, traces=2), tmp_path / "run", Quiet())
    assert results(tmp_path / "run") == results(unbroken)
    samples = read_recorded(unbroken).samples
    found = sorted((tmp_path / "run" / TRACES).iterdir())
    assert [path.name for path in found] == ["00000.jsonl", "00001.jsonl"]
    for key, path in zip("01", found, strict=True):
        (trajectory,) = trajectories(path)
        assert trajectory.completion is not None
        assert trajectory.completion["tokens"] == samples[key].tokens
        assert len(trajectory.updates) == samples[key].updates


@pytest.mark.parametrize("batch", [3, 8])
def test_batches_give_the_same_completions(
    model: Model, unbroken: Path, tmp_path: Path, batch: int
) -> None:
    evaluate(toy_request(model, batch=batch), tmp_path / "run", Quiet())
    assert results(tmp_path / "run") == results(unbroken)


def test_two_threads_give_the_same_completions(
    model: Model, unbroken: Path, tmp_path: Path
) -> None:
    torch.set_num_threads(2)
    try:
        evaluate(toy_request(model), tmp_path / "run", Quiet())
    finally:
        torch.set_num_threads(1)
    assert results(tmp_path / "run") == results(unbroken)


def test_selections_take_their_part_and_no_other(
    model: Model, unbroken: Path, tmp_path: Path
) -> None:
    whole = read_recorded(unbroken).samples
    chosen = Selection(("2", "3", "5", "7"), limit=3, shard=(2, 2))
    evaluate(toy_request(model, selection=chosen), tmp_path / "run", Quiet())
    found = read_recorded(tmp_path / "run").samples
    assert set(found) == {"3"}
    assert found["3"].tokens == whole["3"].tokens


def test_shards_cover_every_problem_once() -> None:
    samples = Toy(Data()).samples()
    parts = [Selection(shard=(i, 5)).of(samples) for i in range(1, 6)]
    assert sorted(int(each.id) for part in parts for each in part) == list(range(Toy.size))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"settings": {"length": 7, "temperature": 1.0}}, "method.settings.length: 6, now 7"),
        ({"method": "saber"}, "method.name"),
        ({"seed": 1}, "seed: 0, now 1"),
        ({"chat": False}, "prompts.chat: true, now false"),
        ({"batch": 2}, "batch: 1, now 2"),
        ({"selection": Selection(limit=4)}, "selection.limit: null, now 4"),
    ],
)
def test_other_settings_do_not_continue_a_run(
    model: Model, copied: Path, changes: dict[str, Any], named: str
) -> None:
    before = (copied / JOURNAL).read_bytes()
    with pytest.raises(BadRun, match="holds a run with other settings") as caught:
        evaluate(toy_request(model, **changes), copied, Quiet())
    assert named in str(caught.value)
    assert (copied / JOURNAL).read_bytes() == before


def test_an_adapter_is_needed_to_continue_its_run(tmp_path: Path) -> None:
    """And a run without one is not continued with one, nor with another weight of the same."""
    folder = make_llada(tmp_path / "model", tokenizer=True)
    adapter = write_adapter(tmp_path / "a", {"model.transformer.blocks.0.q_proj": (32, 32)})
    out = tmp_path / "run"

    def request(*adapters: str) -> RunRequest:
        return toy_request(load(folder, device="cpu", dtype="float32", adapter=adapters))

    with pytest.raises(Stop):
        evaluate(request(str(adapter)), out, Disturbed(5))
    before = (out / JOURNAL).read_bytes()
    for others in ((), (f"{adapter}@0.5",), (str(adapter), str(adapter))):
        with pytest.raises(BadRun, match=r"other settings .*model\.adapters"):
            evaluate(request(*others), out, Quiet())
    assert (out / JOURNAL).read_bytes() == before
    heard = Quiet()
    evaluate(request(str(adapter)), out, heard)
    assert len(heard.samples) == Toy.size - 5
    without = tmp_path / "without"
    evaluate(request(), without, Quiet())
    with pytest.raises(BadRun, match=r"model\.adapters"):
        evaluate(request(str(adapter)), without, Quiet())


def test_another_family_does_not_continue_a_run(tmp_path: Path) -> None:
    """The files are the same; what a column sees is not."""
    folder = make_a2d(tmp_path / "model")
    found = {
        str(model_identity(load(folder, device="cpu", family=family), files=False))
        for family in ("a2d-qwen3", "a2d-qwen3-bd3lm", "opdlm")
    }
    assert len(found) == 3


def test_another_model_does_not_continue_a_run(copied: Path, tmp_path: Path) -> None:
    other = toy_model(tmp_path / "other")
    weights = other.folder.path / "tokenizer_config.json"
    weights.write_bytes(weights.read_bytes() + b"\n")
    with pytest.raises(BadRun, match=r"model\.files\.tokenizer_config\.json"):
        evaluate(toy_request(other), copied, Quiet())


def test_a_folder_of_other_things_is_left_alone(model: Model, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(BadRun, match="holds other files and no run"):
        evaluate(toy_request(model), tmp_path, Quiet())
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(BadRun, match="is a file, not a folder"):
        evaluate(toy_request(model), tmp_path / "thesis.tex", Quiet())


@pytest.mark.parametrize("name", [MANIFEST, JOURNAL, SUMMARY, "lock"])
def test_a_read_only_disk_is_named(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = os.open

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if Path(path).name.startswith(name):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, *rest, **more)

    def refuse_file(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if path.name.startswith(name) and mode == "wb":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real_open(path, mode, *rest, **more)

    real_open = Path.open
    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(Path, "open", refuse_file)
    with pytest.raises(DiskFault, match="Read-only file system"):
        evaluate(toy_request(model), tmp_path / "run", Quiet())


@pytest.mark.parametrize("at", [1, 4, 9, 24])
def test_a_full_disk_ends_the_run_and_loses_nothing(
    model: Model, unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    real, count = Journal.append, iter(range(1, 1000))
    acknowledged: list[str] = []

    def append(self: Journal, record: Any) -> None:
        if next(count) == at:
            raise DiskFault.of(tmp_path, OSError(errno.ENOSPC, "No space left on device"))
        real(self, record)
        acknowledged.append(f"{record['event']} {record['id']}")

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "append", append)
        with pytest.raises(DiskFault, match="No space left"):
            evaluate(toy_request(model), tmp_path / "run", Quiet())
    kept = read_recorded(tmp_path / "run")
    kinds = (("sample", kept.samples), ("grade", kept.grades))
    assert sorted(acknowledged) == sorted(f"{kind} {key}" for kind, all in kinds for key in all)
    evaluate(toy_request(model), tmp_path / "run", Quiet())
    assert results(tmp_path / "run") == results(unbroken)


def test_a_fault_of_the_judge_is_no_verdict(
    model: Model, unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = grading.judged

    def sometimes(judge: Any, plan: Any) -> Any:
        row = real(judge, plan)
        if plan.id != 3:
            return row
        return type(row)(row.id, Verdict("harness_error", "broken"), row.published)

    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "judged", sometimes)
        outcome = evaluate(toy_request(model), tmp_path / "run", Quiet())
    assert outcome.unjudged == ("3",)
    assert outcome.summary.complete is False
    assert outcome.summary.scores["pass@1"].value is None
    assert outcome.summary.graded == Toy.size - 1
    assert evaluate(toy_request(model), tmp_path / "run", Quiet()).unjudged == ()
    assert results(tmp_path / "run") == results(unbroken)


def test_a_failing_pass_names_the_problem(tmp_path: Path) -> None:
    broken = toy_model(tmp_path / "broken")
    assert broken.text is not None
    (five,) = broken.text.encode_raw("5")
    broken.network.embedding.data[five] = float("nan")
    with pytest.raises(ArcherError, match=r"Problem 5: .*NaN"):
        evaluate(toy_request(broken), tmp_path / "run", Quiet())
    assert set(read_recorded(tmp_path / "run").samples) == set("01234")


def test_what_cannot_be_asked_is_refused_first(model: Model, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"Problem 0: .* positions"):
        evaluate(toy_request(model, settings={"length": 5000}), tmp_path / "run", Quiet())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("rule", "lengths"),
    [("oracle", [16, 10]), ("fixed", [6, 6]), ("9", [9, 9]), ("delete", [64, 64])],
)
def test_gaps_are_filled_by_the_rule_of_the_run(
    tmp_path: Path, rule: str, lengths: list[int]
) -> None:
    """On the bundled model, whose tokenizer the gaps were cut for."""
    task = open_task("pocket-infill-line")
    request = RunRequest(
        load("pocket"),
        task,
        Choice("llada-confidence", {"length": 6}),
        gap=rule,
        selection=Selection(limit=2),
    )
    outcome = evaluate(request, tmp_path / "run", Quiet())
    done = read_recorded(tmp_path / "run").samples
    assert [len(each.tokens) for each in done.values()] == lengths
    assert outcome.summary.measures == {"gap": {"tokens": sum(lengths) / 2, "probed_columns": 0.0}}
    assert set(outcome.summary.scores) == {"pass@1", "pass@1_extended", "exact_match"}
    manifest = json.loads((tmp_path / "run" / MANIFEST).read_text())
    assert manifest["identity"]["gap"] == rule


def test_a_search_counts_what_it_computed(tmp_path: Path) -> None:
    task, chosen = open_task("pocket-infill-line"), Selection(limit=1)
    request = RunRequest(
        load("pocket"),
        task,
        Choice("llada-confidence", {"length": 6}),
        gap="search",
        selection=chosen,
    )
    evaluate(request, tmp_path / "run", Quiet())
    (done,) = read_recorded(tmp_path / "run").samples.values()
    assert done.probed_columns > len(done.tokens)


def test_what_a_gap_gives_reaches_a_worker() -> None:
    request = RunRequest(
        load("pocket"),
        open_task("pocket-infill-span"),
        Choice("saber", {"length": 8}),
        gap="oracle",
    )
    samples = request.task.samples()[:3]
    prompts = decoding.encode(request, samples)
    for sample in samples:
        item = _item(request, sample, prompts, {})
        sent = Item.of(json.loads(json.dumps(asdict(item))))
        assert sent == item
        assert sent.gap == decoding.gap_of(request, sample, prompts[str(sample.id)])
        assert sample.infill is not None
        assert sent.gap is not None
        assert sent.gap[0] == sample.infill.suffix


def test_a_rule_for_gaps_that_is_none_is_refused() -> None:
    assert [check_gap(rule) for rule in ("oracle", "16")] == ["oracle", "16"]
    for rule in ("0", "-3", "long", "", "1.5", "9" * 9):
        with pytest.raises(
            BadRequest, match="The length of a gap is oracle, fixed, search, delete or"
        ):
            check_gap(rule)


class Raw(Toy):
    """Its prompts are texts as they stand, without a chat."""

    def samples(self) -> list[Sample]:
        return [Sample(0, (), "2 + 2 =", {})]


def test_a_problem_without_messages_is_its_prefix(model: Model) -> None:
    request = toy_request(model, task=Raw(Data()))
    prompts = decoding.encode(request, request.task.samples())
    assert decoding.shown_prompt(request, prompts["0"]) == "2 + 2 ="


def test_a_benchmark_needs_a_tokenizer(model: Model, tmp_path: Path) -> None:
    bare = Model(model.source, model.folder, model.network, None)
    with pytest.raises(BadRequest, match="has no tokenizer"):
        evaluate(toy_request(bare), tmp_path / "run", Quiet())


@pytest.mark.parametrize(
    ("chat", "text"), [(False, "Say something about 0.\n\nWell,"), (True, "assistant\n\nWell,")]
)
def test_a_prefix_follows_the_template_or_the_text_itself(
    model: Model, chat: bool, text: str
) -> None:
    request = toy_request(model, chat=chat)
    prompts = decoding.encode(request, request.task.samples()[:1])
    assert request.model.text is not None
    prompt = request.model.text.decode(prompts["0"])
    assert prompt.endswith(text)
    assert chat or prompt == text


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Selection(limit=0), "The limit must be a number above 0"),
        (lambda: Selection(shard=(0, 4)), "The shard 0/4 is not a share"),
        (lambda: Selection(shard=(5, 4)), "The shard 5/4 is not a share"),
        (lambda: parse_shard("half"), "is a share such as 1/4"),
        (lambda: Selection(("1", "1")), "twice"),
        (lambda: Selection(("77",)).of(Toy(Data()).samples()), "no problem '77'.*0, 1, 2"),
        (lambda: Selection(("1",), shard=(2, 2)).of(Toy(Data()).samples()), "No problem is left"),
    ],
)
def test_impossible_selections_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        make()


def test_selections_are_read_from_the_command_line() -> None:
    assert parse_subset(" a, 7 ,") == ("a", "7")
    assert parse_subset(None) == ()
    assert parse_shard("2/4") == (2, 4)
    assert parse_shard(None) is None
