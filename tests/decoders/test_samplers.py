"""The other decoders as pure rules: what each accepts, replaces and takes back."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from archer.checks.replay import read_cases
from archer.decoders.dream import Dream
from archer.decoders.editing import Editing
from archer.decoders.parallel import EntropyBound, Factor, Threshold
from archer.decoders.remdm import Remdm
from archer.decoders.remdm_sampling import RemdmSampling
from archer.decoders.saber_dream import SaberDream
from archer.decoders.scheduled import Ordered, Scheduled
from archer.decoders.wino import Wino
from archer.errors import BadRequest
from archer.model import load
from archer.passes.canvas import Reals
from archer.passes.logits import Logits
from conftest import shared
from decoders.test_decoders import MASK, VOCABULARY, logits_at, prompt_of, trajectory
from support import naive
from support.naive import greedy
from support.networks import Backbone, random_network, shape
from support.one_pass import ask as run_pass
from support.one_pass import blank

seeds = st.integers(0, 10**6)


def first(decoder: Any, seed: int, length: int = 12, scale: float = 1.0) -> tuple[Any, Logits]:
    """The first decision on random logits."""
    logits = Logits.dense(logits_at(1, seed, 1, length) * scale, MASK)
    return decoder.step(decoder.start(prompt_of(1), length), logits)[1], logits


def entropies(logits: Logits) -> Tensor:
    spread: Tensor = torch.special.entr(logits.rows[0].values.softmax(-1)).sum(-1)
    return spread


def margins(logits: Logits) -> Tensor:
    chances = logits.rows[0].values.softmax(-1)
    chances[:, MASK] = 0
    best = chances.topk(2, dim=-1).values
    return best[:, 0] - best[:, 1]


@given(seeds)
def test_entropy_and_margin_are_what_they_say(seed: int) -> None:
    logits = Logits.dense(logits_at(1, seed, 1, 7), MASK)
    assert torch.allclose(logits.entropy[0], entropies(logits))
    assert torch.allclose(logits.margin[0], margins(logits))
    narrow = Logits.dense(logits_at(1, seed, 1, 7).float(), MASK)
    assert torch.allclose(narrow.entropy[0], entropies(logits), atol=1e-4)


@given(seeds, st.sampled_from(["entropy", "margin"]), st.integers(1, 12))
def test_schedules_by_entropy_and_margin(seed: int, score: Any, steps: int) -> None:
    decision, logits = first(Scheduled(score=score, steps=steps), seed)
    sure = -entropies(logits) if score == "entropy" else margins(logits)
    count = 12 // steps + (12 % steps > 0)
    wanted = set(sure.argsort(descending=True)[:count].tolist())
    assert set(np.flatnonzero(decision.accepted[0]).tolist()) == wanted


def test_random_order_is_drawn_anew_and_fixed_order_is_not() -> None:
    def order(decoder: Any, seed: int) -> list[int]:
        return [int(d.accepted[0].argmax()) for _, _, d, _ in trajectory(decoder, seed, 16)]

    anew = order(Scheduled(score="random"), 1)
    assert anew == order(Scheduled(score="random"), 2), "chance does not depend on the logits"
    assert sorted(anew) == list(range(16))
    assert anew != order(Ordered(), 1)
    assert order(Ordered(), 1) == list(Ordered().permutations(16)[0])
    assert order(Ordered(order_seed=1), 1) != order(Ordered(), 1)
    given_ = tuple(reversed(range(16)))
    assert order(Ordered(order=(given_,)), 1) == list(given_)


def test_a_wrong_order_is_refused() -> None:
    with pytest.raises(BadRequest, match="one permutation per block: 2 lists, each with the 3"):
        Ordered(block=3, order=((0, 1, 2), (3, 4, 4))).start(prompt_of(1), 6)


@given(seeds, st.floats(0, 1), st.floats(0, 1))
def test_threshold(seed: int, low: float, high: float) -> None:
    """Invariant 28"""
    low, high = min(low, high), max(low, high)
    (loose, logits), (tight, _) = (
        first(Threshold(threshold=low), seed),
        first(Threshold(threshold=high), seed),
    )
    sure = greedy(logits).confidence[0]
    assert (tight.accepted <= loose.accepted).all()
    assert tight.accepted[0, sure.argmax()]
    wanted = (sure >= low) | (np.arange(12) == sure.argmax())
    assert np.array_equal(loose.accepted[0], wanted)


def factor_count(sure: Reals, factor: float) -> int:
    ranked = sorted(sure.tolist(), reverse=True)
    count = 1
    for j in range(2, len(ranked) + 1):
        if ranked[j - 1] < 1 - factor / (j + 1):
            break
        count = j
    return count


@given(seeds, st.floats(0, 8), st.floats(0, 8), st.floats(1, 4))
def test_factor(seed: int, low: float, high: float, scale: float) -> None:
    """Invariant 27: a prefix of the sort, never empty, growing with the factor and with confidence."""
    low, high = min(low, high), max(low, high)
    (few, logits), (many, _) = (first(Factor(factor=f), seed, scale=scale) for f in (low, high))
    sure = greedy(logits).confidence[0]
    assert int(few.accepted.sum()) == factor_count(sure, low) <= int(many.accepted.sum())
    order = (-sure).argsort(kind="stable")
    assert few.accepted[0][order].cumprod().sum() == few.accepted.sum() >= 1
    assert factor_count(sure * 0.9, low) <= factor_count(sure, low)


@given(seeds, st.floats(0, 6), st.sampled_from(["entropy", "confidence", "margin"]))
def test_entropy_bound(seed: int, gamma: float, proxy: Any) -> None:
    """Invariant 29: the accepted prefix keeps the bound, the next longer one breaks it."""
    decision, logits = first(EntropyBound(gamma=gamma, proxy=proxy), seed)
    spread = entropies(logits)
    sure = {
        "entropy": -spread,
        "confidence": torch.from_numpy(greedy(logits).confidence[0]),
        "margin": margins(logits),
    }
    order = sure[proxy].argsort(descending=True, stable=True).numpy()
    count = int(decision.accepted.sum())
    assert decision.accepted[0][order][:count].all()

    def excess(k: int) -> float:
        part = spread[order[:k]]
        return float(part.sum() - part.max())

    assume(all(abs(excess(k) - gamma) > 1e-9 for k in range(2, 13)))
    assert count == 1 or excess(count) <= gamma
    assert count == 12 or excess(count + 1) > gamma


@pytest.mark.parametrize("decoder", [Threshold(block=4), Factor(block=4), EntropyBound(block=4)])
def test_parallel_rules_finish_a_block_before_the_next(decoder: Any) -> None:
    for before, _, decision, after in trajectory(decoder, 3, 12):
        inside = before.current[0]
        assert (decision.accepted[0] <= (inside & before.masked[0])).all()
        assert int(decision.accepted.sum()) >= 1
        if not after.done and after.block[0] != before.block[0]:
            assert not (after.masked[0] & inside).any()
    assert after.done


@pytest.mark.parametrize(("steps", "counts"), [(8, [0, 1, 1, 1, 1, 1, 1, 2]), (4, [1, 2, 2, 3])])
def test_dream_fills_by_its_own_schedule(steps: int, counts: list[int]) -> None:
    walked = list(trajectory(Dream(steps=steps), 1, 8))
    assert [int(decision.accepted.sum()) for _, _, decision, _ in walked] == counts


@pytest.mark.parametrize("alg", ["maskgit_plus", "topk_margin", "entropy"])
def test_dream_orders_at_temperature_zero(alg: Any) -> None:
    decision, logits = first(Dream(steps=3, alg=alg), 7)
    chances = logits.rows[0].values.clone()
    chances[:, MASK] = -torch.inf
    chances = chances.softmax(-1)
    best = chances.topk(2, dim=-1).values
    sure = {
        "maskgit_plus": best[:, 0],
        "topk_margin": best[:, 0] - best[:, 1],
        "entropy": -torch.special.entr(chances).sum(-1),
    }[alg]
    wanted = set(sure.argsort(descending=True)[: int(decision.accepted.sum())].tolist())
    assert set(np.flatnonzero(decision.accepted[0]).tolist()) == wanted
    assert decision.tokens[0].tolist() == naive.confidence(logits.rows[0].values, MASK)[0].tolist()


def test_dream_draws_from_the_truncated_distribution() -> None:
    row = torch.tensor([3.0, 2.0, 1.0, 0.0] + [-5.0] * 5 + [9.0, -5.0, -5.0], dtype=torch.float64)
    values = row.expand(1, 4000, VOCABULARY)

    def share(**options: Any) -> list[float]:
        decoder = Dream(steps=1, **options)
        state = decoder.start(prompt_of(1), 4000)
        tokens = decoder.step(state, Logits.dense(values, MASK))[0].response[0]
        return [count / 4000 for count in np.bincount(tokens, minlength=VOCABULARY).tolist()]

    warm = share(temperature=1.0, top_k=2)
    assert warm[0] == pytest.approx(0.731, abs=0.03)
    assert warm[0] + warm[1] == pytest.approx(1.0)
    nucleus = share(temperature=1.0, top_p=0.7)
    assert nucleus[2] == 0
    assert nucleus[1] > 0.2
    assert share(temperature=0.0)[0] == 1.0
    assert share(temperature=1.0)[MASK] == 0.0


def test_dream_origin_and_drawn_positions_use_chance() -> None:
    counts = [
        int(d.accepted.sum()) for _, _, d, _ in trajectory(Dream(steps=6, alg="origin"), 1, 24)
    ]
    assert sum(counts) == 24
    assert len(set(counts)) > 1
    cold, _ = first(Dream(steps=4), 3)
    warm, _ = first(Dream(steps=4, alg_temp=50.0), 3)
    assert int(cold.accepted.sum()) == int(warm.accepted.sum())
    assert not np.array_equal(cold.accepted, warm.accepted)


def test_saber_dream_takes_back_the_least_likely_token() -> None:
    decoder, bars = SaberDream(mu=8), []
    for before, logits, decision, after in trajectory(decoder, 4, 24):
        placed = before.response.copy()
        placed[decision.accepted] = decision.tokens[decision.accepted]
        back = decision.remasked[0]
        count = int(decision.accepted.sum())
        assert count >= min(2, int(before.masked.sum()))
        if not after.done:
            assert int(back.sum()) == max(1, min(-(-count // 8), count - 1))
            sure = logits.probability(logits.at(placed))[0].numpy()
            candidates = placed[0] != MASK
            assert sure[back].max() <= sure[candidates & ~back].min()
        bars.append(decision.threshold.item())
        ever = ~np.isnan(before.first_accepted_at)
        kept = after.first_accepted_at[ever] == before.first_accepted_at[ever]
        assert kept.all(), "first confidences are never overwritten"
    assert bars[0] == 1.0
    assert bars[-1] < 1.0


def test_saber_dream_can_hold_the_end_of_text_back() -> None:
    """The penalty weighs most at the first update and is gone at the end of time."""
    values = torch.zeros(1, 4, VOCABULARY, dtype=torch.float64)
    values[..., 1], values[..., 5] = 4.0, 2.0
    prompt = replace(prompt_of(1), eos=(1,))
    logits = Logits.dense(values, MASK)
    for updates, token in ((0, 5), (512, 1), (9999, 1)):
        decoder = SaberDream(eos_penalty=1.0)
        state = replace(decoder.start(prompt, 4), updates=(updates,))
        _, decision = decoder.step(state, logits)
        assert set(decision.tokens[0].tolist()) == {token}
    plain = SaberDream().step(SaberDream().start(prompt, 4), logits)[1]
    assert set(plain.tokens[0].tolist()) == {1}
    assert values[0, 0, 1] == 4.0, "the logits it was given stay as they were"


def test_remdm_fills_refills_and_ends_on_time() -> None:
    decoder = Remdm(loops=3)
    walked = list(trajectory(decoder, 2, 16))
    moves = [(int(d.accepted.sum()), int(d.remasked.sum())) for _, _, d, _ in walked]
    assert moves == [(1, 0)] * 14 + [(0, 1), (1, 0)] * 3 + [(1, 0)] * 2
    assert len(walked) == decoder.limit(16)
    for before, logits, decision, _ in walked:
        if decision.remasked.any():
            placed = logits.probability(logits.at(before.response))[0].numpy()
            sure = np.where(before.masked[0], 2, placed)
            assert decision.remasked[0, sure.argmin()]
    assert Remdm().limit(256) == 224 + 64 + 32
    uneven = list(trajectory(Remdm(k=3, loops=1), 2, 16))
    assert [int(d.accepted.sum()) for _, _, d, _ in uneven] == [3, 3, 3, 3, 2, 0, 3, 2]


@pytest.mark.parametrize("strategy", ["cap", "rescale", "conf", "loop"])
def test_original_remdm(strategy: Any) -> None:
    """Masks are filled by chance, tokens taken back at the strategy's rate, and the last update fills up."""
    strong = {"cap": 0.2, "rescale": 0.5, "conf": None, "loop": 0.2}[strategy]
    decoder = RemdmSampling(strategy=strategy, eta=strong, steps=40)
    walked = list(trajectory(decoder, 3, 32))
    assert len(walked) == 41
    assert sum(int(d.remasked.sum()) for _, _, d, _ in walked) > 0
    for before, _, decision, after in walked:
        assert (decision.accepted <= before.masked).all()
        assert (decision.remasked <= ~before.masked).all()
        assert (after.placed_at[after.masked] == 0).all()
    none = RemdmSampling(strategy="cap", eta=0.0, steps=40)
    assert not any(d.remasked.any() for _, _, d, _ in trajectory(none, 3, 32))


