"""How probable a model finds a text: an estimator's looks at it run like any other request.

Axes: G tokens of the text, P prompt columns, U different looks, D draws.

A look masks some tokens of the text and reads how probable each of them is where it belongs.  An estimator
says what to mask and how to weigh what is read.  What is drawn depends on the seed, the prompt and the number
of the draw alone: two texts after one prompt are looked at alike, and neither depends on what else runs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from archer.decoders.base import HOST, Decoder
from archer.decoders.fill_path import FillPath, path_of
from archer.decoders.given_text import Looks, Replayed, Scored, SurestFirst
from archer.engine.engine import Engine
from archer.engine.generate import AHEAD, Samples, completed
from archer.engine.handle import Listener
from archer.engine.job import Options, check_count
from archer.errors import ArcherError, BadRequest, Incompatible, quoted
from archer.methods.build import Method, resolve
from archer.network.shape import Blocks
from archer.passes import noise
from archer.passes.canvas import Flags, Reals, Scope
from archer.policies.prompt_cache import Archer, Eager
from archer.request.fill import Fill
from archer.request.prepare import encoded
from archer.request.request import Form, Request, Window, as_list, check_ids
from archer.results.completion import Completion
from archer.results.score import By, TextScore
from archer.score.estimators import Plan, coupled, elbo, one_step

if TYPE_CHECKING:
    from archer.model import Model
    from archer.request.request import Prompts
    from archer.results.step import Step

DRAWS: Mapping[str, int] = {"elbo": 128, "one-step": 1, "coupled": 1}
"""By default; the others draw nothing."""
MOST_DRAWS = 100_000
ROWS = 8
"""Looks at one text that are taken at the same time."""
REPLAYED = "entropy"
"""The decoder that is followed where none is named."""


@dataclass(frozen=True)
class Scoring:
    """How texts are to be scored, checked."""

    by: By
    draws: int
    seed: int
    prompt_mask: float
    """Share of the prompt's tokens that `one-step` masks."""
    cached: bool
    """Compute the prompt once for all looks at a text."""
    method: Method | None
    """What `replay` follows."""

    def method_for(
        self, form: Form, text: tuple[int, ...], model: Model
    ) -> tuple[Method, Plan | None]:
        """The method that writes this text, and the plan of its looks."""
        if self.by == "replay":
            assert self.method is not None
            method = resolve(self.method, {"length": len(text)})
            return _named(self, Replayed.around(method.decoder, text), method.policy, text), None
        if self.by == "confidence":
            return _named(self, SurestFirst(text), self._policy, text), None
        plan = self._plan(form, text, model)
        hidden, unseen = self._rows(plan)
        return _named(self, Looks(text, hidden, unseen), self._policy, text), plan

    @property
    def _policy(self) -> Archer | Eager:
        return Archer(radius=math.inf) if self.cached else Eager()

    def _plan(self, form: Form, text: tuple[int, ...], model: Model) -> Plan:
        keys = model.language.prompt(form, self.seed, self.draws).keys

        def uniform(draw: int, count: int) -> Reals:
            made = noise.uniform(noise.stream(keys[draw], 0, HOST, "look"), count).numpy()
            return np.asarray(made)

        prompt, unmasked = len(form.prefix), np.zeros(len(form.prefix), dtype=np.bool_)
        blind = [unmasked] * self.draws
        if self.by == "one-step":
            draws = one_step(len(text), self.draws)
            if self.prompt_mask:
                blind = [uniform(each, prompt) < self.prompt_mask for each in range(self.draws)]
        else:
            rule = elbo if self.by == "elbo" else coupled
            count = self.draws // 2 if self.by == "elbo" else self.draws
            draws = rule(len(text), count, uniform)
            blind = blind[: len(draws)]
        return Plan.of(draws, blind)

    def _rows(self, plan: Plan) -> tuple[Flags, Flags]:
        """The looks dealt to rows, [B, U / B, ...].  Where the prompt is kept, a look at masks comes first.

        The prompt has then seen no token of the text: what it had seen would be told to every later look.
        """
        count, tokens = plan.hidden.shape
        rows = min(ROWS, count)
        each, first = -(-count // rows), int(self.cached)
        hidden = np.zeros((rows, first + each, tokens), dtype=np.bool_)
        unseen = np.zeros((rows, first + each, plan.unseen.shape[1]), dtype=np.bool_)
        hidden[:, :first] = True
        for look in range(count):
            place = look % rows, first + look // rows
            hidden[place], unseen[place] = plan.hidden[look], plan.unseen[look]
        return hidden, unseen


def _named(scoring: Scoring, decoder: Decoder[Any], policy: Any, text: Sequence[int]) -> Method:
    settings = {"by": scoring.by, "draws": scoring.draws, "length": len(text)}
    return Method(decoder, policy, len(text), f"score-{scoring.by}", settings)


def scoring(
    model: Model,
    by: By,
    draws: Any,
    seed: int,
    *,
    cached: bool,
    prompt_mask: Any,
    method: str | Method | None,
    preset: str | None,
    settings: Mapping[str, Any],
) -> Scoring:
    """Refuse what no score can be made of."""
    if by not in get_args(By):
        raise BadRequest(
            f"There is no estimator {quoted(by)}. Choose one of {', '.join(get_args(By))}."
        )
    for name, given, owner in (
        ("method", method, "replay"),
        ("preset", preset, "replay"),
        ("prompt_mask", prompt_mask, "one-step"),
        *((name, value, "replay") for name, value in settings.items()),
    ):
        if given is not None and by != owner:
            raise BadRequest(f"{name} belongs to by={owner!r}, and this is {by!r}. Leave it out.")
    usual = DRAWS.get(by, 0)
    if draws is not None and not usual:
        raise BadRequest(f"{by!r} draws nothing. Leave draws out.")
    number = usual if draws is None else draws
    if not isinstance(number, int) or (usual and not 1 <= number <= MOST_DRAWS):
        raise BadRequest(
            f"draws must be a whole number from 1 to {MOST_DRAWS}, not {quoted(draws)}."
        )
    if by == "elbo" and number % 2:
        raise BadRequest(
            f"The draws of 'elbo' come in pairs that balance each other: take {number + 1}, not {number}."
        )
    share = 0.15 if prompt_mask is None else prompt_mask
    if not (isinstance(share, int | float) and 0 <= share <= 1):
        raise BadRequest(f"prompt_mask must be a share from 0 to 1, not {quoted(prompt_mask)}.")
    if cached and by == "one-step":
        raise BadRequest("'one-step' takes one look at each prompt. There is nothing to keep.")
    if cached and by == "replay":
        raise BadRequest(
            "'replay' follows a method, which has a cache of its own: method=\"entropy+archer\"."
        )
    followed = None
    if by == "replay":
        followed = _followed(model, method, preset, settings)
    elif isinstance(model.folder.shape.attention, Blocks):
        raise Incompatible(
            f"This model attends block-causally: it was trained on one masked block behind others without a "
            f"mask, and {by!r} masks all over the text. Use by='replay' with a decoder for such models."
        )
    return Scoring(by, number, seed, float(share), bool(cached), followed)


def _followed(
    model: Model,
    method: str | Method | None,
    preset: str | None,
    settings: Mapping[str, Any],
) -> Method:
    """The method of a replay; refuses those under which a text has no probability that can be computed."""
    values = dict(settings)
    if not isinstance(method, Method):
        values = {"temperature": 1.0} | values
    usual = REPLAYED if preset is None else None
    followed = resolve(method or usual, values, preset, model.folder.recommended)
    decoder = followed.decoder
    if decoder.reads is not Scope.MASKS:
        raise Incompatible(
            f"{followed.name!r} takes tokens back or replaces them, so many paths lead to one text, and the "
            "probability of the text is the sum over all of them. Follow a decoder that keeps what it has "
            f"placed, such as {REPLAYED}."
        )
    if followed.settings.get("canvas", "fixed") != "fixed":
        raise Incompatible(
            "How many columns this method decodes depends on what it writes. Leave the length to the text."
        )
    path = path_of(decoder)
    if path is not FillPath.BY_STATE:
        raise Incompatible(
            f"Where {followed.name!r} fills masks depends on {path.value}, so many paths lead to one text. "
            "Follow a decoder whose order depends on the logits alone: entropy, margin, fixed-order, "
            "entropy-bound, or dream with alg=entropy."
        )
    if not decoder.draws or followed.settings.get("temperature", 1.0) == 0:
        raise Incompatible(
            f"At temperature 0 {followed.name!r} writes one text with certainty and no other. Give another "
            "one."
        )
    return followed


class _Reader(Listener):
    """Keeps what each update read, by row and number of the update."""

    restarts = True

    def __init__(self) -> None:
        self.read: dict[tuple[int, int], Reals] = {}
        self.columns = 0

    def admitted(self, request: Request) -> None:
        self.read.clear()
        self.columns = 0

    def stepped(self, step: Step[Any]) -> None:
        decision = step.decision
        assert isinstance(decision, Scored)
        for index, row in enumerate(step.rows):
            update = step.before.updates[index]
            self.read[row, update] = decision.log_probability[index]
        self.columns += sum(call.fed for call in step.calls)


@dataclass(frozen=True)
class _Text:
    """One text on its way through the engine."""

    form: Form
    tokens: tuple[int, ...]
    plan: Plan | None
    places: tuple[int, ...]
    """Of its rows among those of all texts."""
    reader: _Reader = field(default_factory=_Reader)

    def score(self, how: Scoring, completions: Sequence[Completion]) -> TextScore:
        done = [completions[place] for place in self.places]
        for each in done:
            if each.error is not None:
                raise ArcherError(f"A text could not be scored: {each.error}")
        read, rows = self.reader.read, len(done)
        if self.plan is None:
            each_token = np.nansum(np.stack(list(read.values())), axis=0)
            deviation: float | None = 0.0
        else:
            first = int(how.cached)
            count = len(self.plan.hidden)
            looks = [read[look % rows, first + look // rows] for look in range(count)]
            values = self.plan.values(np.stack(looks))
            each_token, deviation = values.mean(axis=0), _deviation(values.sum(axis=1))
        return TextScore(
            log_likelihood=float(each_token.sum()),
            standard_error=deviation,
            by=how.by,
            draws=how.draws,
            tokens=self.tokens,
            per_token=tuple(each_token.tolist()),
            prompt_tokens=len(self.form.prefix),
            updates=len(read),
            columns=self.reader.columns,
            seconds=sum(each.seconds.total for each in done),
            written_at=done[0].written_at if self.plan is None else (),
            weights_version=done[0].weights_version,
        )


def _deviation(values: Reals) -> float | None:
    """The standard error of the mean of independent draws; 0 where they cannot differ is 0 here, too."""
    if len(values) < 2:
        return None
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def scored_pairs(
    model: Model,
    prompts: Prompts,
    texts: str | Sequence[Any],
    *,
    chat: bool,
    allow_special: bool,
) -> list[tuple[Form, tuple[int, ...]]]:
    """Each text with its prompt, in ids; one of either goes with all of the others."""
    given, answers = as_list(prompts), as_list(texts)
    if any(isinstance(each, Fill) for each in (*given, *answers)):
        raise BadRequest("A text with gaps cannot be scored: give the prompt and the whole text.")
    if len(given) != len(answers) and 1 not in (len(given), len(answers)):
        raise BadRequest(
            f"There are {len(answers)} texts for {len(given)} prompts. Give one for each, or one for all."
        )
    before, behind = (
        encoded(each, model.name, model.text, chat=own, allow_special=allow_special)
        for each, own in ((given, chat), (answers, False))
    )
    folder = model.folder
    for ids in (*before, *behind):
        check_ids(ids, vocabulary=folder.shape.vocabulary, mask=folder.mask)
    window = Window.of(folder)
    pairs = []
    for at in range(max(len(before), len(behind))):
        prompt, text = before[at % len(before)], behind[at % len(behind)]
        window.check(len(prompt), len(text))
        pairs.append((Form(tuple(prompt)), tuple(text)))
    return pairs


def score(
    model: Model,
    pairs: Sequence[tuple[Form, tuple[int, ...]]],
    how: Scoring,
    *,
    batch: int | None = None,
    memory: int | None = None,
    progress: bool = False,
) -> list[TextScore]:
    """The score of each text after its prompt, in order; at most `batch` looks are taken at a time."""
    check_count("batch", batch)
    engine = Engine(model, memory=memory)
    texts: list[_Text] = []
    waiting: deque[Samples] = deque()
    place = 0
    for form, tokens in pairs:
        method, plan = how.method_for(form, tokens, model)
        rows = len(method.decoder.hidden) if isinstance(method.decoder, Looks) else 1
        text = _Text(form, tokens, plan, tuple(range(place, place := place + rows)))
        texts.append(text)
        request = Request(method, (form,), how.seed, model.language)
        waiting.append(Samples(request, text.places, rows, Options(n=rows), text.reader))
    columns = max(len(form.prefix) + len(tokens) for form, tokens in pairs)
    most = batch or max(1, AHEAD * engine.budget // columns)
    done = completed(engine, waiting, most, progress=progress)
    return [text.score(how, done) for text in texts]
