"""Completions: what the tally adds up, the figures derived from it, and the history that is kept."""

import copy
import json
import math
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from archer.decoders.base import Decision
from archer.engine.generate import Stream
from archer.errors import BadRequest, NonFinite
from archer.methods.build import build
from archer.model import Model, load
from archer.passes.canvas import Flags
from archer.request.fill import Fill
from archer.results.completion import Completion, History, Seconds, Tally, add
from archer.results.language import Language
from archer.results.step import REMASKED, Call, Kind, Step, StepRecord
from archer.results.trace import End, Start, Update, retold, states, updates
from support.folders import make_llada
from support.networks import backbone
from support.pairs import prompts_of, together

MASK = 9
ENDING = Language("ids alone", MASK, eos=(7,), ends=frozenset({7, 8}))


def step(
    before: list[list[int]],
    after: list[list[int]],
    calls: list[Call],
    *,
    rows: tuple[int, ...] = (0,),
    control: float = 0.0,
    errors: dict[int, NonFinite] | None = None,
) -> Any:
    """The parts of a step that a tally reads: whatever changed to a token was accepted."""
    wrote = (np.array(before) != np.array(after)) & (np.array(after) != MASK)
    wrote = wrote.reshape(len(rows), -1)
    reached = np.array(after).reshape(len(rows), -1)
    decision = Decision(
        accepted=wrote,
        replaced=np.zeros_like(wrote),
        remasked=np.zeros_like(wrote),
        threshold=np.full(len(rows), np.nan),
        tokens=reached,
        confidence=np.where(wrote, 0.5, np.nan),
    )
    return SimpleNamespace(
        decision=decision,
        record=StepRecord(
            rows,
            rows,
            reached,
            (width := reached.shape[1]),
            (width,) * len(rows),
            tuple(calls),
            decision,
        ),
        rows=rows,
        calls=calls,
        control=control,
        errors=errors or {},
        before=SimpleNamespace(
            prompt=SimpleNamespace(mask=MASK, ends=(7, 8)),
            response=(right := np.array(before).reshape(len(rows), -1)),
            placed=right != MASK,
        ),
        after=SimpleNamespace(response=reached, result=reached.__getitem__),
    )


def call(kind: Kind, seconds: float = 0.0) -> Call:
    return Call(kind, fed=0, distance=0, seconds=seconds)


def completion(**changes: Any) -> Completion:
    figures: dict[str, Any] = {
        "text": "hi",
        "tokens": (1, 2, 3, 4, 5, 6),
        "finish_reason": "length",
        "updates": 8,
        "full_passes": 1,
        "cached_passes": 3,
        "reused_passes": 4,
        "revised_positions": 2,
        "revised_text": 1,
        "prompt_tokens": 7,
        "seconds": Seconds(full=0.5, cached=0.25, control=0.125),
    }
    return Completion(**figures | changes)


def test_passes_and_seconds_are_added_by_kind_and_control_is_shared() -> None:
    tallies = {0: Tally(), 1: Tally()}
    first, second = [call(Kind.FULL, 2.0), call(Kind.FULL, 3.0)], call(Kind.CACHED, 1.0)
    add(tallies, step([[MASK], [MASK]], [[1], [MASK]], first, rows=(0, 1), control=0.5))
    later = [second, call(Kind.REUSED)]
    add(tallies, step([[1], [MASK]], [[1], [2]], later, rows=(0, 1), control=0.5))
    add(tallies, step([[2]], [[2]], [call(Kind.CACHED, 4.0)], rows=(1,), control=0.5))
    short, long = (tally.complete(3) for tally in tallies.values())
    assert (short.full_passes, short.cached_passes, short.reused_passes) == (1, 1, 0)
    assert (long.full_passes, long.cached_passes, long.reused_passes) == (1, 1, 1)
    assert (short.updates, long.updates) == (2, 3)
    assert short.seconds == Seconds(full=2.0, cached=1.0, control=0.5)
    assert long.seconds == Seconds(full=3.0, cached=4.0, control=1.0)
    assert (short.tokens, long.tokens) == ((1,), (2,))
    assert (short.prompt_tokens, long.prompt_tokens) == (3, 3)