def test_original_remdm_keeps_the_expected_share_placed() -> None:
    """The marginal of the forward process: at time t a share 1 - t is placed, re-masking or not."""
    decoder = RemdmSampling(strategy="rescale", eta=0.5, steps=10)
    shares = [1 - after.masked.mean() for _, _, _, after in trajectory(decoder, 5, 2000)]
    for index, share in enumerate(shares[:-1]):
        assert share == pytest.approx((index + 1) / 10, abs=0.04)


def test_looped_remdm_only_takes_back_in_the_middle() -> None:
    decoder = RemdmSampling(strategy="loop", eta=0.3, steps=100)
    walked = list(trajectory(decoder, 5, 200))
    active = [index for index, (_, _, d, _) in enumerate(walked) if d.remasked.any()]
    assert 44 <= min(active) <= 48
    assert 92 <= max(active) <= 95


@given(seeds, st.floats(0, 1), st.floats(0, 1))
def test_editing(seed: int, fill: float, edit: float) -> None:
    decoder = Editing(fill=fill, edit=edit)
    begin = decoder.start(prompt_of(1), 12)
    response = np.random.default_rng(seed).integers(0, 13, (1, 12)).clip(max=MASK)
    assume((response == MASK).any())
    state = replace(begin, response=response)
    logits = Logits.dense(logits_at(1, seed, 1, 12), MASK)
    after, decision = decoder.step(state, logits)
    best, masks = greedy(logits), state.masked[0]
    sure = best.confidence[0]
    wanted = masks & (sure >= fill)
    if not wanted.any():
        wanted = np.arange(12) == np.where(masks, sure, -1).argmax()
    assert np.array_equal(decision.accepted[0], wanted)
    edits = ~masks & (best.tokens[0] != response[0]) & (sure >= edit)
    assert np.array_equal(decision.replaced[0], edits)
    assert not decision.remasked.any()
    assert np.array_equal(after.response[0][edits], best.tokens[0][edits])
    assert not after.done.item(), "an update that filled a mask is followed by another look"
    settled = replace(state, response=best.tokens)
    last, nothing = decoder.step(settled, logits)
    assert last.done.item()
    assert not (nothing.accepted | nothing.replaced).any()


