"""Methods that must be one and the same: the cheapest strong tests there are."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from archer.decoders.scheduled import Scheduled
from archer.decoders.wrappers import EndOfText
from archer.errors import Incompatible
from archer.methods.catalogue import DECODERS, POLICIES
from archer.methods.compatibility import Fit, matrix
from archer.passes.canvas import Prompt
from archer.passes.logits import Logits
from archer.results.step import Kind
from support import naive
from support.networks import backbone
from support.pairs import calls, revised, texts, walk

NETS = {shift: backbone(shift, 3, torch.float64) for shift in (False, True)}
PROMPTS = [[3, 1, 4, 1, 5, 9], [2, 7], [1, 8, 2, 8]]
LENGTH = 12


def same(left: str, right: str, shift: bool = False, **both: Any) -> bool:
    """Two methods write the same, update by update."""
    common: dict[str, Any] = {"length": LENGTH, "prompts": PROMPTS} | both
    return texts(walk(NETS[shift], left, **common)) == texts(walk(NETS[shift], right, **common))


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("decoder", ["confidence", "threshold:0.15", "factor:1", "entropy-bound:3"])
def test_with_one_block_fast_dllm_is_an_archer_that_never_refreshes(
    decoder: str, shift: bool
) -> None:
    """11.1, 11.2"""
    assert same(f"{decoder}+prefix", f"{decoder}+dual", shift)
    assert same(f"{decoder}+dual", f"{decoder}+archer:inf", shift)
    assert not same(f"{decoder}+dual", f"{decoder}+eager", shift)


def test_with_blocks_the_two_caches_of_fast_dllm_differ() -> None:
    assert not same("confidence+prefix", "confidence+dual", block=4)


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("every", [1, 2, 5])
@pytest.mark.parametrize("decoder", ["confidence", "saber"])
def test_dllm_cache_with_a_fresh_response_is_age(decoder: str, every: int, shift: bool) -> None:
    """11.3"""
    kept = {"length": LENGTH, "prompts": PROMPTS[:1]}
    dllm = walk(
        NETS[shift],
        f"{decoder}+dllm-cache:{every}",
        response_interval=1,
        **kept,  # type: ignore[arg-type]
    )
    age = walk(NETS[shift], f"{decoder}+age:{every}", **kept)  # type: ignore[arg-type]
    assert texts(dllm) == texts(age)
    assert [call[0] for call in calls(dllm)] == [call[0] for call in calls(age)]


def test_dllm_cache_that_refreshes_always_or_redoes_all_rows() -> None:
    """11.3: intervals of one are a full pass; redoing every row is a response interval of one."""
    eager = texts(walk(NETS[False], "confidence", PROMPTS, length=LENGTH))
    full = walk(
        NETS[False], "dllm-cache", PROMPTS, length=LENGTH, prompt_interval=1, response_interval=1
    )
    assert texts(full) == eager
    some = {"length": LENGTH, "prompt_interval": 4}
    all_rows = walk(NETS[False], "dllm-cache", PROMPTS, response_interval=3, ratio=1.0, **some)
    one = walk(NETS[False], "dllm-cache", PROMPTS, response_interval=1, **some)
    assert texts(all_rows) == texts(one)
    none = walk(NETS[False], "dllm-cache", PROMPTS, response_interval=5, ratio=0.0, **some)
    assert texts(none) != texts(one)


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("block", [LENGTH, 4])
def test_dkv_that_always_reloads_is_eager(block: int, shift: bool) -> None:
    """11.4"""
    assert same("confidence+dkv-decode:1", "confidence", shift, block=block)
    assert same("fixed-order+dkv-greedy:1", "fixed-order", shift, block=block)
    assert not same("confidence+dkv-decode:9", "confidence", shift, block=block)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("decoder", sorted(DECODERS))
@pytest.mark.parametrize("shift", [False, True])
def test_radius_one_is_eager_for_every_decoder(decoder: str, shift: bool) -> None:
    """11.5"""
    if decoder == "wino" and shift:
        pytest.skip("WINO's shadow has no meaning for shifted logits")
    assert same(f"{decoder}+archer:1", f"{decoder}+eager", shift)


def test_rules_that_dare_nothing_fill_one_mask_per_update() -> None:
    """11.6: factor 0, threshold 1 and an entropy bound of 0 are LLaDA-Confidence's or the entropy order."""
    assert same("factor:0", "confidence")
    assert same("threshold:1", "confidence")
    assert same("entropy-bound:0", "entropy")


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([1, 4, 9, math.inf]))
def test_the_control_revises_nothing_whatever_the_cache(seed: int, radius: float) -> None:
    """Invariant 32"""
    generator = torch.Generator().manual_seed(seed)
    prompt = torch.randint(45, (5,), generator=generator).tolist()
    steps = walk(NETS[False], "no-rollback+archer", [prompt], length=LENGTH, radius=radius)
    assert revised(steps) == 0
    assert not any(step.decision.remasked.any() for step in steps)


PAIRS = matrix(DECODERS, POLICIES)
QUICK = {"remdm": {"loops": 3}}


@pytest.mark.thinned(4)
@pytest.mark.parametrize("decoder", sorted(PAIRS))
def test_a_batch_equals_its_rows_alone_for_every_pair_that_works(decoder: str) -> None:
    """Text, kinds, columns fed and distances, with every cache and both logit alignments."""
    for policy, verdict in PAIRS[decoder].items():
        if verdict is Fit.NO:
            continue
        for shift in (False, True) if decoder != "wino" else (False,):
            name = f"{decoder}+{policy}"
            quick: dict[str, Any] = {"length": 6, "seed": 4} | QUICK.get(decoder, {})
            if verdict is Fit.ONE_BLOCK and "block" in DECODERS[decoder].settings:
                quick["block"] = quick["length"]
            together = walk(NETS[shift], name, PROMPTS[:2], **quick)
            for row, prompt in enumerate(PROMPTS[:2]):
                alone = walk(NETS[shift], name, [prompt], **quick)
                assert texts(together)[row] == texts(alone)[0], (name, shift)
                assert calls(together, row) == calls(alone), (name, shift)