def test_a_position_is_revised_once_however_often_it_changes() -> None:
    """Taken back or replaced counts; filling a mask does not, nor does keeping a token."""
    walk = [
        [MASK, MASK, MASK, MASK],
        [1, 2, MASK, MASK],
        [MASK, 3, MASK, MASK],
        [4, 3, MASK, 5],
        [MASK, 3, 6, 5],
        [7, 3, 6, 5],
    ]
    tallies = {0: Tally()}
    for before, after in pairwise(walk):
        add(tallies, step([before], [after], [call(Kind.FULL)]))
    assert tallies[0].complete(1).revised_positions == 2
    assert tallies[0].complete(1).revised_text == 2


def test_end_marks_that_are_taken_back_are_no_text() -> None:
    """Whatever comes instead: what counts is the token that went."""
    walk = [[1, 7, 8, MASK], [7, MASK, 8, MASK], [7, 2, 3, 4]]
    tallies = {0: Tally()}
    for before, after in pairwise(walk):
        add(tallies, step([before], [after], [call(Kind.FULL)]))
    done = tallies[0].complete(1)
    assert (done.revised_positions, done.revised_text) == (3, 1)


@pytest.mark.parametrize(
    ("tokens", "reason"), [([1, 2, 3], "length"), ([1, 7, 3], "stop"), ([8, 8, 8], "stop")]
)
def test_the_finish_reason_says_whether_an_end_was_written(tokens: list[int], reason: str) -> None:
    done = ENDING.completion(Tally(response=np.array(tokens), updates=1), 1)
    assert done.finish_reason == reason
    assert done.tokens == tuple(tokens)
    assert done.error is None


def test_a_failed_row_returns_nothing_but_the_error() -> None:
    tallies = {0: Tally(), 1: Tally()}
    add(tallies, step([[MASK], [MASK]], [[7], [7]], [call(Kind.FULL)] * 2, rows=(0, 1)))
    error = NonFinite(update=2, kind="cached")
    add(tallies, step([[7]], [[7]], [call(Kind.CACHED)], rows=(0,), errors={1: error}))
    fine, failed = (ENDING.completion(tally, 1) for tally in tallies.values())
    assert fine.finish_reason == "stop"
    assert failed.finish_reason == "error"
    assert failed.tokens == ()
    assert failed.text is None
    assert failed.error == str(error)
    assert (failed.updates, failed.full_passes, failed.cached_passes) == (1, 1, 0)


def test_a_row_that_never_ran_is_an_error_not_an_empty_answer() -> None:
    assert Tally().complete(1).finish_reason == "error"


def test_figures_of_nothing_are_nothing() -> None:
    nothing = completion(updates=0, full_passes=0, cached_passes=0, reused_passes=0, tokens=())
    assert (nothing.refresh_fraction, nothing.tokens_per_forward) == (0.0, 0.0)


def test_a_completion_is_plain_data_with_derived_figures() -> None:
    plain = completion().to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["seconds"] == {"full": 0.5, "cached": 0.25, "control": 0.125, "total": 0.875}
    assert plain["tokens"] == [1, 2, 3, 4, 5, 6]
    assert (plain["refresh_fraction"], plain["tokens_per_forward"]) == (0.125, 1.5)