@given(seeds, st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.sampled_from([6, 12]))
def test_wino(seed: int, threshold: float, verify: float, block: int) -> None:
    """The rule of the paper on one row, against loops over lists, with a shadow made of random logits."""
    decoder = Wino(threshold=threshold, verify=verify, block=block)
    state = decoder.start(prompt_of(1), 12)
    budget = 30
    for update in range(decoder.limit(12)):
        values = logits_at(update, seed, 1, 12 + block)
        logits = Logits.dense(values, MASK)
        after, decision = decoder.step(state, logits)
        low = int(state.block[0]) * block
        inside = range(low, low + block)
        sure, tokens = greedy(logits).confidence[0].tolist(), greedy(logits).tokens[0].tolist()
        masks = [i for i in inside if state.masked[0, i]]
        cap = min(max(int(0.7 * len(masks)), 5), 20)
        ranked = sorted(masks, key=lambda i: (-sure[i], i))
        accepted = [i for i in ranked if sure[i] > threshold][:cap] or ranked[:1]
        trust = {
            i: values[0, 12 + i - low].softmax(-1)[state.response[0, i]].item()
            for i in inside
            if i not in masks
        }
        doubtful = sorted((i for i in trust if trust[i] < verify), key=lambda i: (trust[i], i))
        back = doubtful[: budget - 1] if len(accepted) > 1 else []
        assert np.flatnonzero(decision.accepted[0]).tolist() == sorted(accepted)
        assert np.flatnonzero(decision.remasked[0]).tolist() == sorted(back)
        for i in accepted:
            assert after.response[0, i] == tokens[i]
        budget = 30 if after.block[0] != state.block[0] else len(accepted)
        state = after
        if state.done.item():
            break
    assert state.done.item()


