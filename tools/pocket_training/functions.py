"""The subject of the pocket models: a short problem statement becomes the body of a Python function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from tokenizers import Tokenizer

from archer.network.network import Transformer
from archer.pocket import frozen
from archer.pocket import tokenizer as vocabulary
from pocket_training.recipe import Recipe
from pocket_training.samples import RESPONSE, Samples
from pocket_training.subject import Batch, Subject, Watched
from pocket_training.watch import score

_CARD = """\
---
license: apache-2.0
---
# {name}

A masked diffusion language model of {parameters:.1f} million parameters ({layers} layers of {width},
{vocabulary} tokens) in
{manner}.
It turns a short problem statement with assert-style tests into the body of a Python function. It is made
to study decoders and caches on a laptop.

## How to ask

The message is one sentence, two or three asserts and, as the last line, the header of the function:

    Write a function to count the numbers in nums that are greater than 5.
    assert solve([1, 7, 9]) == 2
    assert solve([2]) == 0
    def solve(nums):

The answer continues the header. Ask for a response of 64 tokens.

## How it was made

Trained from nothing on problems drawn from a grammar: {sequences:,} sequences in {minutes:.0f} minutes on a
CPU, seed {seed}. The objective is that of LLaDA's fine-tuning: response tokens are masked at a rate drawn
per example, and the loss on them is weighted by one over the rate. The weights are a running average,
stored in float16; compute in float32. Embedding and head were trained as one tensor. The recipe is
`make train MODEL={name}`.

## What it can and cannot do

It knows the problems of its grammar: lists, strings, numbers, dictionaries, conditions and short loops,
in a closed English vocabulary. Structures of the dev and test sets were never trained on. It does not
know anything else: no other wording, no other language, no facts, no conversation. Check what it writes
before you run it.

No personal data and no text by others was used. Licence: Apache-2.0.
"""


class Functions(Subject):
    """Problems of the grammar: short ones first, long prompts towards the end."""

    response: ClassVar[int] = RESPONSE
    card: ClassVar[str] = _CARD

    def pieces(self) -> Sequence[str]:
        return vocabulary.vocabulary()

    def tokenizer(self) -> Tokenizer:
        return _tokenizer()

    def settings(self) -> dict[str, object]:
        return vocabulary.settings()

    def pool(self, recipe: Recipe, number: int, done: float) -> list[Batch]:
        share = recipe.long_share if done >= recipe.long_from else 0.0
        candidates = 1 + math.ceil(3 * max(0.0, 1.0 - done / recipe.easy_until))
        samples = Samples(self.tokenizer(), recipe.seed, recipe.pool)
        return samples.pool(number, share, candidates)

    def watch(self, network: Transformer, number: int) -> Watched:
        """Pass@1, base and extended, with the families that fail."""
        problems = frozen.load("dev")[:number]
        result = score(network, self.tokenizer(), problems)
        answers = [
            {"name": task.name, "statement": task.statement, "reference": task.body, "body": body}
            for task, body in zip(problems, result.bodies, strict=True)
        ]
        scores = {"base": result.base, "extended": result.extended, "failed": result.failed}
        return Watched(scores, answers)


@cache
def _tokenizer() -> Tokenizer:
    return vocabulary.build()
