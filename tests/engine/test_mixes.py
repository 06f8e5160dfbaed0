"""The law of the engine: an update of a request never depends on its company."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from numpy.typing import NDArray
from torch import Tensor

from archer.decoders.saber import Saber
from archer.engine.batch import Batch
from archer.engine.footprint import kept_bytes
from archer.methods.build import build
from archer.passes.canvas import Prompt
from archer.passes.reduction import packed
from archer.policies.prompt_cache import Archer
from archer.policies.surprise import Surprise
from engine.breaking import watching
from engine.mixes import (
    REBUILT,
    Drawn,
    alone,
    backbone,
    block_causal,
    draw_block_causal,
    draw_request,
    draw_resting,
    eight_bits,
    record,
    together,
)
from support.networks import Backbone

DrawOne = Callable[[random.Random, bool], Drawn]
REQUESTS = 6
"""Requests that are decoded together."""


def mixed(
    seeds: range,
    draw_one: DrawOne = draw_request,
    *,
    swaps: float = 0.0,
    nets: Callable[[bool], Backbone] = backbone,
) -> int:
    """Request-mixes that were compared; every one of them equal."""
    compared = 0
    for seed in seeds:
        draw = random.Random(seed)
        shift = bool(seed % 2)
        net = nets(shift)
        requests = [draw_one(draw, shift) for _ in range(REQUESTS)]
        expected = [alone(request, net) for request in requests]
        for request, found, wanted in zip(
            requests, together(requests, net, draw, swaps=swaps), expected, strict=True
        ):
            assert found == wanted, (seed, request)
            compared += 1
    return compared


MANY = (range(10_000 + part * 170, 10_000 + (part + 1) * 170) for part in range(10))


@pytest.mark.parametrize(
    "seeds", [range(24), *(pytest.param(part, marks=pytest.mark.slow) for part in MANY)]
)
def test_requests_come_out_as_if_alone(seeds: range) -> None:
    """In the slow suite, ten thousand of them."""
    assert mixed(seeds) == len(seeds) * REQUESTS


def draw_rebuilt(draw: random.Random, shift: bool) -> Drawn:
    """What can be swapped out and has to be filled again; among it requests that rest, and then cannot."""
    if not shift and draw.random() < 0.2:
        return draw_resting(draw)
    return draw_request(draw, shift, REBUILT)


@pytest.fixture
def rebuilds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The columns of every pass that filled again what a request had given back."""
    made: list[int] = []
    watching(
        monkeypatch,
        lambda parts: made.extend(p.columns for p in parts if not p.canvas.reads.any()),
    )
    return made


@pytest.mark.slow
def test_requests_that_lose_their_keys_and_values_come_out_as_if_alone(rebuilds: list[int]) -> None:
    assert mixed(range(1000, 1008), swaps=0.3) == 8 * REQUESTS
    before = len(rebuilds)
    assert mixed(range(1000, 1008), draw_rebuilt, swaps=0.5) == 8 * REQUESTS
    assert len(rebuilds) - before > 8 * REQUESTS


@pytest.mark.parametrize("ripe", [1, 2])
def test_what_rests_is_not_swapped_out(rebuilds: list[int], ripe: int) -> None:
    """Its keys and values are of passes after the anchor; the anchor's tokens do not give them."""
    net = backbone(False)
    rested = swapped = 0
    for seed in range(6):
        request = draw_resting(random.Random(seed), ripe)
        batch: Batch[int] = Batch(net.network)
        batch.walks[0] = walk = request.walk(net)
        found = []
        while not walk.done:
            resting = walk.pending.canvas.resting
            assert resting is not None
            if resting.any() and not walk.pending.recomputed.all():
                rested += 1
                assert not walk.can_swap_out
            if walk.can_swap_out:
                swapped += 1
                walk.swap_out()
            found += [record(step) for _, step in batch.turn([0], lambda: False).steps]
        assert found == alone(request, net), seed
    assert rested > 0
    assert len(rebuilds) > 0
    assert swapped > 0


