"""Truncated distributions in both released orders, against lists sorted by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from archer.decoders.dream import Dream
from archer.decoders.llada2 import LLaDA2, LLaDA2Edit
from archer.decoders.nucleus import truncated
from archer.passes.canvas import Prompt
from archer.passes.logits import Logits

MASK = 4


def by_hand(
    logits: list[float],
    temperature: float,
    top_p: float | None,
    top_k: int | None,
    *,
    top_k_first: bool,
    mask_weighs: bool,
) -> dict[int, float]:
    """What is left and how likely it is, one token after the other."""
    weights = {token: float(np.exp(z / temperature)) for token, z in enumerate(logits)}
    if not mask_weighs:
        del weights[MASK]

    def most(left: dict[int, float]) -> dict[int, float]:
        return dict(sorted(left.items(), key=lambda each: -each[1])[:top_k])

    def share(left: dict[int, float]) -> dict[int, float]:
        whole, before, kept = sum(left.values()), 0.0, {}
        for token, weight in sorted(left.items(), key=lambda each: -each[1]):
            if top_p is None or before <= top_p:
                kept[token] = weight
            before += weight / whole
        return kept

    left = share(most(weights)) if top_k_first else most(share(weights))
    best = max((token for token in weights if token != MASK), key=lambda token: weights[token])
    left.setdefault(best, weights[best])
    whole = sum(left.values())
    return {token: weight / whole for token, weight in left.items()}


@given(
    st.lists(st.floats(-4, 4), min_size=7, max_size=7, unique_by=lambda z: round(z, 3)),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([None, 0.31, 0.57, 0.83, 1.0]),
    st.sampled_from([None, 1, 2, 3, 6, 9]),
    st.booleans(),
    st.booleans(),
)
def test_truncation_is_what_lists_say(
    logits: list[float],
    temperature: float,
    top_p: float | None,
    top_k: int | None,
    top_k_first: bool,
    mask_weighs: bool,
) -> None:
    ways = {"top_k_first": top_k_first, "mask_weighs": mask_weighs}
    values = torch.tensor([[logits]], dtype=torch.float64)
    cut = truncated(Logits.dense(values, MASK), temperature, top_p, top_k, **ways)
    found = cut.rows[0].values[0].softmax(-1)
    wanted = by_hand(logits, temperature, top_p, top_k, **ways)
    assert set(found.nonzero().flatten().tolist()) == set(wanted)
    for token, chance in wanted.items():
        assert found[token].item() == pytest.approx(chance)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 7),
    st.sampled_from([None, 0.31, 0.83]),
    st.sampled_from([None, 1, 3]),
    st.booleans(),
    st.booleans(),
)
def test_a_few_columns_at_a_time_are_cut_and_drawn_as_all_at_once(
    seed: int, columns: int, top_p: float | None, top_k: int | None, first: bool, weighs: bool
) -> None:
    """However much is looked at together; ties included."""
    values = torch.randn((columns, 37), generator=torch.Generator().manual_seed(seed))
    logits = Logits.dense(values.mul(2).round()[None], MASK)
    cuts = []
    for chunk in (1, 37, 80, 1 << 22):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("archer.passes.logits.CHUNK", chunk)
            ways = {"top_k_first": first, "mask_weighs": weighs}
            cuts.append(truncated(logits, 0.7, top_p, top_k, **ways))
    *others, whole = cuts
    for cut in others:
        assert torch.equal(cut.rows[0].values, whole.rows[0].values)
        drawn = [each.sampled(1.0, [5], [2]).tokens[0] for each in (cut, whole)]
        assert torch.equal(*drawn)


def test_what_a_cut_needs_meanwhile_does_not_grow_with_the_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    sort = torch.Tensor.sort

    def counted(self: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        looked.append(self.numel())
        return sort(self, *arguments, **options)

    monkeypatch.setattr(torch.Tensor, "sort", counted)
    monkeypatch.setattr("archer.passes.logits.CHUNK", 1 << 12)
    truncated(Logits.dense(torch.randn(1, 96, 1 << 10), MASK), 1.0, 0.9, None)
    assert looked == [1 << 12] * 24


SHARES = [0.4, 0.3, 0.2, 0.1]


def drawn_by(decoder: Any, shares: list[float]) -> tuple[set[int], set[float]]:
    """Tokens and confidences of a few hundred columns with the same distribution."""
    columns = 400
    values = torch.tensor(shares, dtype=torch.float64).log().expand(1, columns, len(shares))
    state = decoder.start(Prompt.of([1] * columns, MASK), columns)
    _, decision = decoder.step(state, Logits.dense(values, MASK))
    sure = decision.confidence[~np.isnan(decision.confidence)]
    return set(decision.tokens[0].tolist()), set(sure.round(6).tolist())


@pytest.mark.parametrize("released", [LLaDA2, LLaDA2Edit])
def test_each_released_sampler_cuts_in_its_own_order(released: Any) -> None:
    """Of two tokens that top-k leaves the first has 0.571, so that top-p 0.5 leaves it alone."""
    limits: dict[str, Any] = {"temperature": 1.0, "top_k": 2, "top_p": 0.5}
    tokens, sure = drawn_by(released(block=400, **limits), [*SHARES, 1e-12])
    assert tokens == {0}
    assert sure == {1.0}
    tokens, sure = drawn_by(Dream(steps=1, **limits), [*SHARES, 1e-12])
    assert tokens == {0, 1}


@pytest.mark.parametrize("released", [LLaDA2, LLaDA2Edit])
def test_the_mask_id_keeps_its_probability_and_is_never_drawn(released: Any) -> None:
    """Half of it is the mask id's: the others have what the released code gives them."""
    shares = [share / 2 for share in SHARES] + [0.5]
    tokens, sure = drawn_by(released(block=400, temperature=1.0), shares)
    assert tokens == {0, 1, 2, 3}
    assert sure == {0.2, 0.15, 0.1, 0.05}
    tokens, sure = drawn_by(released(block=400, temperature=1.0, top_k=1), shares)
    assert tokens == {0}
    assert sure == {round(0.2 / 0.7, 6)}
    tokens, sure = drawn_by(Dream(steps=1, temperature=1.0), shares)
    assert tokens == {0, 1, 2, 3}
    assert sure == {0.4, 0.3, 0.2, 0.1}