@pytest.mark.parametrize("decoder", sorted(PAIRS))
def test_every_decoder_ends_without_masks_within_its_bound(decoder: str) -> None:
    """Invariant 2"""
    steps = walk(NETS[False], decoder, PROMPTS, length=LENGTH)
    limit = DECODERS[decoder].make(**DECODERS[decoder].fixed).limit(LENGTH)
    for row in texts(steps).values():
        assert len(row) <= limit
        assert NETS[False].mask not in row[-1][0]


def test_pairs_that_cannot_work_say_so_before_any_pass() -> None:
    refused = [
        (d, p) for d, row in PAIRS.items() for p, verdict in row.items() if verdict is Fit.NO
    ]
    assert refused
    for decoder, policy in refused:
        with pytest.raises(Incompatible, match=f"'{decoder}' does not go with '{policy}'"):
            walk(NETS[False], f"{decoder}+{policy}", PROMPTS, length=LENGTH)
    with pytest.raises(Incompatible, match="or decode the response as one block"):
        walk(NETS[False], "saber+dual", PROMPTS, length=LENGTH, block=4)


@pytest.mark.parametrize("policy", ["archer:4", "age:3", "late:0.5", "surprise:6"])
def test_guidance_asks_twice_and_refreshes_together(policy: str) -> None:
    net = NETS[False]
    plain = walk(net, f"saber+{policy}", PROMPTS, length=LENGTH)
    guided = walk(net, f"saber+{policy}", PROMPTS, length=LENGTH, guidance=1.5)
    assert texts(plain) != texts(guided)
    fed = [calls(guided, row)[0][1] for row in range(len(PROMPTS))]
    assert fed == [2 * (len(p) + LENGTH) for p in PROMPTS]
    assert Kind.CACHED in {call[0] for call in calls(guided)}
    for step in guided:
        for row, call in zip(step.rows, step.calls, strict=True):
            assert call.fed in (0, 2 * LENGTH, 2 * (len(PROMPTS[row]) + LENGTH)), "together or not"
    for row, prompt in enumerate(PROMPTS):
        alone = walk(net, f"saber+{policy}", [prompt], length=LENGTH, guidance=1.5)
        assert texts(guided)[row] == texts(alone)[0]
        assert calls(guided, row) == calls(alone)
    for eager in ("archer:1", "late:0", "surprise:0"):
        assert same(f"saber+{eager}", "saber", guidance=1.5)


def test_guidance_mixes_the_logits_of_a_prompt_and_of_none() -> None:
    """Against two eager passes made by hand."""
    net, scale = NETS[False], 0.7
    prompt, length = torch.tensor([3, 1, 4]), 5
    masks = torch.full((length,), net.mask)
    conditional = naive.full(net.network, prompt, masks, shift=False)
    blind = naive.full(net.network, torch.full_like(prompt, net.mask), masks, shift=False)
    mixed = blind + (scale + 1) * (conditional - blind)
    (step, *_) = walk(net, "confidence", [prompt.tolist()], length=length, guidance=scale)
    tokens, sure = naive.confidence(mixed, net.mask)
    assert np.allclose(step.decision.confidence[0], sure.numpy(), atol=1e-9)
    chosen = step.decision.accepted[0]
    assert step.after.response[0][chosen].tolist() == tokens[chosen].tolist()


@pytest.mark.parametrize("decoder", ["confidence", "saber", "threshold:0.1", "margin", "dream"])
def test_end_of_text_can_be_forbidden_for_any_decoder(decoder: str) -> None:
    """A network that loves id 1 (end of text) writes it everywhere, and nowhere when forbidden."""
    net = backbone(False, 3, torch.float64)
    net.network.head.data[1] = 0.2 * net.network.head.data.sum(dim=0)
    net.network.embedding.data *= 0.3
    eager = texts(walk(net, decoder, PROMPTS, length=LENGTH))
    forbidden = texts(walk(net, decoder, PROMPTS, length=LENGTH, eos="logits"))
    assert not any(1 in rows[-1][0] for rows in forbidden.values())
    assert eager.keys() == forbidden.keys()


def test_end_ids_can_be_chosen_last() -> None:
    """Confidence option: the tokens stay, their confidence is that of a distribution without end ids."""
    values = torch.zeros(1, 3, 10, dtype=torch.float64)
    values[0, 0, 1], values[0, 1, 2], values[0, 2, 5] = 9.0, 8.0, 1.0
    prompt = Prompt.of([4], mask=9, eos=(1,), ends=(1, 2))
    late = EndOfText(Scheduled(), "confidence")
    state = late.start(prompt, 3)
    _, plain = Scheduled().step(state, Logits.dense(values, 9))
    _, decision = late.step(state, Logits.dense(values, 9))
    assert plain.accepted.tolist() == [[True, False, False]]
    assert decision.accepted.tolist() == [[False, False, True]]
    assert decision.tokens.tolist() == plain.tokens.tolist() == [[1, 2, 5]]
    expected = math.e / (math.e + 7)
    assert decision.confidence.tolist() == [[0.0, 0.0, pytest.approx(expected)]]
    drawn, _ = EndOfText(Scheduled(temperature=0.5), "confidence").step(
        state, Logits.dense(values, 9)
    )
    assert drawn.response.tolist() != state.response.tolist()