@pytest.mark.thinned(4)
@pytest.mark.usefixtures("whole_numbers")
@pytest.mark.parametrize("swaps", [0.0, 0.4])
@pytest.mark.parametrize("eight_bits", [False, True])
def test_block_causal_requests_come_out_as_if_alone(swaps: float, eight_bits: bool) -> None:
    """Finished blocks of a response are kept, too; those that were swapped out are made anew."""
    net = block_causal(eight_bits=eight_bits)
    for seed in range(1 if eight_bits else 4):
        draw = random.Random(seed)
        requests = [draw_block_causal(draw) for _ in range(REQUESTS)]
        expected = [alone(request, net) for request in requests]
        assert together(requests, net, draw, swaps=swaps) == expected, seed


def test_blocks_of_other_sizes_are_other_questions() -> None:
    """The same tokens, read in the same columns, under two rules of who sees whom."""
    net = block_causal()
    prompt = (3, 1, 4, 1, 5)
    requests = [
        Drawn(build("llada2+archer", {"length": 11, "block": block}), prompt, 1, 0)
        for block in (4, 8)
    ]
    expected = [alone(request, net) for request in requests]
    assert together(requests, net, random.Random(0)) == expected


@pytest.mark.parametrize("rows", [1, 3])
def test_what_a_policy_notes_is_counted(rows: int) -> None:
    net = backbone(False)
    prompt = Prompt.of([3, 1, 4], net.mask, samples=rows)
    canvas = Saber().canvas(Saber().start(prompt, 9))
    noted = sum(array.nbytes for array in Surprise(6.0).start(canvas).values())
    assert noted > 0
    without = kept_bytes(net.network, Archer(), canvas)
    assert kept_bytes(net.network, Surprise(6.0), canvas) == without + noted


def test_walks_that_share_a_pass_share_one_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device, where every transfer makes the host wait."""
    transfers = []

    def counted(*tensors: Tensor) -> list[NDArray[Any]]:
        transfers.append(len(tensors))
        return packed(*tensors)

    net = backbone(False)
    methods = ("saber+archer:2", "confidence+eager", "confidence+dual")
    drawn = [Drawn(build(name, {"length": 6}), (3, at), 1, 0) for at, name in enumerate(methods)]
    expected = [alone(request, net) for request in drawn]
    monkeypatch.setattr("archer.passes.logits.to_host", counted)
    batch: Batch[int] = Batch(net.network)
    for tag, request in enumerate(drawn):
        batch.walks[tag] = request.walk(net)
    found: list[Any] = [[] for _ in drawn]
    turns = 0
    while live := [tag for tag, walk in batch.walks.items() if not walk.done]:
        turns += 1
        for tag, step in batch.turn(live, lambda: False).steps:
            found[tag].append(record(step))
    assert found == expected
    assert len(transfers) == turns


@pytest.mark.usefixtures("whole_numbers")
@pytest.mark.parametrize("draw_one", [draw_request, draw_rebuilt])
@pytest.mark.parametrize(
    "seeds", [range(2000, 2002), pytest.param(range(30_000, 30_170), marks=pytest.mark.slow)]
)
def test_in_eight_bits_requests_come_out_as_if_alone(seeds: range, draw_one: DrawOne) -> None:
    """Bit for bit, although the network is in float32: sums of whole numbers are exact in any company."""
    swaps = 0.5 if draw_one is draw_rebuilt else 0.0
    assert mixed(seeds, draw_one, swaps=swaps, nets=eight_bits) == len(seeds) * REQUESTS


@pytest.mark.slow
def test_a_thousand_swapped_requests_come_out_as_if_alone(rebuilds: list[int]) -> None:
    mixed(range(20_000, 20_170), draw_rebuilt, swaps=0.5)
    assert len(rebuilds) >= 1000