@pytest.mark.parametrize("name", ["saber+archer:3", "confidence+archer:3", "confidence+age:2"])
def test_the_tally_of_a_real_run_adds_up(name: str) -> None:
    """full + cached + reused = updates, with idle updates at the end of a schedule."""
    net = backbone()
    length = 8
    settings = {"length": length} | ({"steps": 12} if "confidence" in name else {})
    method = build(name, settings)
    prompts = prompts_of([[1, 2, 3], [4, 5]], net.mask)
    states = [method.decoder.start(prompt, length) for prompt in prompts]
    steps = list(together(net.network, method, states))
    tallies = {0: Tally(), 1: Tally()}
    for each in steps:
        add(tallies, each)
    for row, tally in tallies.items():
        done = tally.complete(1)
        assert done.full_passes + done.cached_passes + done.reused_passes == done.updates
        assert done.updates == sum(row in each.rows for each in steps)
        assert done.full_passes >= 1
        assert len(done.tokens) == length
        assert net.mask not in done.tokens
        assert (done.reused_passes > 0) == (name == "confidence+archer:3")
    spent = sum(tally.complete(1).seconds.total for tally in tallies.values())
    measured = sum(each.control + sum(c.seconds for c in each.calls) for each in steps)
    assert spent == pytest.approx(measured)


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
    assert [retold(row, each.history, 12) for row, each in enumerate(done)] == said
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
        assert end.completion == json.loads(json.dumps(done.to_dict(provenance=False)))


def test_a_copy_leaves_the_tokenizer_behind(model: Model) -> None:
    """A completion can be sent to another process; it is shown as text there, and says why."""
    (done,) = model.generate(PROMPTS[0], length=12)
    sent = copy.deepcopy(done)
    assert sent == done
    assert sent.to_dict() == done.to_dict()
    assert "<iframe" not in sent._repr_html_()
    with pytest.raises(BadRequest, match="does not know its request"):
        sent.trace()


def test_a_history_is_small(model: Model) -> None:
    """Bytes per change and update, not objects: thousands of completions are kept at a time."""
    (done,) = model.generate(PROMPTS[0], length=12)
    made = sum(len(moment.changes) for moment in done.history)
    assert done.history.changes.nbytes == 17 * made
    assert replace(done, history=History.of([])) == done


@pytest.mark.parametrize("method", ["saber", "remdm", "llada-confidence", "editing"])
def test_states_are_what_every_update_left(method: str) -> None:
    """Rebuilt from what changed, against the responses of the steps themselves."""
    model = load("pocket", device="cpu")
    stream = model.stream([5, 6, 7, 8], method, length=12)
    mask = model.folder.mask
    wanted = [
        tuple(None if token == mask else token for token in step.after.response[0].tolist())
        for step in stream
    ]
    (done,) = stream.finish()
    assert list(done.states()) == [(None,) * 12, *wanted]
    assert wanted[-1] == done.tokens
    for at, update in enumerate(done.written_at):
        assert wanted[update - 1][at] == done.tokens[at]
        assert update == 1 or wanted[update - 2][at] != done.tokens[at]
    plain = done.to_dict(per_token=True)
    assert plain["written_at"] == list(done.written_at)
    assert plain["confidences"] == list(done.confidences)
    assert plain["passes_per_token"] == done.passes_per_token
    assert "written_at" not in done.to_dict()


@pytest.mark.parametrize("parts", [("f(", ")\n"), ("a = ", " # one\nb = ", "\n")], ids=["1", "2"])
def test_states_of_gaps_are_those_of_the_whole_response_without_what_was_given(
    parts: tuple[str, ...],
) -> None:
    lengths = [6] * (len(parts) - 1)
    (done,) = load("pocket", device="cpu").generate(Fill(parts), "saber", length=lengths)
    given = [at for at, token in enumerate(done.given) if token is not None]
    state: list[int | None] = [None] * len(done.given)
    wanted = []
    for moment in [None, *done.history]:
        for change in () if moment is None else moment.changes:
            gone = change["what"] & REMASKED
            state[change["at"]] = None if gone else int(change["token"])
        wanted.append(tuple(token for at, token in enumerate(state) if at not in given))
    assert list(done.states()) == wanted
    assert wanted[-1] == done.tokens
    long = replace(done, given=done.given + (5,) * 20_000)
    began = time.process_time()
    assert list(long.states()) == wanted
    assert time.process_time() - began < 1, "what is given is looked at once, not for every state"
