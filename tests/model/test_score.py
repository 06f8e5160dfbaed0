"""Scores of texts against naive loops, against sums over all texts, and against their own company."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from archer.decoders.fill_path import FillPath, path_of
from archer.decoders.given_text import AnsweredLogits
from archer.errors import BadRequest, Incompatible
from archer.methods.build import build
from archer.methods.catalogue import DECODERS
from archer.model import Model, load
from archer.network.differentiable import hidden_states
from archer.passes.canvas import Scope
from archer.passes.logits import Logits
from archer.request.fill import Fill
from archer.request.request import Form
from archer.results.score import TextScore
from archer.score import estimators
from archer.score import score as scoring
from support.folders import make_dream, make_llada, make_llada2

PROMPT = [5, 7, 11, 13, 9]
TEXT = (21, 40, 22, 23, 21)
ALL = ("elbo", "one-step", "coupled", "confidence", "replay")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = make_llada(tmp_path_factory.mktemp("llada"), tokenizer=True)
    return load(folder, device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def dream(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(make_dream(tmp_path_factory.mktemp("dream")), device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def sudoku() -> Model:
    """Of twenty tokens, so that all texts of two can be summed up."""
    return load("pocket-sudoku", device="cpu", dtype="float64")


@torch.no_grad()
def logits(model: Model, rows: Sequence[Sequence[int]]) -> Tensor:
    """[B, L] -> [B, L, V], aligned with the tokens that they score, by one plain pass."""
    network = model.network
    found = network.score(hidden_states(network, network.embed(torch.tensor(rows))))
    return found.roll(1, dims=1) if model.folder.shape.shift else found


def masked(model: Model, text: Sequence[int], hidden: Sequence[bool]) -> list[int]:
    pairs = zip(text, hidden, strict=True)
    return [model.folder.mask if away else token for token, away in pairs]


def looked(model: Model, text: Sequence[int], hidden: Sequence[bool]) -> Tensor:
    """[G]: the logarithm of each token's probability after one look."""
    found = logits(model, [[*PROMPT, *masked(model, text, hidden)]])[0, len(PROMPT) :]
    return found.log_softmax(-1).gather(1, torch.tensor(text)[:, None]).squeeze(1)


def plan_of(model: Model, by: Any, draws: int, seed: int = 0, text: Any = TEXT) -> estimators.Plan:
    how = scoring.scoring(
        model,
        by,
        draws,
        seed,
        cached=False,
        prompt_mask=None,
        method=None,
        preset=None,
        settings={},
    )
    _, plan = how.method_for(Form(tuple(PROMPT)), text, model)
    assert plan is not None
    return plan


def one(model: Model, by: Any, text: Sequence[int] = TEXT, **more: Any) -> TextScore:
    (found,) = model.score(PROMPT, list(text), by, **more)
    return found


def published_bound(model: Model, text: Sequence[int], looks: Sequence[Sequence[bool]]) -> float:
    """LLaDA's loop over a batch of looks: cross entropy of what is masked over the share that is."""
    rows = [[*PROMPT, *masked(model, text, hidden)] for hidden in looks]
    scores = logits(model, rows)
    goal = torch.tensor([[*PROMPT, *text]] * len(rows))
    away = torch.zeros_like(goal, dtype=torch.bool)
    away[:, len(PROMPT) :] = torch.tensor(np.array(looks))
    share = (
        away.double().sum(dim=1, keepdim=True)
        / len(text)
        * torch.ones(goal.shape, dtype=torch.float64)
    )
    loss = F.cross_entropy(scores[away], goal[away], reduction="none") / share[away]
    return float(-(loss.sum() / len(rows)))


@pytest.mark.parametrize("which", ["llada", "dream"])
def test_the_bound_is_what_the_published_loop_computes(
    which: str, model: Model, dream: Model
) -> None:
    chosen = model if which == "llada" else dream
    plan = plan_of(chosen, "elbo", 16)
    looks = [plan.hidden[look] for pair in plan.look for look in pair]
    assert len(looks) == 16
    assert len(plan.hidden) < 16, "looks that are the same are taken once"
    found = one(chosen, "elbo", draws=16)
    assert found.log_likelihood == pytest.approx(
        published_bound(chosen, TEXT, looks), rel=0, abs=1e-10
    )
    assert found.updates == len(plan.hidden)
    assert sum(found.per_token) == pytest.approx(found.log_likelihood, abs=1e-12)


