"""The logits of a pass on one shard, and the questions about them that all shards answer together.

Axes: n columns of a row, W tokens of this shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from archer.passes import split_vocabulary
from archer.passes.reduction import Peaks
from archer.passes.split_vocabulary import Words


@dataclass(frozen=True, eq=False)
class PassLogits:
    """The scored columns of one pass."""

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
