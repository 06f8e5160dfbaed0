"""A mixture of experts: where a token row is sent, and the products of the experts that got rows.

Axes: N token rows, d width, E experts, k experts per row, f inner width of an expert.

Rows are sorted by expert, so that each expert makes one product for all of its rows and an expert without
rows makes none.  That is a loop over the experts, each of which adds to its rows before the next one begins,
or, on cards that have it, torch's grouped product, which leaves the number of rows per expert on the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.network.linear import Linear, Swiglu, wide
from archer.network.shape import Experts, Router

TOGETHER = 4
"""Rows of an expert are filled up to a multiple of this: processors take fewer rows through other code, and
what a row becomes must not depend on which others were sent to the same expert."""
GROUPED_DTYPE, GROUPED_SINCE = torch.bfloat16, (8, 0)
"""What torch's grouped product takes, and the compute capability it needs."""
TINY = 1e-20
"""Added to the sum that the released LLaDA2 divides its weights by."""


@dataclass(frozen=True)
class Sent:
    """Where each row goes, and how much of each answer it takes."""

    experts: Tensor
    """Long[N, k]"""
    weights: Tensor
    """[N, k], at least float32"""
    away: Tensor | None = None
    """Bool[N, k]: sent to an expert of another shard; None where all experts are here."""

    def to(self, experts: Experts) -> Sent:
        """The same, experts counted from the first that is here; those away get the number past them."""
        if experts.held is None:
            return self
        away = (self.experts < experts.first) | (self.experts >= experts.first + experts.held)
        own = (self.experts - experts.first).masked_fill(away, experts.held)
        return Sent(own, self.weights, away)


@dataclass(frozen=True, eq=False)
class Mixture:
    """The experts of a layer, and what sends rows to them."""

    sizes: Experts
    router: Linear
    """[E, d]"""
    bias: Tensor | None
    """[E]"""
    stack: Swiglu

    def __call__(self, normed: Tensor) -> Tensor:
        """[N, d] -> [N, d]"""
        return mixed(normed, self.send(normed), self.stack)

    def send(self, normed: Tensor) -> Sent:
        """[N, d] -> experts and weights of each row."""
        return send(normed, self.router, self.bias, self.sizes)


def send(normed: Tensor, router: Linear, bias: Tensor | None, experts: Experts) -> Sent:
    """[N, d] -> experts and weights of each row.  A near tie at the last place makes this discontinuous."""
    if experts.router in (Router.SOFTMAX, Router.RENORMALISED):
        scores = wide(router(normed)).softmax(dim=-1)
        weights, chosen = scores.topk(experts.active, dim=-1)
        if experts.router is Router.RENORMALISED:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return Sent(chosen, weights).to(experts)
    scores = Linear(wide(router.values))(wide(normed)).sigmoid()
    ranked = scores if bias is None else scores + bias
    chosen = _in_best_groups(ranked, experts).topk(experts.active, dim=-1).indices
    weights = scores.gather(-1, chosen)
    if experts.active > 1:
        weights = weights / (weights.sum(dim=-1, keepdim=True) + TINY)
    return Sent(chosen, weights * experts.scale).to(experts)


def mixed(normed: Tensor, sent: Sent, stack: Swiglu) -> Tensor:
    """[N, d] -> [N, d]: the weighted answers of each row's experts, summed in at least float32."""
    way = grouped if can_group(normed, stack) else in_turn
    return way(normed, sent, stack).to(normed.dtype)


def can_group(normed: Tensor, stack: Swiglu) -> bool:
    """Whether torch's grouped product serves here; where there is no data nothing else can."""
    if stack.gate_up.scale is not None:
        return False
    if normed.is_cuda and normed.dtype == GROUPED_DTYPE:
        return torch.cuda.get_device_capability(normed.device) >= GROUPED_SINCE
    return normed.is_meta


def _in_best_groups(ranked: Tensor, experts: Experts) -> Tensor:
    """[N, E]: minus infinity outside the groups whose two best experts have the largest sum."""
    groups = ranked.unflatten(-1, (experts.groups, -1))
    best = groups.topk(2, dim=-1).values.sum(dim=-1).topk(experts.kept_groups, dim=-1).indices
    left_out = torch.ones_like(groups[..., 0], dtype=torch.bool).scatter_(-1, best, False)
    kept: Tensor = groups.masked_fill(left_out[..., None], -torch.inf)
    return kept.flatten(-2)


def in_turn(normed: Tensor, sent: Sent, stack: Swiglu) -> Tensor:
    """[N, d] -> [N, d], one expert after the other; the host learns who got how many rows.

    What fills an expert's rows up are rows of the experts that follow, whose answers are dropped.
    """
    chosen, held = sent.experts.flatten(), len(stack.gate_up.values)
    order = chosen.argsort(stable=True)
    rows = F.pad(_row_of(order, sent), (0, TOGETHER - 1))
    weights = sent.weights.flatten()[order, None]
    summed = torch.zeros_like(normed, dtype=weights.dtype)
    first = 0
    for expert, count in enumerate(chosen.bincount(minlength=held)[:held].tolist()):
        if count:
            last = first + count
            taken = normed.index_select(0, rows[first : last + -count % TOGETHER])
            answers = wide(stack.expert(expert)(taken)[:count])
            summed.index_add_(0, rows[first:last], answers * weights[first:last])
            first = last
    return summed


def grouped(normed: Tensor, sent: Sent, stack: Swiglu) -> Tensor:
    """The same by torch's grouped product."""
    chosen = sent.experts.flatten()
    order = chosen.argsort(stable=True)
    taken = normed[_row_of(order, sent)]
    experts = torch.arange(len(stack.gate_up.values), device=normed.device)
    ends = torch.searchsorted(chosen[order], experts, right=True).int()
    gate, up = F.grouped_mm(taken, stack.gate_up.values.mT, offs=ends).chunk(2, dim=-1)
    outputs = F.grouped_mm(F.silu(gate) * up, stack.down.values.mT, offs=ends)
    answers = torch.empty_like(outputs).index_copy_(0, order, outputs)
    answers = answers.view(*sent.experts.shape, normed.shape[1])
    if sent.away is not None:
        answers = answers.masked_fill(sent.away[..., None], 0.0)
    summed: Tensor = (wide(answers) * sent.weights[..., None]).sum(dim=1)
    return summed


def _row_of(order: Tensor, sent: Sent) -> Tensor:
    """Long[N * k] -> the same: the row that each place of the flattened choice belongs to."""
    return order.div(sent.experts.shape[1], rounding_mode="floor")
