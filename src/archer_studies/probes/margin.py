"""Saber's decision margin in closed form: how far logits may move before its action can change.

Axes: G response columns, m members, o others.

The paper's margin (its equation theory-margin) is the smallest largest-norm change of the logits that
changes the action. A change of at most e moves the log-odds of a column's likeliest token by at most 2 e,
each column by itself, and Saber's bar is history, so the action changes at the first of these events:

- an accepted column's token is overtaken: half its lead over the next token;
- a mask rises above the bar, or an accepted one falls to it: half the distance in log-odds;
- among the n surest a mask overtakes a member: a quarter, because both move;
- a token that stays loses more confidence than one that is taken back: the root of
  s(a - 2e) - p = s(b + 2e) - q, s the logistic function, which is a quadratic in exp(2e).

The result is a lower bound that is met unless a falling column's likeliest token changes on the way, which
only a placed token's can. It is of the action, not of the confidences that Saber remembers: those follow
the logits however small the change. For the released rule alone: greedy, argmax watched, float64.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from archer.decoders.base import Decision
from archer.decoders.saber import Saber, SaberState
from archer.errors import BadRequest
from archer.passes.canvas import Flags, Reals
from archer.passes.logits import Logits
from archer.passes.reduction import to_host

STEEPEST = 300.0
"""Log-odds are cut off here, far behind what float64 tells from certainty and before exp overflows."""


def saber_margin(saber: Saber, state: SaberState, logits: Logits, decision: Decision) -> float:
    """The margin of the one row's decision, which `saber` made from these logits."""
    if saber.watch != "argmax" or saber.temperature != 0 or saber.precision != "float64":
        raise BadRequest(
            "The margin is derived for Saber's greedy rule on the likeliest token in float64. "
            "Leave watch, temperature and precision at their defaults."
        )
    odds = log_odds(logits)
    return min(
        _token_margin(logits, decision.accepted[0]),
        _accept_margin(saber, state, odds, decision),
        _remask_margin(state, odds, decision),
    )


def log_odds(logits: Logits) -> Reals:
    """[G]: log of p / (1 - p) of each column's best token; 0 where nothing is known."""
    row, peaks = logits.rows[0], logits.peaks[0]
    best, top, rest = to_host(peaks.best.double(), peaks.top.double(), peaks.rest.double())
    others = np.where(best >= top, rest, 1.0 + rest - np.exp(best - top))
    odds = np.zeros(logits.answers)
    with np.errstate(divide="ignore"):
        steep = best - top - np.log(others)
    odds[list(row.places)] = steep.clip(-STEEPEST, STEEPEST)
    return odds


def _token_margin(logits: Logits, accepted: Flags) -> float:
    """Half the smallest lead of an accepted token."""
    row, peaks = logits.rows[0], logits.peaks[0]
    rivals = row.values.double().clone()
    rivals[:, logits.mask] = -torch.inf
    second = rivals.scatter(1, peaks.tokens[:, None], -torch.inf).max(dim=1).values
    lead = np.full(logits.answers, np.inf)
    (lead[list(row.places)],) = to_host(peaks.best - second)
    return _least(lead[accepted]) / 2


def _accept_margin(saber: Saber, state: SaberState, odds: Reals, decision: Decision) -> float:
    """The bar is compared in log-odds; without history it is 1, which nothing reaches."""
    accepted = decision.accepted[0]
    eligible = state.masked[0] & _read(saber, state)
    threshold = float(decision.threshold[0])
    bar = float(torch.logit(torch.tensor(threshold, dtype=torch.float64)))
    above = int((eligible & (decision.confidence[0] > threshold)).sum())
    weakest, surest = _least(odds[accepted]), -_least(-odds[eligible & ~accepted])
    margins = [math.inf]
    if above >= saber.n:
        margins.append((bar - surest) / 2)
    if above > saber.n:
        margins.append((weakest - bar) / 2)
    else:
        margins.append((weakest - surest) / 4)
    return max(0.0, min(margins))


def _read(saber: Saber, state: SaberState) -> Flags:
    """[G]: the columns that the rule looks at."""
    canvas = saber.canvas(state)
    return canvas.reads[0, canvas.response]


def _remask_margin(state: SaberState, odds: Reals, decision: Decision) -> float:
    """The first pair of a token that stays and one that goes whose order turns."""
    placed = ~state.masked[0] | decision.accepted[0]
    looked = placed & ~np.isnan(state.previous[0])
    goes, stays = looked & decision.remasked[0], looked & ~decision.remasked[0]
    before = state.previous[0]
    turned = turning(
        odds[stays][None, :], before[stays][None, :], odds[goes][:, None], before[goes][:, None]
    )
    return _least(turned.flatten())


def turning(falls: Reals, falls_from: Reals, rises: Reals, rises_from: Reals) -> Reals:
    """The e at which s(falls - 2e) - falls_from equals s(rises + 2e) - rises_from, at least 0; broadcasts.

    With k = falls_from - rises_from, h = cosh((falls + rises) / 2) and
    y = exp(2e - (falls - rises) / 2) it is (1 + k) y^2 + 2 k h y - (1 - k) = 0.
    """
    k = falls_from - rises_from
    h = np.cosh((falls + rises) / 2)
    root = np.sqrt(k * k * h * h + 1 - k * k)
    with np.errstate(divide="ignore", invalid="ignore"):  # both forms of y are worked out
        y = np.where(k > 0, (1 - k) / (root + k * h), (root - k * h) / (1 + k))
        return np.maximum((falls - rises) / 4 + np.log(y) / 2, 0.0)


def _least(values: Reals) -> float:
    """The minimum; inf of nothing."""
    return float(values.min(initial=np.inf))
