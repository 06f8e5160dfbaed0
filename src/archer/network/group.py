"""What the shards of a network say to each other: sums and gathers of tensors, and messages of the first.

Axes: N token rows, d width, t shards.

Everything that is sent is counted, so that the formula of docs/performance.md can be checked.  The protocols
say what a pass needs of the other shards; the first shard's network alone has `all_shards`, because the
others start no pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor
from torch import distributed as dist

from archer.errors import BadRequest, ShardLost
from archer.network.shard import Shard

if TYPE_CHECKING:
    from archer.passes.forward import Question
    from archer.passes.logits import SplitLogits
    from archer.passes.memory import Store

FIRST = 0
SMALLEST_NORM = 1e-8
"""What torch's cosine similarity takes for a norm below it."""


class ShardInPass(Protocol):
    """Any shard, while a pass is made."""

    @property
    def first_token(self) -> int:
        """The first id of its part of the vocabulary."""
        ...

    def embed(self, tokens: Tensor, embedding: Tensor) -> Tensor:
        """Long[N], this shard's rows of the embedding -> [N, d]"""
        ...

    def note(self, hidden: Tensor) -> None:
        """[N', d]: what all shards must have in common when a pass ends."""
        ...


class AllShards(Protocol):
    """All shards, as the first of them sees them."""

    @property
    def shards(self) -> int:
        """How many there are, with the first."""
        ...

    def make_pass(
        self, questions: Sequence[Question], compute: Callable[[], Tensor]
    ) -> Callable[[slice], SplitLogits]:
        """Make a pass with the others: this shard's share by `compute`, and the logits of any of its rows."""
        ...

    def copied(self, target: Store, source: Store, slots: tuple[int, int] | None) -> None:
        """Keys and values were copied: of a slot (target's, source's), or all of them."""
        ...

    def stage(self, name: str, tensor: Tensor) -> None:
        """Have the others make a new tensor of the checkpoint ready."""
        ...

    def agree_to_stage(self, *, sound: bool) -> bool:
        """Whether all shards were able to, this one, too, if it is `sound`; the others then take it over."""
        ...

    def when_lost(self, call: Callable[[ShardLost], None]) -> None:
        """Call this, on any thread, when another shard is lost."""
        ...

    def close(self) -> None:
        """Let the others go."""
        ...


@dataclass
class Traffic:
    """What one shard took part in; numbers are counted before they are multiplied by links."""

    sums: int = 0
    summed: int = 0
    """Numbers that were added up."""
    gathers: int = 0
    gathered: int = 0
    """Numbers that this shard gave."""
    messages: int = 0
    message_bytes: int = 0


class Group:
    """The shards as one of them sees them.  Tensors go by `data`, messages, on the host, by `control`."""

    def __init__(self, shard: Shard, data: dist.ProcessGroup, control: dist.ProcessGroup) -> None:
        self.shard = shard
        self.traffic = Traffic()
        self.computing = shard.rank != FIRST
        """Whether the other shards take part right now; those that follow always do."""
        self._data = data
        self._control = control

    def sum(self, share: Tensor) -> Tensor:
        """[...] -> the same, added up over all shards, in place."""
        self._check()
        self.traffic.sums += 1
        self.traffic.summed += share.numel()
        try:
            dist.all_reduce(share, group=self._data)
        except RuntimeError as error:
            raise _lost() from error
        return share

    def gather(self, own: Tensor) -> Tensor:
        """[...] of the same size everywhere -> [t, ...] everywhere."""
        self._check()
        self.traffic.gathers += 1
        self.traffic.gathered += own.numel()
        all_of_them = own.new_empty((self.shard.of, *own.shape))
        try:
            dist.all_gather(list(all_of_them.unbind(0)), own.contiguous(), group=self._data)
        except RuntimeError as error:
            raise _lost() from error
        return all_of_them

    def cosine(self, values: Tensor, others: Tensor) -> Tensor:
        """[n, w] twice, of which the other shards have the other columns -> [n]"""
        sums = (values * others, values * values, others * others)
        dots, own, other = self.sum(torch.stack([each.sum(dim=1) for each in sums]))
        norms = (own.sqrt().clamp(min=SMALLEST_NORM), other.sqrt().clamp(min=SMALLEST_NORM))
        cosines: Tensor = dots / (norms[0] * norms[1])
        return cosines

    def tell(self, message: bytes) -> None:
        """Send a message from the first shard to all others."""
        self.traffic.messages += 1
        self.traffic.message_bytes += len(message)
        body = torch.frombuffer(bytearray(message), dtype=torch.uint8)
        try:
            dist.broadcast(torch.tensor([len(body)]), FIRST, group=self._control)
            dist.broadcast(body, FIRST, group=self._control)
        except RuntimeError as error:
            raise _lost() from error

    def hear(self) -> bytes:
        """Wait for the next message of the first shard."""
        length = torch.zeros(1, dtype=torch.long)
        try:
            dist.broadcast(length, FIRST, group=self._control)
            body = torch.empty(int(length), dtype=torch.uint8)
            dist.broadcast(body, FIRST, group=self._control)
        except RuntimeError as error:
            raise _lost() from error
        return body.numpy().tobytes()

    def compare(self, own: bytes) -> list[bytes]:
        """What every shard gives, equally long everywhere; before the first pass, and not counted."""
        given = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        gathered = [torch.empty_like(given) for _ in range(self.shard.of)]
        try:
            dist.all_gather(gathered, given, group=self._control)
        except RuntimeError as error:
            raise _lost() from error
        return [each.numpy().tobytes() for each in gathered]

    def leave(self) -> None:
        """Be no part of it any more; another may be joined then."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def _check(self) -> None:
        if not self.computing:
            raise BadRequest(
                "This looks into the layers of a network by itself, which is possible on one device only. "
                "Load the model without shards."
            )


def _lost() -> ShardLost:
    return ShardLost("Another shard of the model ended, and none can go on alone. Start it again.")
