"""The law of the engine: an update of a request never depends on its company."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from numpy.typing import NDArray
from torch import Tensor

from archer.engine.batch import Batch, _fetch
from archer.engine.forward import Answer, Part, run
from archer.engine.transfer import packed
from archer.methods import build
from engine.mixes import Drawn, alone, backbone, draw_request, record, together

REQUESTS = 6
"""Requests that are decoded together."""


def mixed(seeds: range, *, swaps: float = 0.0) -> int:
    """Request-mixes that were compared; every one of them equal."""
    compared = 0
    for seed in seeds:
        draw = random.Random(seed)
        shift = bool(seed % 2)
        net = backbone(shift)
        requests = [draw_request(draw, shift) for _ in range(REQUESTS)]
        expected = [alone(request, net) for request in requests]
        for request, found, wanted in zip(
            requests, together(requests, net, draw, swaps=swaps), expected, strict=True
        ):
            assert found == wanted, (seed, request)
            compared += 1
    return compared


def test_requests_come_out_as_if_alone() -> None:
    assert mixed(range(24)) == 24 * REQUESTS


def test_requests_that_lose_their_keys_and_values_come_out_as_if_alone() -> None:
    assert mixed(range(1000, 1016), swaps=0.3) == 16 * REQUESTS


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
    monkeypatch.setattr("archer.engine.logits.to_host", counted)
    monkeypatch.setattr("archer.engine.batch.run", _as_on_a_device)
    batch: Batch[int] = Batch(net.network)
    for tag, request in enumerate(drawn):
        batch.add(tag, request.loop(net).walk(request.start(net)))
    found: list[Any] = [[] for _ in drawn]
    turns = 0
    while live := [tag for tag, walk in batch.walks.items() if not walk.done]:
        turns += 1
        for tag, step in batch.turn(live, lambda: False).steps:
            found[tag].append(record(step))
    assert found == expected
    assert len(transfers) == turns


def _as_on_a_device(network: Any, parts: Sequence[Part], *rest: Any) -> list[Answer]:
    answers = run(network, parts, *rest)
    _fetch(answers, parts[0].canvas.mask)
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_requests_come_out_as_if_alone(part: int) -> None:
    assert mixed(range(10_000 + part * 170, 10_000 + (part + 1) * 170)) == 170 * REQUESTS


@pytest.mark.slow
def test_a_thousand_swapped_requests_come_out_as_if_alone() -> None:
    assert mixed(range(20_000, 20_170), swaps=0.3) > 1000
