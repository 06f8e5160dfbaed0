"""What one request may make in a pass: samples are spread over requests, and what never fits is refused."""

from typing import Any

import pytest

import archer
from archer.engine import footprint, job
from archer.engine.footprint import logits_bytes
from archer.engine.handle import Listener
from archer.engine.job import MOST_SAMPLES, samples_together
from archer.errors import BadRequest
from archer.model import Model
from archer.results.step import Step
from archer.structure import constraint
from archer.structure.constraint import Constraint

HOT: dict[str, Any] = {"length": 8, "temperature": 1.0, "seed": 3}
PROMPTS = [[3, 1, 4], [1, 5], [3, 1, 4]]


@pytest.fixture(scope="module")
def pocket() -> Model:
    return archer.load("pocket", device="cpu", dtype="float32")


@pytest.mark.parametrize("together", [1, 2, 3])
def test_samples_say_the_same_however_they_are_spread(
    model: Model, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    expected = model.generate(PROMPTS, "llada-confidence", n=5, **HOT)
    monkeypatch.setattr(job, "MOST_LOGITS", together * logits_bytes(model.network, 8))
    request = model.request([3, 1, 4], "llada-confidence", **HOT)
    assert samples_together(model.network, request) == together
    got = model.generate(PROMPTS, "llada-confidence", n=5, **HOT)
    assert [each.tokens for each in got] == [each.tokens for each in expected]
    assert [each.provenance for each in got] == [each.provenance for each in expected]
    assert len({each.tokens for each in got}) > 5


def test_samples_that_leave_nothing_to_chance_are_one(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "MOST_LOGITS", 1)
    assert samples_together(model.network, model.request([3, 1], "saber", length=8)) == MOST_SAMPLES
    assert samples_together(model.network, model.request([3, 1], "saber", **HOT)) == 1


def test_logits_that_there_is_no_room_for_are_refused_before_a_pass(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = logits_bytes(model.network, 8)
    monkeypatch.setattr(footprint, "available", lambda: 2 * 3 * each)
    engine = model.engine(memory=10**9)
    assert engine.submit([3, 1], "saber", n=3, **HOT).results()
    with pytest.raises(BadRequest, match=r"makes logits of .*Ask for at most 3 samples at a time"):
        engine.submit([3, 1], "saber", n=4, **HOT)
    with pytest.raises(
        BadRequest, match=r"Shorten the response, or decode it in blocks by a method "
    ):
        engine.submit([3, 1], "saber", **HOT | {"length": 25})
    blocks = HOT | {"length": 64, "block": 8}
    assert engine.submit([3, 1], "llada-confidence", **blocks).results()
    with pytest.raises(BadRequest, match="there is room for"):
        engine.submit([3, 1], "saber", **blocks)


class Widest(Listener):
    """The most columns that were read in one pass."""

    columns = 0

    def stepped(self, step: Step[Any]) -> None:
        read = sum(len(row.places) for row in step.logits.rows)
        self.columns = max(self.columns, read)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("saber", {}),
        ("saber", {"block": 8}),
        ("saber", {"canvas": "append", "block": 8}),
        ("saber", {"canvas": "auto", "start_length": 8, "eos": "logits"}),
        ("llada-confidence", {"block": 8}),
        ("llada-confidence", {"canvas": "auto", "start_length": 8, "eos": "logits"}),
        ("wino", {"block": 8}),
        ("remdm", {}),
    ],
)
def test_no_pass_reads_more_than_was_counted_for_it(
    pocket: Model, method: str, settings: dict[str, Any]
) -> None:
    engine, widest = pocket.engine(), Widest()
    request = pocket.request([[5, 6, 7]], method, length=32, settings=settings)
    job = engine.prepared(request, listener=widest)
    engine.take(job).results()
    assert 0 < widest.columns <= job.most_read <= 32
    if "append" not in settings.values():
        assert widest.columns == job.most_read


def test_updates_of_constrained_samples_are_bounded_together(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot: dict[str, Any] = {**HOT, "regex": "[a-z]{1,8}"}
    expected = pocket.generate("a", "saber", n=4, **hot)
    (form,) = pocket.request("a", "saber", **hot).prompts
    assert isinstance(form.constraint, Constraint)
    monkeypatch.setattr(constraint, "MOST_CELLS", 3 * form.constraint._size(8))
    assert form.constraint.together(8) == 3
    engine = pocket.engine()
    with pytest.raises(BadRequest, match=r"n = 4 drawn samples .* At most 3 fit"):
        engine.submit("a", "saber", n=4, **hot)
    assert len(engine.submit("a", "saber", n=3, **hot).results()) == 3
    got = pocket.generate("a", "saber", n=4, **hot)
    assert [each.text for each in got] == [each.text for each in expected]