def published_looks(tokens: int, batch: int, generator: torch.Generator) -> list[list[bool]]:
    """What the published loop masks in a batch: numbers of masks spread evenly, from a random one on."""
    first = int(torch.randint(1, tokens + 1, (), generator=generator))
    last = first + (batch - 1) * (tokens / batch)
    counts = torch.round(torch.linspace(float(first), last, steps=batch)).long()
    counts = (counts - 1) % tokens + 1
    found = []
    for count in counts.tolist():
        order = torch.randperm(tokens, generator=generator)
        found.append([bool(order[at] < count) for at in range(tokens)])
    return found


def every_look(model: Model, text: Sequence[int]) -> dict[tuple[bool, ...], float]:
    """What each look reads in all."""
    return {
        hidden: float((looked(model, text, hidden) * torch.tensor(hidden)).sum())
        for hidden in itertools.product((False, True), repeat=len(text))
        if any(hidden)
    }


def test_draws_have_the_expectation_of_the_published_ones(model: Model) -> None:
    text = TEXT[:4]
    read, tokens = every_look(model, text), len(text)

    def bound(looks: Sequence[Sequence[bool]]) -> float:
        each = [tokens / sum(hidden) * read[tuple(map(bool, hidden))] for hidden in looks]
        return sum(each) / len(each)

    exact = np.mean(
        [
            np.mean([tokens / k * value for hidden, value in read.items() if sum(hidden) == k])
            for k in range(1, tokens + 1)
        ]
    )
    generator = torch.Generator().manual_seed(0)
    theirs = [bound(published_looks(tokens, 8, generator)) for _ in range(400)]
    ours = []
    for seed in range(400):
        plan = plan_of(model, "elbo", 8, seed, text)
        ours.append(bound([plan.hidden[look] for pair in plan.look for look in pair]))
    for found in (ours, theirs):
        error = np.std(found, ddof=1) / math.sqrt(len(found))
        assert abs(np.mean(found) - exact) < 4.5 * error


@pytest.mark.parametrize("tokens", [1, 2, 3, 7])
@pytest.mark.parametrize("draws", [2, 4, 10])
def test_every_number_of_masks_is_equally_likely(tokens: int, draws: int) -> None:
    """On average over the draws, and in each half of a pair a mirror of the other."""
    generator = random.Random(tokens * draws)
    counts = np.zeros(tokens + 1)
    for _ in range(3000):
        found = estimators.elbo(
            tokens, draws // 2, lambda _, n: np.array([generator.random() for _ in range(n)])
        )
        for (first, weight), (second, _) in found:
            assert first.sum() + second.sum() == tokens + 1
            assert (first & second).sum() == 1
            assert weight.sum() == pytest.approx(tokens / 2)
            counts[first.sum()] += 1
            counts[second.sum()] += 1
    shares = counts[1:] / counts.sum()
    assert np.abs(shares - 1 / tokens).max() < 0.02


def pair_values(model: Model, text: Sequence[int]) -> tuple[float, float]:
    """Sums over two tokens: both masked, and each masked alone."""
    both = float(looked(model, text, (True, True)).sum())
    alone = float(looked(model, text, (True, False))[0] + looked(model, text, (False, True))[1])
    return both, alone


@pytest.mark.parametrize("which", ["tiny", "bundled"])
def test_expectations_for_two_tokens_are_exact(which: str, model: Model) -> None:
    """Each estimator over many seeds against its expectation, worked out by hand."""
    if which == "bundled":
        model = load("pocket", device="cpu", dtype="float64")
    text = TEXT[:2]
    both, alone = pair_values(model, text)
    wanted = {"elbo": (both + alone) / 2, "one-step": both, "coupled": both + alone / 2}
    read = {
        hidden: looked(model, text, hidden).numpy()
        for hidden in ((True, True), (True, False), (False, True))
    }
    for by, expected in wanted.items():
        found = []
        for seed in range(600):
            plan = plan_of(model, by, 2, seed, text)
            looks = np.stack([read[bool(one), bool(other)] for one, other in plan.hidden])
            found.append(plan.values(looks).sum(axis=1).mean())
        error = np.std(found, ddof=1) / math.sqrt(len(found))
        assert abs(np.mean(found) - expected) <= 4.5 * error + 1e-12, by
    assert one(model, "one-step", text, prompt_mask=0.0).log_likelihood == pytest.approx(
        both, abs=1e-10
    )
    often = one(model, "elbo", text, draws=4000)
    assert often.updates == 3
    assert abs(often.log_likelihood - wanted["elbo"]) < 4.5 * (often.standard_error or 0.0)