def test_the_shadow_of_wino_sees_all_but_its_own_token() -> None:
    """Invariant 30: it changes nothing for ordinary columns, and its column j ignores the token at j.

    The second half holds for one layer; in deeper ones other columns have seen the token and carry it over.
    """
    net = Backbone(random_network(shape(layers=1), 3, torch.float64), mask=47)
    decoder, block, low = Wino(block=4), 4, 4
    state = replace(decoder.start(prompt_of(1), 8), block=np.array([1]))
    prompt = torch.tensor([1, 2, 3])

    def ask(response: Tensor) -> tuple[Tensor, Tensor]:
        asked = decoder.canvas(replace(state, response=response[None].numpy()))
        asked = replace(asked, reads=asked.revisable(), mask=net.mask)
        tokens = np.where(asked.tokens == MASK, net.mask, asked.tokens)
        asked = replace(asked, tokens=tokens)
        (logits,), _, _ = run_pass(net, asked, blank(net.network, asked), asked.everything())
        return logits[:8], logits[8:]

    response = torch.tensor([5, 6, 7, 8, 4, MASK, 2, 3])
    ordinary, shadow = ask(response)
    plain = response.masked_fill(response == MASK, net.mask)
    assert (ordinary - naive.full(net.network, prompt, plain, shift=False)).abs().max() < 1e-9
    for column in range(block):
        changed = response.clone()
        changed[low + column] = 0
        moved = (ask(changed)[1] - shadow).abs().amax(dim=1)
        assert moved[column] == 0
        assert (moved[torch.arange(block) != column] > 0).all()


