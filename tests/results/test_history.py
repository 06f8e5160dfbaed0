"""What a completion keeps of its updates is what the steps said, and makes the player of a notebook."""

import copy
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from archer.engine.stream import Stream
from archer.errors import BadRequest
from archer.model import Model, load
from archer.passes.canvas import Flags
from archer.results.completion import History
from archer.results.step import Step
from archer.results.trace import End, Start, Update, retold, states, updates
from support.folders import make_llada

PROMPTS = [[5, 7, 9, 4], [3, 8]]
METHODS = ["archer", "llada-confidence", "wino+archer:4", "editing", "remdm", "fast-dllm-parallel"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(make_llada(tmp_path_factory.mktemp("llada"), tokenizer=True), device="cpu")


def twin(step: Step[Any]) -> list[Update]:
    """The events of a step, read off its arrays position by position."""
    return [row_twin(step, index) for index in range(len(step.rows))]


def row_twin(step: Step[Any], index: int) -> Update:
    decision, call, wanted = step.decision, step.calls[index], range(step.after.wanted)

    def known(value: float) -> float | None:
        return value if math.isfinite(value) else None

    def at_all(flags: Flags) -> list[dict[str, Any]]:
        return [
            {
                "at": at,
                "token": int(decision.tokens[index, at]),
                "confidence": known(float(decision.confidence[index, at])),
            }
            for at in wanted
            if flags[index, at]
        ]

    taken = at_all(decision.remasked)
    return Update.model_validate(
        {
            "row": step.rows[index],
            "update": step.after.updates[index],
            "call": call.kind.value,
            "fed": call.fed,
            "distance": call.distance,
            "accepted": at_all(decision.accepted),
            "replaced": at_all(decision.replaced),
            "remasked": [each["at"] for each in taken],
            "doubts": [each["confidence"] for each in taken],
            "threshold": known(float(decision.threshold[index])),
            "seconds": call.seconds,
        }
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_history_tells_what_the_steps_said(model: Model, method: str) -> None:
    settings: dict[str, Any] = {"edit": 0.99} if method == "editing" else {}
    stream = Stream(model, model.request(PROMPTS, method, length=12, **settings))
    said: list[list[Update]] = [[] for _ in PROMPTS]
    for step in stream:
        assert updates(step.record) == twin(step)
        for event in twin(step):
            said[event.row].append(event)
    done = stream.finish()
    assert [retold(row, each.history) for row, each in enumerate(done)] == said
    assert [len(each.history) for each in done] == [each.updates for each in done]


def test_every_completion_can_be_watched(model: Model) -> None:
    """Those of `generate`, with samples that differ, as well as those of `stream`."""
    found = model.generate(PROMPTS, length=12, n=2, temperature=1.0)
    found += model.stream(PROMPTS, length=12).finish()
    for done in found:
        start, *made, end = done.trace().events
        assert isinstance(start, Start)
        assert isinstance(end, End)
        *_, last = states(start, [event for event in made if isinstance(event, Update)])
        assert tuple(last) == done.tokens
        assert len(start.prompts[0]) == done.prompt_tokens
        assert end.completion == json.loads(json.dumps(done.as_dict()))


def test_a_copy_leaves_the_tokenizer_behind(model: Model) -> None:
    """A completion can be sent to another process; it is shown as text there, and says why."""
    (done,) = model.generate(PROMPTS[0], length=12)
    sent = copy.deepcopy(done)
    assert sent == done
    assert sent.as_dict() == done.as_dict()
    assert "<iframe" not in sent._repr_html_()
    with pytest.raises(BadRequest, match="does not know its request"):
        sent.trace()


def test_a_history_is_small(model: Model) -> None:
    """Bytes per change and update, not objects: thousands of completions are kept at a time."""
    (done,) = model.generate(PROMPTS[0], length=12)
    made = sum(len(moment.changes) for moment in done.history)
    assert done.history.changes.nbytes == 17 * made
    assert replace(done, history=History.of([])) == done