def test_the_weights_of_coupled_looks_add_up_to_three_halves(model: Model) -> None:
    """As published, so what it estimates is no likelihood but half as much again."""
    sums = [
        sum(weight.sum() for weight in plan_of(model, "coupled", 1, seed).weights) / len(TEXT)
        for seed in range(300)
    ]
    error = np.std(sums, ddof=1) / math.sqrt(len(sums))
    assert abs(np.mean(sums) - 1.5) < 4.5 * error


def enumerated(model: Model, method: str, temperature: float) -> dict[tuple[int, int], float]:
    """The probability of every text of two tokens under a decoder that fills one mask per update."""
    mask, prompt = model.folder.mask, [4, 5, 6]
    vocabulary = model.folder.shape.vocabulary
    tokens = [token for token in range(vocabulary) if token != mask]

    def read(response: Sequence[int]) -> Tensor:
        return logits(model, [[*prompt, *response]])[0, len(prompt) :]

    def drawn(scores: Tensor) -> Tensor:
        scores = scores.clone() / temperature
        scores[mask] = -torch.inf
        return scores.softmax(-1)

    first = read([mask, mask])
    if method == "entropy":
        chances = first.softmax(-1)
        spread = -(chances * chances.log()).sum(-1)
        place = int(spread.argmin())
    else:
        ranked = first.clone()
        ranked[:, mask] = -torch.inf
        best = ranked.topk(2).values.sub(first.logsumexp(-1, keepdim=True)).exp()
        place = int((best[:, 0] - best[:, 1]).argmax())
    found: dict[tuple[int, int], float] = {}
    chance = drawn(first[place])
    for token in tokens:
        response = [mask, mask]
        response[place] = token
        rest = drawn(read(response)[1 - place])
        for other in tokens:
            text = (token, other) if place == 0 else (other, token)
            found[text] = float(chance[token] * rest[other])
    return found


@pytest.mark.parametrize(("method", "temperature"), [("entropy", 1.0), ("margin", 0.7)])
def test_a_replay_is_the_probability_of_the_text(
    sudoku: Model, method: str, temperature: float
) -> None:
    table = enumerated(sudoku, method, temperature)
    assert sum(table.values()) == pytest.approx(1.0, abs=1e-10)
    texts = list(table)
    found = sudoku.score(
        [4, 5, 6], [list(text) for text in texts], "replay", method=method, temperature=temperature
    )
    for text, each in zip(texts, found, strict=True):
        assert math.exp(each.log_likelihood) == pytest.approx(table[text], rel=1e-8, abs=1e-300)
        assert each.standard_error == 0.0
    assert sum(math.exp(each.log_likelihood) for each in found) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
def test_a_replay_is_the_probability_of_the_text_on_the_bundled_model() -> None:
    model = load("pocket", device="cpu", dtype="float64")
    table = enumerated(model, "entropy", 1.0)
    assert sum(table.values()) == pytest.approx(1.0, abs=1e-10)
    texts = random.Random(0).sample(list(table), 200)
    found = model.score([4, 5, 6], [list(text) for text in texts], "replay")
    for text, each in zip(texts, found, strict=True):
        assert math.exp(each.log_likelihood) == pytest.approx(table[text], rel=1e-8, abs=1e-300)


def test_decoded_texts_come_as_often_as_a_replay_says(sudoku: Model) -> None:
    """What the decoder itself draws, against the probabilities of the likeliest texts."""
    done = sudoku.generate([4, 5, 6], "entropy", length=2, temperature=1.0, n=600)
    table = enumerated(sudoku, "entropy", 1.0)
    for text in sorted(table, key=lambda each: -table[each])[:5]:
        share = sum(each.tokens == text for each in done) / len(done)
        deviation = math.sqrt(table[text] * (1 - table[text]) / len(done))
        assert abs(share - table[text]) < 4.5 * deviation + 1e-9