ROLLBACK: dict[str, dict[str, Any]] = {
    "saber": {},
    "saber-dream": {},
    "wino": {"threshold": 0.3},
    "remdm": {"loops": 8},
    "remdm-sampling": {"eta": 0.3},
    "editing": {"fill": 0.3, "edit": 0.95},
}


@pytest.mark.parametrize("checkpoint", ["llada-tiny-a", "llada-tiny-b", "dream-tiny"])
@pytest.mark.parametrize("decoder", sorted(ROLLBACK))
def test_archer_wraps_every_rollback_decoder_and_each_keeps_revising(
    decoder: str, checkpoint: str
) -> None:
    """On checkpoints in the real format, at a radius that really caches."""
    model = load(shared("data", "golden", "checkpoints", checkpoint), dtype="float32")
    if decoder == "wino" and model.folder.shape.shift:
        with pytest.raises(BadRequest, match="logits are shifted"):
            model.generate([5, 7, 9], method="wino+archer", length=16)
        return
    cases = read_cases([shared("data", "golden", "traces", f"{checkpoint}.saber.jsonl")])
    prompts = [list(prompt) for prompt in dict.fromkeys(tuple(case.prompt) for case in cases)][:3]
    done = model.generate(prompts, method=f"{decoder}+archer:4", length=24, **ROLLBACK[decoder])
    assert sum(each.revised_positions for each in done) > 0
    assert sum(each.cached_passes for each in done) > 0
