"""Reductions over a vocabulary that is spread over shards, against the same over the whole of it."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from archer.network.shard import Shard
from archer.passes import noise, split_vocabulary
from archer.passes.reduction import (
    Peaks,
    entropy_of,
    gumbel_argmax,
    logit_of,
    peaks_of,
    second_best,
)
from archer.passes.split_vocabulary import Words
from shards.pairs_of_models import Threads

DIGEST = torch.zeros(4, dtype=torch.float64)


def drawn_logits(rows: int, vocabulary: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 4 * torch.randn(rows, vocabulary, dtype=torch.float64, generator=generator)


def on_shards(values: Tensor, mask: int, count: int, ask: Callable[..., Any]) -> list[Any]:
    """What every shard answers, given its part of the logits."""

    def work(group: Any) -> Any:
        words = Words(group, values.shape[1], mask)
        own = values[:, words.span].contiguous()
        peaks, _ = split_vocabulary.joint_peaks(words, own, DIGEST)
        return ask(words, own, peaks)

    return Threads(count).run(work)


@given(
    rows=st.integers(0, 5),
    vocabulary=st.integers(8, 40),
    count=st.integers(2, 4),
    seed=st.integers(0, 99),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_every_reduction_is_that_of_the_whole(
    rows: int, vocabulary: int, count: int, seed: int, data: st.DataObject
) -> None:
    values = drawn_logits(rows, vocabulary, seed)
    mask = data.draw(st.integers(0, vocabulary - 1))
    tokens = torch.randint(vocabulary, (rows,), generator=torch.Generator().manual_seed(seed))
    kept = data.draw(st.integers(1, vocabulary + 2))
    if rows and data.draw(st.booleans()):
        values[0, mask] = values[0].max() + 1

    def ask(words: Words, own: Tensor, peaks: Peaks) -> dict[str, Any]:
        return {
            "peaks": peaks,
            "entropy": split_vocabulary.entropy(words, own, peaks),
            "second": split_vocabulary.second(words, own, peaks),
            "logits": split_vocabulary.logits_of(words, own, tokens),
            "drawn": split_vocabulary.drawn(words, own, 0.7, seed, 3),
            "likeliest": split_vocabulary.likeliest(words, own, kept),
            "whole": split_vocabulary.whole(words, own),
        }

    expected = peaks_of(values, mask)
    few = min(kept, vocabulary)
    top = values.topk(few, dim=1)
    for found in on_shards(values, mask, count, ask):
        assert found["peaks"].tokens.equal(expected.tokens)
        assert found["peaks"].best.equal(expected.best)
        assert found["peaks"].top.equal(expected.top)
        torch.testing.assert_close(found["peaks"].rest, expected.rest, rtol=1e-13, atol=0)
        whole_entropy = entropy_of(values, expected)
        torch.testing.assert_close(found["entropy"], whole_entropy, rtol=1e-12, atol=1e-13)
        assert found["second"].equal(second_best(values, expected.tokens, mask))
        assert found["logits"].equal(logit_of(values, tokens))
        generator = noise.stream(seed, 3, values.device)
        assert found["drawn"].equal(gumbel_argmax(values, 0.7, generator, mask))
        assert found["likeliest"][0].equal(top.values)
        assert found["likeliest"][1].equal(top.indices)
        assert found["whole"].equal(values)


def test_equal_logits_go_to_the_lowest_id() -> None:
    values = torch.zeros(3, 9, dtype=torch.float64)
    for found in on_shards(values, 0, 2, lambda words, own, peaks: peaks):
        assert found.tokens.tolist() == [1, 1, 1]
        assert found.rest.tolist() == [8.0, 8.0, 8.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_bad_number_on_any_shard_is_seen_on_all(bad: float) -> None:
    for place in (1, 7):
        values = drawn_logits(2, 10, 0)
        values[1, place] = bad
        for found in on_shards(values, 4, 2, lambda words, own, peaks: peaks):
            top, rest = found.top.tolist(), found.rest.tolist()
            assert math.isfinite(top[0])
            assert math.isfinite(rest[0])
            assert not (math.isfinite(top[1]) and math.isfinite(rest[1]))


def test_a_shard_with_nothing_but_minus_infinity_adds_nothing() -> None:
    values = drawn_logits(2, 10, 0)
    values[:, 5:] = -math.inf
    expected = peaks_of(values, 9)
    for found in on_shards(values, 9, 2, lambda words, own, peaks: peaks):
        assert found.tokens.equal(expected.tokens)
        torch.testing.assert_close(found.rest, expected.rest, rtol=1e-13, atol=0)


def test_the_embedding_of_every_token_comes_from_the_shard_that_has_it() -> None:
    table = drawn_logits(11, 3, 1)
    tokens = torch.tensor([10, 0, 5, 5, 4, 9])

    def work(group: Any) -> Tensor:
        words = Words(group, 11, 3)
        return split_vocabulary.embed(words, tokens, table[words.span])

    for found in Threads(3).run(work):
        assert found.equal(table[tokens])


def test_spans_cover_everything_once() -> None:
    for size in (1, 7, 12, 31):
        spans = [Shard(rank, 3).span(size) for rank in range(3)]
        assert [place for span in spans for place in range(size)[span]] == list(range(size))
