"""The model card of an embedded model."""

from __future__ import annotations

from archer.network.network import Shape
from pocket_training.checkpoint import Progress
from pocket_training.variants import Variant

_TEXT = """\
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


def card(variant: Variant, shape: Shape, progress: Progress) -> str:
    """README.md of the exported folder."""
    bias = 3 * shape.width * shape.qkv_bias
    layer = bias + 4 * shape.width**2 + 3 * shape.width * shape.inner + 2 * shape.width
    total = 2 * shape.vocabulary * shape.width + shape.layers * layer + shape.width
    return _TEXT.format(
        name=variant.name,
        manner=variant.manner,
        parameters=total / 1e6,
        layers=shape.layers,
        width=shape.width,
        vocabulary=shape.vocabulary,
        sequences=progress.sequences,
        minutes=progress.minutes,
        seed=progress.seed,
    )
