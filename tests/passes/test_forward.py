"""One pass against slow twins and against the transformers library."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import DynamicCache

from archer.bench.transformers_pass import library_twin
from archer.passes import layout
from archer.passes.canvas import Canvas, Flags
from archer.passes.forward import Question, run
from archer.passes.memory import Memory
from archer.passes.work import Work
from support import naive
from support.networks import Backbone, backbone, random_network, shape
from support.one_pass import ask, blank, canvas_of


def ids(length: int, seed: int, vocabulary: int = 45) -> Tensor:
    return torch.randint(vocabulary, (length,), generator=torch.Generator().manual_seed(seed))


drawn = st.fixed_dictionaries(
    {
        "shift": st.booleans(),
        "layers": st.integers(1, 4),
        "groups": st.sampled_from([(4, 4), (4, 2), (4, 1), (3, 3)]),
        "head_dim": st.sampled_from([4, 8, 16]),
        "prompt": st.integers(1, 20),
        "length": st.integers(1, 16),
        "seed": st.integers(0, 10_000),
    }
)


def drawn_model(case: dict[str, Any], dtype: torch.dtype) -> Backbone:
    heads, kv_heads = case["groups"]
    which = shape(
        layers=case["layers"],
        heads=heads,
        kv_heads=kv_heads,
        head_dim=case["head_dim"],
        shift=case["shift"],
    )
    return Backbone(random_network(which, case["seed"], dtype), mask=47)


@settings(max_examples=100)
@given(drawn)
@example(
    {
        "shift": True,
        "layers": 1,
        "groups": (4, 2),
        "head_dim": 8,
        "prompt": 1,
        "length": 1,
        "seed": 1,
    }
)
def test_full_and_stale_cached_pass_equal_the_slow_twin(case: dict[str, Any]) -> None:
    model = drawn_model(case, torch.float64)
    prompt, seed = ids(case["prompt"], case["seed"]), case["seed"]
    anchor, response = ids(case["length"], seed + 1), ids(case["length"], seed + 2)
    first = canvas_of(prompt.tolist(), anchor[None], model.mask)
    memory = blank(model.network, first)
    (fresh,), _, _ = ask(model, first, memory, first.everything())
    second = canvas_of(prompt.tolist(), response[None], model.mask)
    (stale,), _, _ = ask(model, second, memory, second.revisable())
    twin = naive.full(model.network, prompt, anchor, model.shift)
    stale_twin = naive.cached(model.network, prompt, anchor, response, model.shift)
    assert (fresh - twin).abs().max() < 1e-10
    assert (stale - stale_twin).abs().max() < 1e-10


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_five_hundred_cached_passes_at_the_anchor_equal_the_full_pass(count: int) -> None:
    worst = 0.0
    for seed in range(count):
        case = {
            "shift": bool(seed % 2),
            "layers": 1 + seed % 4,
            "groups": [(4, 4), (4, 2), (3, 3)][seed % 3],
            "head_dim": 8,
            "seed": seed,
        }
        model = drawn_model(case, torch.float32)
        prompt, response = ids(1 + seed % 40, seed), ids(1 + seed % 17, seed + 1)
        canvas = canvas_of(prompt.tolist(), response[None], model.mask)
        memory = blank(model.network, canvas)
        (fresh,), _, _ = ask(model, canvas, memory, canvas.everything())
        (again,), _, _ = ask(model, canvas, memory, canvas.revisable())
        worst = max(worst, float((fresh - again).abs().max()))
    assert worst <= 2e-5


def shapes(count: int) -> list[dict[str, Any]]:
    groups = [(4, 4), (4, 2), (4, 1), (6, 3)]
    return [
        {
            "shift": bool(seed % 2),
            "layers": 1 + seed % 3,
            "groups": groups[seed // 2 % 4],
            "head_dim": [8, 16][seed % 2],
            "prompt": 1 + seed * 7 % 40,
            "length": 1 + seed * 5 % 30,
            "seed": seed,
        }
        for seed in range(count)
    ]


@torch.no_grad()
def test_full_and_cached_passes_equal_the_library_twins() -> None:
    """Over 60 shapes: a full pass, a cached pass at the anchor and one on a stale anchor."""
    worst, scale = 0.0, 0.0
    for case in shapes(60):
        model = drawn_model(case, torch.float32)
        twin = library_twin(model.network)
        prompt, seed = ids(case["prompt"], case["seed"]), case["seed"]
        anchor, response = ids(case["length"], seed + 1), ids(case["length"], seed + 2)
        kept = len(prompt) - int(model.shift)
        cache = DynamicCache(config=twin.config)
        whole = torch.cat((prompt, anchor))[None]
        raw = twin(whole, past_key_values=cache, use_cache=True).logits[0]
        cache.crop(-(whole.shape[1] - kept))
        canvas = canvas_of(prompt.tolist(), anchor[None], model.mask)
        memory = blank(model.network, canvas)
        (fresh,), _, _ = ask(model, canvas, memory, canvas.everything())
        differences = [fresh - naive.aligned(raw, len(prompt), model.shift)]
        for state in (anchor, response):
            fed = torch.cat((prompt[kept:], state))[None]
            positions = torch.arange(kept, kept + fed.shape[1])[None]
            theirs = twin(
                fed, past_key_values=copy.deepcopy(cache), position_ids=positions, use_cache=True
            ).logits[0]
            now = canvas_of(prompt.tolist(), state[None], model.mask)
            (ours,), _, _ = ask(model, now, memory, now.revisable())
            differences.append(ours - (theirs[:-1] if model.shift else theirs))
        worst = max(worst, *(float(part.abs().max()) for part in differences))
        scale = max(scale, float(fresh.abs().max()))
    assert worst <= 5e-6
    assert scale > 3, "logits of a realistic size"


@torch.no_grad()
@pytest.mark.parametrize("shift", [False, True])
def test_a_causal_twin_is_told_apart(shift: bool) -> None:
    model = backbone(shift)
    prompt, response = ids(9, 1), ids(7, 2)
    canvas = canvas_of(prompt.tolist(), response[None], model.mask)
    (ours,), _, _ = ask(model, canvas, blank(model.network, canvas), canvas.everything())
    twin = library_twin(model.network)
    twin.config.is_causal = True
    for layer in twin.model.layers:
        layer.self_attn.is_causal = True
    raw = twin(torch.cat((prompt, response))[None]).logits[0]
    assert (ours - naive.aligned(raw, 9, shift)).abs().max() > 0.1


def part_of(model: Backbone, canvas: Canvas, memory: Memory, asked: Flags) -> Question:
    """Its share of a pass with others."""
    frame = layout.Frame.of(canvas, memory.slots, tuple(range(canvas.rows)))
    plan = layout.plan(asked, canvas.reads, frame, shift=model.shift, device=torch.device("cpu"))
    return Question(canvas, plan, memory)


@pytest.mark.parametrize("shift", [False, True])
def test_unequal_prompts_with_different_columns_share_one_pass(shift: bool) -> None:
    """The first is refreshed, the second reads its cache, the third has another length: each as if alone."""
    model = backbone(shift, dtype=torch.float64)
    prompts = [ids(6, 1), ids(6, 2), ids(11, 3)]
    anchors, responses = ids(24, 4).view(3, 8), ids(24, 5).view(3, 8)
    parts = []
    for number, prompt in enumerate(prompts):
        first = canvas_of(prompt.tolist(), anchors[number][None], model.mask)
        memory = blank(model.network, first)
        ask(model, first, memory, first.everything())
        second = canvas_of(prompt.tolist(), responses[number][None], model.mask)
        asked = second.everything() if number == 0 else second.revisable()
        parts.append(part_of(model, second, memory, asked))
    assert [part.layout.full for part in parts] == [(True,), (False,), (False,)]
    assert [part.layout.fed for part in parts] == [(14,), (8 + shift,), (8 + shift,)]
    expected = [
        naive.full(model.network, prompts[0], responses[0], shift),
        naive.cached(model.network, prompts[1], anchors[1], responses[1], shift),
        naive.cached(model.network, prompts[2], anchors[2], responses[2], shift),
    ]
    for answer, theirs in zip(run(model.network, parts), expected, strict=True):
        assert (answer.rows[0].values - theirs).abs().max() < 1e-10


@pytest.mark.parametrize("shift", [False, True])
def test_rows_with_different_columns_share_one_pass(shift: bool) -> None:
    """Of two samples one is refreshed and the other reads its cache: each as if alone."""
    model = backbone(shift, dtype=torch.float64)
    prompt = ids(6, 1)
    anchors, responses = ids(16, 4).view(2, 8), ids(16, 5).view(2, 8)
    first = canvas_of(prompt.tolist(), anchors, model.mask)
    memory = blank(model.network, first)
    ask(model, first, memory, first.everything())
    second = canvas_of(prompt.tolist(), responses, model.mask)
    rows, _, plan = ask(model, second, memory, second.revisable() | np.array([[True], [False]]))
    assert plan.full == (True, False)
    assert plan.fed == (14, 8 + shift)
    expected = [
        naive.full(model.network, prompt, responses[0], shift),
        naive.cached(model.network, prompt, anchors[1], responses[1], shift),
    ]
    for ours, theirs in zip(rows, expected, strict=True):
        assert (ours - theirs).abs().max() < 1e-10


@pytest.mark.parametrize("shift", [False, True])
def test_cached_passes_leave_the_prompt_alone_and_read_no_old_response(shift: bool) -> None:
    model = backbone(shift)
    prompt, anchor, response = ids(12, 1), ids(8, 2), ids(8, 3)
    canvas = canvas_of(prompt.tolist(), anchor[None], model.mask)
    memory = blank(model.network, canvas)
    ask(model, canvas, memory, canvas.everything())
    kept = 12 - int(shift)
    before = [memory.store.keys[..., :kept, :].clone(), memory.store.values[..., :kept, :].clone()]
    now = canvas_of(prompt.tolist(), response[None], model.mask)
    (clean,), _, _ = ask(model, now, memory, now.revisable())
    memory.store.keys[..., kept:, :] = torch.nan
    memory.store.values[..., kept:, :] = torch.nan
    (poisoned,), _, _ = ask(model, now, memory, now.revisable())
    assert torch.equal(clean, poisoned)
    assert torch.equal(before[0], memory.store.keys[..., :kept, :])
    assert torch.equal(before[1], memory.store.values[..., :kept, :])


@given(st.booleans(), st.integers(0, 2**20), st.sets(st.integers(0, 11), min_size=1))
def test_any_set_of_columns_is_computed_where_it_stands(
    shift: bool, seed: int, chosen: set[int]
) -> None:
    """At an unchanged state, recomputing any columns in place gives the logits of a full pass there."""
    model = backbone(shift, dtype=torch.float64)
    prompt, response = ids(5, seed), ids(12, seed + 1)
    canvas = canvas_of(prompt.tolist(), response[None], model.mask)
    memory = blank(model.network, canvas)
    (fresh,), _, _ = ask(model, canvas, memory, canvas.everything())
    picked = np.zeros_like(canvas.reads)
    picked[0, [5 + column for column in chosen]] = True
    partial = replace(canvas, reads=picked)
    (some,), _, plan = ask(model, partial, memory, picked)
    assert (some - fresh[sorted(chosen)]).abs().max() < 1e-10
    assert plan.fed[0] == len(chosen | {c - 1 for c in chosen}) if shift else len(chosen)


@pytest.mark.parametrize("shift", [False, True])
def test_work_is_the_closed_form(shift: bool) -> None:
    model, extra = backbone(shift), int(shift)
    layers, p, g = 3, 10, 6
    canvas = canvas_of(list(range(p)), ids(g, 1)[None], model.mask)
    memory = blank(model.network, canvas)
    _, full, _ = ask(model, canvas, memory, canvas.everything())
    n = p + g
    assert full == Work(
        keys=layers * n,
        values=layers * n,
        mixed=(layers - 1) * n + g,
        pairs=(layers - 1) * n * n + g * n,
        scored=g,
    )
    _, cached, _ = ask(model, canvas, memory, canvas.revisable())
    rows = g + extra
    assert cached == Work(
        keys=layers * rows,
        values=layers * rows,
        mixed=(layers - 1) * rows + g,
        pairs=((layers - 1) * rows + g) * n,
        scored=g,
    )
    assert Work(1, 2, 3, 4, 5) + Work(5, 4, 3, 2, 1) == Work(6, 6, 6, 6, 6)


def test_an_attention_rule_hides_columns() -> None:
    """With the last response column hidden from all others, their logits do not depend on it."""
    model = backbone(dtype=torch.float64)
    outcomes = []
    for last in (3, 4):
        response = torch.tensor([[1, 2, last]])
        canvas = canvas_of([5, 6], response, model.mask)
        visible = np.ones((1, 5, 5), dtype=np.bool_)
        visible[0, :4, 4] = False
        ruled = replace(canvas, visible=visible)
        (logits,), _, _ = ask(model, ruled, blank(model.network, ruled), ruled.everything())
        outcomes.append(logits)
    assert torch.equal(outcomes[0][:2], outcomes[1][:2])
    assert not torch.equal(outcomes[0][2], outcomes[1][2])


def test_repeated_positions_are_honoured() -> None:
    """Explicit positions equal to the default change nothing, nor does a uniform shift."""
    model = backbone(dtype=torch.float64)
    canvas = canvas_of([5, 6, 7], torch.tensor([[1, 2, 3, 4]]), model.mask)
    outcomes = []
    for offset in (None, 0, 9):
        positions = None if offset is None else np.arange(7)[None] + offset
        placed = replace(canvas, positions=positions)
        (logits,), _, _ = ask(model, placed, blank(model.network, placed), placed.everything())
        outcomes.append(logits)
    assert torch.equal(outcomes[0], outcomes[1])
    assert (outcomes[0] - outcomes[2]).abs().max() < 1e-10


def test_columns_are_where_their_positions_say() -> None:
    """Without a causal mask order is nothing but positions: columns and positions reversed together
    give the same logits in reverse.
    """
    model = backbone(dtype=torch.float64)
    prompt, response, order = [5, 6, 7], torch.tensor([1, 2, 3, 4]), [3, 2, 1, 0]
    plain = canvas_of(prompt, response[None], model.mask)
    turned = replace(
        canvas_of(prompt, response[None, order], model.mask),
        positions=np.array([[0, 1, 2, 6, 5, 4, 3]]),
    )
    outcomes = [
        ask(model, canvas, blank(model.network, canvas), canvas.everything())[0][0]
        for canvas in (plain, turned)
    ]
    assert (outcomes[0][order] - outcomes[1]).abs().max() < 1e-10


def test_sixteen_bit_weights_give_sixteen_bit_logits_close_to_float32() -> None:
    """float16 on a CPU: the norm's statistics and the rotation are computed wider and cast back."""
    model = backbone()
    small = Backbone(copy.deepcopy(model.network).to(torch.float16), model.mask)
    canvas = canvas_of([5, 6, 7], torch.tensor([[1, 2, 3, 4]]), model.mask)
    (wide,), _, _ = ask(model, canvas, blank(model.network, canvas), canvas.everything())
    (narrow,), _, _ = ask(small, canvas, blank(small.network, canvas), canvas.everything())
    assert narrow.dtype == torch.float16
    assert (wide - narrow.float()).abs().max() < 0.1