def test_revealing_the_surest_first_is_what_illada_does(model: Model) -> None:
    hidden, total, order = [True] * len(TEXT), 0.0, [0] * len(TEXT)
    for update in range(len(TEXT)):
        read = looked(model, TEXT, hidden)
        best = max((at for at, away in enumerate(hidden) if away), key=lambda at: float(read[at]))
        total += float(read[best])
        hidden[best], order[best] = False, update + 1
    found = one(model, "confidence")
    assert found.log_likelihood == pytest.approx(total, abs=1e-10)
    assert found.written_at == tuple(order)


def test_one_step_masks_some_of_the_prompt(model: Model) -> None:
    plan = plan_of(model, "one-step", 6)
    assert 0 < plan.unseen.mean() < 0.6
    assert len(plan.hidden) == len({row.tobytes() for row in plan.unseen})
    goal = torch.tensor(TEXT)[:, None]
    values = []
    for (look,) in plan.look:
        prompt = masked(model, PROMPT, plan.unseen[look])
        scores = logits(model, [[*prompt, *[model.folder.mask] * len(TEXT)]])[0, len(PROMPT) :]
        values.append(float(scores.log_softmax(-1).gather(1, goal).sum()))
    found = one(model, "one-step", draws=6)
    assert found.log_likelihood == pytest.approx(np.mean(values), abs=1e-10)
    assert found.standard_error == pytest.approx(np.std(values, ddof=1) / math.sqrt(6), abs=1e-10)


@pytest.mark.parametrize("by", ALL)
def test_a_score_does_not_depend_on_its_company(model: Model, by: Any) -> None:
    texts = [list(TEXT), [30, 31], [40, 41, 42], list(TEXT[:3])]
    prompts = [PROMPT, [6, 7, 8], PROMPT, [9] * 9]
    together = model.score(prompts, texts, by, batch=7)
    for prompt, text, found in zip(prompts, texts, together, strict=True):
        (alone,) = model.score(prompt, text, by)
        assert found.log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-10)
        assert found.tokens == alone.tokens == tuple(text)


def test_a_cached_prompt_is_computed_once_and_has_not_seen_the_text(model: Model) -> None:
    exact, kept = (one(model, "elbo", draws=8, cached=cached) for cached in (False, True))
    assert kept.columns < exact.columns
    assert kept.log_likelihood != exact.log_likelihood
    assert kept.log_likelihood == pytest.approx(exact.log_likelihood, rel=0.2)
    blind = load("pocket-blind", device="cpu", dtype="float64")
    plain, once = (
        blind.score([4, 5, 6, 7], [8, 9, 10], "elbo", draws=8, cached=cached)[0]
        for cached in (False, True)
    )
    assert once.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-9)


