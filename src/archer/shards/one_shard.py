"""What every shard does in a pass: compute, and compare with the others what all must have in common."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from archer.errors import ShardLost
from archer.network.group import Group
from archer.network.network import Transformer
from archer.passes import split_vocabulary
from archer.passes.reduction import Peaks
from archer.passes.split_vocabulary import Words

BITS = 48
"""Of a digest: as many as a float64 holds exactly, and some to spare."""
WHOLE = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By bytes per number: how its bits are read."""
EVERY = 64
"""Passes between two comparisons on an accelerator, where each would make the host wait."""


@dataclass(frozen=True, eq=False)
class PassLogits:
    """The logits of a pass on one shard, and the questions that all shards answer together about them.

    Axes: N' scored columns, W tokens of this shard.
    """

    words: Words
    values: Tensor
    """[N', W]"""
    peaks: Peaks
    """Over the whole vocabulary."""

    def answer(self, question: str, rows: slice, given: dict[str, Any]) -> Any:
        """What `SplitLogits` asks, for some of the columns; every shard must be asked."""
        words, values = self.words, self.values[rows]
        with torch.inference_mode():
            match question:
                case "entropy":
                    return split_vocabulary.entropy(words, values, self.peaks[rows])
                case "second_best":
                    return split_vocabulary.second(words, values, self.peaks[rows])
                case "logit_of":
                    tokens = torch.tensor(given["tokens"], dtype=torch.long, device=values.device)
                    return split_vocabulary.logits_of(words, values, tokens)
                case "drawn":
                    return split_vocabulary.drawn(words, values, **given)
                case "likeliest":
                    return split_vocabulary.likeliest(words, values, **given)
                case "whole":
                    return split_vocabulary.whole(words, values)
        raise AssertionError(question)


class OneShard:
    """One shard, first or not.

    Two things are digested: the orders that were given, and the bits of the last hidden states, which are the
    same everywhere as long as every sum, every router and every rule inside a layer came out the same.  A
    shard with other weights is not seen by this, because its share of a sum reaches all of them alike: files
    are compared before loading, in `agreement`.
    """

    def __init__(self, group: Group, vocabulary: int, mask: int) -> None:
        self.group = group
        self.words = Words(group, vocabulary, mask)
        self._orders = hashlib.blake2b(digest_size=BITS // 8)
        self._hidden = torch.zeros(())
        self._passes = 0

    def joins(self, network: Transformer) -> None:
        """Make a network of this shard's shape part of the group."""
        for index in range(network.shape.layers):
            network.layer(index).group = self.group
        network.one_shard = self

    @property
    def first_token(self) -> int:
        first: int = self.words.span.start
        return first

    def embed(self, tokens: Tensor, embedding: Tensor) -> Tensor:
        return split_vocabulary.embed(self.words, tokens, embedding)

    def note(self, hidden: Tensor) -> None:
        bits = hidden.contiguous().view(WHOLE[hidden.element_size()])
        self._hidden = bits.sum(dtype=torch.int64) & ((1 << BITS) - 1)

    def pass_logits(self, raw: bytes, compute: Callable[[], Tensor]) -> PassLogits:
        """Make the pass that the message `told` orders; the logits, reduced and compared."""
        self._orders.update(raw)
        self._passes += 1
        scores = compute()
        order = int.from_bytes(self._orders.digest(), "big")
        digest = torch.tensor([order, self._passes, 0, 0], dtype=torch.float64)
        digest = digest.to(scores.device)
        digest[2] = self._hidden
        peaks, digests = split_vocabulary.joint_peaks(self.words, scores, digest)
        if scores.device.type == "cpu" or self._passes % EVERY == 0:
            compare(digests)
        return PassLogits(self.words, scores, peaks)


def compare(digests: Tensor) -> None:
    """[t, 4]: refuse to go on where a shard's differ from the first one's."""
    other = (digests != digests[0]).any(dim=1).nonzero().flatten().tolist()
    if other:
        raise ShardLost(
            f"Shard {other[0] + 1} of {len(digests)} came to other numbers than the first. Nothing that was "
            "decided since can be trusted: check that all shards have the same files, versions and devices."
        )
