"""The network as a smooth function of the response's embeddings, and its derivative along a token.

Axes: L columns, G response columns, d width, V vocabulary.

The paper's continuous relaxation y = E(g). With the prompt's keys and values held it is the anchored map,
whose derivative lacks the path through the prompt.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from archer.model import Model
from archer.network.differentiable import KeysAndValues, hidden_states, spelled_attention
from archer.runs.manifest import RunRequest
from archer_studies.probes.branches import find_event
from archer_studies.probes.shadow_passes import walk
from archer_studies.study import Row


@dataclass(frozen=True)
class Derivatives:
    """Of the response's logits along one direction, [G, V] each."""

    fresh: Tensor
    """J_fresh: with the path through the prompt."""
    anchored: Tensor
    """J_anchor: the prompt's keys and values held where they are."""
    logits: Tensor

    @property
    def feedback(self) -> Tensor:
        """What the prompt adds: the derivative of the cache times that of the answer by the cache."""
        return self.fresh - self.anchored


def along(model: Model, tokens: Tensor, prompt: int, position: int, token: int) -> Derivatives:
    """Derivatives at the tokens Long[L] towards `token` from the mask at a response position."""
    network = model.network
    embedded = network.embed(tokens)
    ends = network.embed(torch.tensor([token, model.folder.mask], device=tokens.device))
    direction = torch.zeros_like(embedded[prompt:])
    direction[position] = ends[0] - ends[1]
    offered: list[tuple[Tensor, Tensor]] = []
    boundary = prompt - int(network.shape.shift)
    hidden_states(network, embedded[None], attention=spelled_attention, kept=offered)

    def answered(held: KeysAndValues | None) -> Callable[[Tensor], Tensor]:
        def logits(response: Tensor) -> Tensor:
            whole = torch.cat((embedded[:prompt], response))[None]
            (hidden,) = hidden_states(network, whole, attention=spelled_attention, held=held)
            return network.score(hidden[boundary : boundary + len(response)])

        return logits

    prompts = [(keys[:, :boundary], values[:, :boundary]) for keys, values in offered]
    logits, fresh = _forward_mode(answered(None), embedded[prompt:], direction)
    _, anchored = _forward_mode(answered(prompts), embedded[prompt:], direction)
    return Derivatives(fresh, anchored, logits)


def _forward_mode(
    function: Callable[[Tensor], Tensor], at: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor]:
    """Value and directional derivative. Torch's first use of forward mode warns about torch itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        result = torch.func.jvp(function, (at,), (direction,))
    return result[0], result[1]


def feedback_term(
    request: RunRequest, key: str, prompt: Sequence[int], confidence: float
) -> Row | None:
    """At the state after a problem's first confident token; None for a problem without one."""
    event = find_event(walk(request, prompt), confidence)
    if event is None:
        return None
    state = event.state
    tokens = torch.from_numpy(state.tokens[0]).to(request.model.network.device)
    derivatives = along(request.model, tokens, len(prompt), event.position, event.token)
    fresh, anchored = float(derivatives.fresh.norm()), float(derivatives.anchored.norm())
    return {
        "part": "event",
        "problem": key,
        "fresh": fresh,
        "anchored": anchored,
        "feedback": float(derivatives.feedback.norm()),
        "share": float(derivatives.feedback.norm()) / fresh if fresh > 0 else None,
        "own": _own(derivatives, event.position, event.token),
    }


def _own(derivatives: Derivatives, position: int, token: int) -> float:
    """What the term adds to the log-probability of the token itself: above 0 it confirms itself."""
    term, odds = derivatives.feedback[position].double(), derivatives.logits[position].double()
    return float(term[token] - (odds.softmax(dim=0) * term).sum())