def test_one_prompt_goes_with_many_texts_and_texts_are_encoded(model: Model) -> None:
    found = model.score("Say it.", ["yes", "no"], "confidence")
    assert [model.text.decode(each.tokens) for each in found if model.text] == ["yes", "no"]
    assert len(model.score(["a", "b"], "yes", "confidence")) == 2
    plain = found[0].to_dict()
    assert plain["perplexity"] == pytest.approx(math.exp(-plain["log_likelihood"] / 3))
    assert plain["by"] == "confidence"


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_say_the_truth_about_their_path(name: str) -> None:
    """Those that can be followed fill the same columns whatever is drawn, and some of the others do not."""
    try:
        method = build(name, {"length": 8, "temperature": 1.0})
    except BadRequest:
        method = build(name, {"length": 8})
    decoder = method.decoder
    path = path_of(decoder)
    if decoder.reads is not Scope.MASKS:
        return
    model = load("pocket-sudoku", device="cpu")
    generator = torch.Generator().manual_seed(0)
    values = 2 * torch.randn(1, 8, 20, generator=generator)
    chosen = set()
    for seed in range(40):
        prompt = model.language.prompt(Form((4, 5, 6)), seed)
        state = decoder.start(prompt, 8)
        columns = torch.arange(state.length) % 8
        _, decision = decoder.step(state, Logits.dense(values[:, columns], 3))
        chosen.add(decision.accepted.tobytes())
    assert (len(chosen) == 1) or path is not FillPath.BY_STATE
    assert (len(chosen) > 1) or path is not FillPath.BY_CHANCE


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "estimator": ({"by": "elba"}, "There is no estimator 'elba'"),
    "draws": ({"draws": 0}, "draws must be a whole number from 1"),
    "odd": ({"draws": 3}, "come in pairs that balance each other: take 4"),
    "nothing drawn": ({"by": "replay", "draws": 4}, "'replay' draws nothing"),
    "foreign method": ({"method": "entropy"}, "method belongs to by='replay'"),
    "foreign preset": ({"preset": "paper"}, "preset belongs to by='replay'"),
    "preset that rolls back": ({"by": "replay", "preset": "paper"}, "takes tokens back"),
    "foreign setting": ({"temperature": 1.0}, "temperature belongs to by='replay'"),
    "foreign mask": ({"prompt_mask": 0.1}, "prompt_mask belongs to by='one-step'"),
    "share": ({"by": "one-step", "prompt_mask": 2}, "a share from 0 to 1"),
    "nothing kept": ({"by": "one-step", "cached": True}, "nothing to keep"),
    "own cache": ({"by": "replay", "cached": True}, "a cache of its own"),
    "rollback": ({"by": "replay", "method": "saber"}, "takes tokens back or replaces them"),
    "edits": ({"by": "replay", "method": "editing"}, "takes tokens back or replaces them"),
    "reads": ({"by": "replay", "method": "confidence"}, "depends on the token that is drawn there"),
    "random": ({"by": "replay", "method": "random"}, "depends on chance"),
    "certain": ({"by": "replay", "temperature": 0.0}, "writes one text with certainty"),
    "auto": (
        {"by": "replay", "method": "entropy-bound", "canvas": "auto"},
        "depends on what it writes",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_scored_is_refused(model: Model, case: str) -> None:
    options, sentence = REFUSED[case]
    with pytest.raises(BadRequest, match=sentence):
        model.score(PROMPT, list(TEXT), **options)


def test_texts_that_fit_no_model_are_refused(model: Model, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="the mask id"):
        model.score(PROMPT, [model.folder.mask])
    with pytest.raises(BadRequest, match="A text with gaps cannot be scored"):
        model.score(Fill.marked("a {} b"), "c")
    with pytest.raises(BadRequest, match="There are 3 texts for 2 prompts"):
        model.score([PROMPT, PROMPT], [[5], [6], [7]])
    with pytest.raises(BadRequest, match="positions"):
        model.score(PROMPT, [5] * 5000)
    blocks = load(make_llada2(tmp_path / "llada2", num_hidden_layers=3), device="cpu")
    with pytest.raises(Incompatible, match="attends block-causally"):
        blocks.score(PROMPT, list(TEXT))


def test_a_token_that_the_decoder_never_draws_has_no_probability(sudoku: Model) -> None:
    cut: dict[str, Any] = {"method": "dream", "top_k": 1}
    (done,) = sudoku.generate([4, 5, 6], "dream", length=2, temperature=1.0, top_k=1)
    (found,) = sudoku.score([4, 5, 6], list(done.tokens), "replay", **cut)
    assert found.log_likelihood == pytest.approx(0.0, abs=1e-9)
    other = [token for token in range(4, 20) if token not in done.tokens][:2]
    (never,) = sudoku.score([4, 5, 6], other, "replay", **cut)
    assert never.log_likelihood == -math.inf
    assert never.to_dict()["log_likelihood"] is None


def test_answered_logits_stay_answered_when_they_are_changed() -> None:
    plain = Logits.dense(torch.randn(1, 3, 7), 6)
    text = np.array([[1, 2, 3]])
    answered = AnsweredLogits(plain, text)
    changed = answered.changed([row.with_values(2 * row.values) for row in plain.rows])
    assert changed.sampled(1.0, [0], [0]).tokens[0].tolist() == [1, 2, 3]
    assert len(answered.log_probabilities) == 1
