"""What each cache recomputes, column by column, and what that costs in rows x layers."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from archer.methods.build import build
from archer.passes.canvas import Ints
from archer.passes.work import Work
from archer.policies.blockwise import _with_neighbours
from archer.policies.dllm import DllmCache
from archer.results.step import Step
from support.networks import backbone
from support.pairs import walk
from support.refresh_twin import LessSlow, Slow, first_pass

NETS = {shift: backbone(shift, 5, torch.float64) for shift in (False, True)}
LAYERS = NETS[False].network.shape.layers

drawn = {
    "prompt": st.lists(st.integers(0, 44), min_size=1, max_size=9),
    "block": st.integers(2, 6),
    "blocks": st.integers(1, 3),
}


def dense(fed: int, kept: int, columns: int) -> Work:
    """`fed` columns through every layer, the last one for the `kept` rows only."""
    rows = fed * (LAYERS - 1) + kept
    return Work(fed * LAYERS, fed * LAYERS, rows, rows * columns, kept)


def masked(response: Ints, mask: int) -> set[int]:
    return set(np.flatnonzero(response == mask).tolist())


def check(steps: list[Step[Any]], prompt: int, expected: list[set[int] | None]) -> None:
    """Every call feeds the expected response columns (None: everything) and costs what that costs."""
    assert len(steps) == len(expected)
    for step, columns in zip(steps, expected, strict=True):
        length = step.canvas.columns - prompt
        kept = int(step.canvas.reads.sum())
        fed = prompt + length if columns is None else len(columns)
        assert step.calls[0].fed == fed
        assert (step.calls[0].kind == "full") == (columns is None)
        assert step.work == dense(fed, kept, prompt + length)


def block_of(step: Step[Any]) -> range:
    low, high = (step.canvas.block[0] - step.canvas.response.start).tolist()
    return range(low, high)


@settings(max_examples=30)
@given(
    **drawn,
    cache=st.sampled_from(["prefix", "dual"]),
    rule=st.sampled_from(["confidence", "factor"]),
)
def test_fast_dllm(prompt: list[int], block: int, blocks: int, cache: str, rule: str) -> None:
    length = block * blocks
    steps = walk(NETS[False], f"{rule}+{cache}", [prompt], length=length, block=block)
    expected: list[set[int] | None] = []
    last = range(0)
    for step in steps:
        now = block_of(step)
        begins, last = now != last, now
        inside = set(now) if cache == "dual" else set(range(now.start, length))
        expected.append(None if begins else inside)
    check(steps, len(prompt), expected)


@settings(max_examples=30)
@given(**drawn, reload=st.integers(1, 6))
def test_dkv_decode(prompt: list[int], block: int, blocks: int, reload: int) -> None:
    """Invariant 24: from the third pass on, the masks and what was accepted last; the rest is frozen."""
    net, length = NETS[False], block * blocks
    steps = walk(net, "dkv-decode", [prompt], length=length, block=block, reload=reload)
    expected: list[set[int] | None] = []
    for index, step in enumerate(steps):
        inside = index % block
        if inside < 2 or inside % reload == 0:
            expected.append(None)
            continue
        fed = masked(steps[index - 1].before.response[0], net.mask)
        accepted = set(np.flatnonzero(steps[index - 1].decision.accepted[0]).tolist())
        assert fed == masked(step.before.response[0], net.mask) | accepted
        expected.append(fed)
    check(steps, len(prompt), expected)


def nearest(
    centres: list[int], chosen: set[int], masks: set[int], window: int, width: int
) -> set[int]:
    """Neighbours found by walking outwards, left before right."""
    chosen = set(chosen)
    for centre in sorted(centres):
        added = 0
        for distance in range(1, width):
            for column in (centre - distance, centre + distance):
                if added < window and column in masks and column not in chosen:
                    chosen.add(column)
                    added += 1
    return chosen


@settings(max_examples=30)
@given(**drawn, reload=st.integers(1, 5), window=st.integers(0, 6), seed=st.integers(0, 99))
def test_dkv_greedy(
    prompt: list[int], block: int, blocks: int, reload: int, window: int, seed: int
) -> None:
    """Invariant 25 as well: every position once, in an order that only the seed decides."""
    net, length = NETS[False], block * blocks
    given_ = {"length": length, "block": block, "order_seed": seed}
    steps = walk(net, "dkv-greedy", [prompt], reload=reload, window=window, **given_)
    order = [int(step.decision.accepted[0].argmax()) for step in steps]
    other = walk(net, "fixed-order", [[7, 7]], **given_)
    assert order == [int(step.decision.accepted[0].argmax()) for step in other]
    assert sorted(order) == list(range(length))
    expected: list[set[int] | None] = []
    for index in range(length):
        if index % block % reload == 0:
            expected.append(None)
            continue
        stale = masked(steps[index - 1].before.response[0], net.mask)
        chosen = {order[index], order[index - 1]}
        expected.append(nearest([order[index]], chosen, stale, window, length))
    check(steps, len(prompt), expected)


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=12),
    st.integers(0, 5),
)
def test_neighbours_are_the_nearest_masks(
    columns: list[tuple[bool, bool, bool]], window: int
) -> None:
    chosen, centres, masks = (np.array([part]) for part in zip(*columns, strict=True))
    chosen = chosen | centres
    found = _with_neighbours(chosen, centres, masks, window)
    listed = [set(np.flatnonzero(part[0]).tolist()) for part in (chosen, centres, masks)]
    wanted = nearest(sorted(listed[1]), listed[0], listed[2], window, len(columns))
    assert set(np.flatnonzero(found[0]).tolist()) == wanted


@settings(max_examples=30)
@given(
    prompt=drawn["prompt"],
    length=st.integers(2, 10),
    every_prompt=st.integers(1, 6),
    every_response=st.integers(1, 6),
    ratio=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
)
def test_dllm_cache(
    prompt: list[int], length: int, every_prompt: int, every_response: int, ratio: float
) -> None:
    """Invariant 26: in later layers all values, and int(ratio * G) response rows of everything else.

    The last layer mixes no prompt rows: nobody reads what would come of them.
    """
    steps = walk(
        NETS[False],
        "dllm-cache",
        [prompt],
        length=length,
        prompt_interval=every_prompt,
        response_interval=every_response,
        ratio=ratio,
    )
    whole = len(prompt) + length
    for made, step in enumerate(steps):
        p, r = made % every_prompt == 0, made % every_response == 0
        some = length if r else int(ratio * length)
        rows = p * len(prompt) + some
        values = p * len(prompt) + (length if r or ratio > 0 else 0)
        mixed = whole + (LAYERS - 2) * rows + some
        scored = int(step.canvas.reads.sum())
        assert step.calls[0].fed == whole
        assert (step.calls[0].kind == "full") == (p and r)
        assert step.work == Work(
            keys=whole + (LAYERS - 1) * rows,
            values=whole + (LAYERS - 1) * values,
            mixed=mixed,
            pairs=mixed * whole,
            scored=scored,
        )


@settings(max_examples=30)
@given(
    prompt=drawn["prompt"],
    length=st.integers(3, 12),
    radius=st.integers(1, 12),
    every=st.integers(1, 6),
    shift=st.booleans(),
)
def test_prompt_caches(
    prompt: list[int], length: int, radius: int, every: int, shift: bool
) -> None:
    """Eager, Archer and age: everything, or the response and what its alignment needs."""
    net, columns = NETS[shift], len(prompt) + length
    for name in ("saber", f"saber+archer:{radius}", f"saber+age:{every}"):
        for step in walk(net, name, [prompt], length=length):
            full = step.calls[0].kind == "full"
            fed = columns if full else length + shift
            assert step.calls[0].fed == fed
            if name == "saber":
                assert full
            assert step.work == dense(fed, length, columns)


@pytest.mark.parametrize("shift", [False, True])
def test_a_refresh_of_everything_equals_its_slow_twins_and_a_full_pass(shift: bool) -> None:
    net = NETS[shift]
    eager = build("confidence+eager", {"length": 6}).policy
    fast, slow, less_slow, full = (
        first_pass(net.network, net.mask, policy, 9, 6)()
        for policy in (DllmCache(), Slow(), LessSlow(), eager)
    )
    assert fast.shape == full.shape
    for other in (slow, less_slow, full):
        assert torch.allclose(fast, other, rtol=0, atol=1e-12)


def test_values_of_dllm_cache_are_always_current() -> None:
    """Invariant 26, second half: after any pass the stored response values are those of a fresh layer 1."""
    net = NETS[False]
    step = walk(net, "dllm-cache", [[1, 2, 3]], length=8, response_interval=9, ratio=0.25)[-1]
    kept = step.memory.store.values[0, 0, :, 3:].transpose(0, 1)
    layer = net.network.layer(0)
    fresh = layer.values(
        layer.normed(net.network.embed(torch.from_numpy(step.canvas.tokens[0, 3:])))
    )
    assert torch.allclose(kept, fresh, atol=1e-12)


@pytest.mark.parametrize("name", ["confidence+dual", "dkv-decode", "dkv-greedy", "dllm-cache"])
def test_caches_really_change_something(name: str) -> None:
    """Otherwise the tests above would say nothing about reuse."""
    net, prompt = NETS[False], [3, 1, 4, 1, 5, 9, 2, 6]
    eager = {"dkv-greedy": "fixed-order"}.get(name, "confidence")
    cached, fresh = (walk(net, which, [prompt], length=16) for which in (name, eager))
    assert [s.after.response.tolist() for s in cached] != [s.after.response.tolist() for s in fresh]
