"""What a pass needs of the other shards, where the network is one of several.

Only protocols: the engine knows neither processes nor messages.  The first shard's network has `all_shards`,
which tells the others what to compute; those have none, because they start no pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from archer.errors import ShardLost

if TYPE_CHECKING:
    from archer.passes.forward import Question
    from archer.passes.logits import SplitLogits
    from archer.passes.memory import Store


class ShardInPass(Protocol):
    """Any shard, while a pass is made."""

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
        self, parts: Sequence[Question], compute: Callable[[], Tensor]
    ) -> Callable[[slice], SplitLogits]:
        """Make a pass with the others: this shard's share by `compute`, and the logits of any of its rows."""
        ...

    def copied(self, target: Store, source: Store, slots: tuple[int, int] | None) -> None:
        """Keys and values were copied: of a slot (target's, source's), or all of them."""
        ...

    def when_lost(self, call: Callable[[ShardLost], None]) -> None:
        """Call this, on any thread, when another shard is lost."""
        ...

    def close(self) -> None:
        """Let the others go."""
        ...
