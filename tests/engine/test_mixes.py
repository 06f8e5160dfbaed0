"""The law of the engine: an update of a request never depends on its company."""

from __future__ import annotations

import random

import pytest

from engine.mixes import alone, backbone, draw_request, together

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


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_requests_come_out_as_if_alone(part: int) -> None:
    assert mixed(range(10_000 + part * 170, 10_000 + (part + 1) * 170)) == 170 * REQUESTS


@pytest.mark.slow
def test_a_thousand_swapped_requests_come_out_as_if_alone() -> None:
    assert mixed(range(20_000, 20_170), swaps=0.3) > 1000
