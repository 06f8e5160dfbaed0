"""The loop: ask a policy what to recompute, run one pass, let the decoder decide, yield the step.

Terminal, traces, metrics and probes consume the steps; while they do, the loop is paused, so nothing they do
is timed.  An update is made in `walk` and a pass in `forward`, here as in `batch`, which does this for many
requests at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic

from archer.decoders.base import Decoder, State
from archer.engine.walk import Walk
from archer.network import pieces
from archer.network.network import Transformer
from archer.passes import layout
from archer.passes.forward import run
from archer.passes.memory import Memory
from archer.policies.base import Policy
from archer.results.step import Step


class Loop(Generic[State]):
    """The parts that stay the same from update to update: a network and a method."""

    def __init__(
        self,
        network: Transformer,
        decoder: Decoder[State],
        policy: Policy,
        *,
        compiled: bool = False,
    ) -> None:
        """`compiled`: see `pieces`."""
        self.network = network
        self.decoder = decoder
        self.policy = policy
        self.plans = layout.Plans(network.shape.shift, network.device)
        self.pieces = pieces.compiled() if compiled else pieces.PLAIN

    def walk(self, state: State, memory: Memory | None = None) -> Walk[State]:
        """One request's trajectory from `state` on; a cloned memory goes on where it was cloned."""
        return Walk(self, state, memory)

    def steps(self, state: State, memory: Memory | None = None) -> Iterator[Step[State]]:
        """Decode until every row is done; rows that are done already make no step."""
        walk = self.walk(state, memory)
        while not walk.done:
            wanted = walk.wants
            answer = run(self.network, [wanted], self.pieces)[0] if wanted is not None else None
            yield walk.advance(answer)
