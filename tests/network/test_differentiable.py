"""The pass that can be differentiated: equal to the slow pass, whole or with a prompt that is held."""

import pytest
import torch
from torch import Tensor

from archer.network.differentiable import (
    Attention,
    fused_attention,
    hidden_states,
    spelled_attention,
)
from support import naive
from support.networks import backbone

PROMPT, LENGTH = 5, 4
KERNELS = pytest.mark.parametrize("attention", [fused_attention, spelled_attention])
SHIFTS = pytest.mark.parametrize("shift", [False, True])
"""With the shift, two query heads share a key head."""


def tokens(rows: int, seed: int = 0) -> Tensor:
    return torch.randint(40, (rows, PROMPT + LENGTH), generator=torch.Generator().manual_seed(seed))


@KERNELS
@SHIFTS
def test_every_row_is_as_in_the_slow_pass(attention: Attention, shift: bool) -> None:
    network = backbone(shift, 4, torch.float64).network
    drawn = tokens(3)
    hidden = hidden_states(network, network.embed(drawn), attention=attention)
    for row, states in zip(drawn, hidden, strict=True):
        torch.testing.assert_close(network.score(states), naive.forward(network, row)[0])


@KERNELS
@SHIFTS
def test_a_held_prompt_is_a_cached_pass(attention: Attention, shift: bool) -> None:
    net = backbone(shift, 4, torch.float64)
    network, boundary = net.network, PROMPT - int(shift)
    anchor, now = tokens(2, 1), tokens(2, 2)
    now[:, :PROMPT] = anchor[:, :PROMPT]
    kept: list[tuple[Tensor, Tensor]] = []
    hidden_states(network, network.embed(anchor), attention=attention, kept=kept)
    held = [(keys[:, :boundary], values[:, :boundary]) for keys, values in kept]
    hidden = hidden_states(network, network.embed(now), attention=attention, held=held)
    for row in range(2):
        prompt, before = anchor[row].split([PROMPT, LENGTH])
        expected = naive.cached(network, prompt, before, now[row, PROMPT:], shift)
        scores = network.score(hidden[row, boundary : boundary + LENGTH])
        torch.testing.assert_close(scores, expected)


@SHIFTS
def test_both_kernels_have_the_same_gradient(shift: bool) -> None:
    network = backbone(shift, 4, torch.float64).network
    found = []
    for attention in (fused_attention, spelled_attention):
        embedded = network.embed(tokens(2)).clone().requires_grad_(True)
        hidden_states(network, embedded, attention=attention).pow(2).sum().backward()
        found.append(embedded.grad)
    assert found[0] is not None
    torch.testing.assert_close(found[0], found[1])
