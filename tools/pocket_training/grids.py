"""The subject of pocket-sudoku: a grid whose cells are masked at random, few of them at first, later all.

The prompt is the size of the grid. The response is the grid, a line for every row, and an end mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import ClassVar

import torch
from tokenizers import Tokenizer
from torch import Tensor

from archer.network.network import Transformer
from archer.pocket import grids
from archer.pocket.tokenizer import ASSISTANT, BEGIN, END, MASK, SPECIAL, UNKNOWN, USER, build
from archer.pocket.tokenizer import settings as common
from pocket_training.generator.grids import solution
from pocket_training.network import hidden_states
from pocket_training.recipe import Recipe
from pocket_training.subject import Batch, Subject, Watched


@dataclass(frozen=True)
class Lesson:
    """When grids of a size are taught; shares are those of the time of the run."""

    weight: int
    """How many of them are drawn beside others."""
    begins: float
    """The share from which on they are taught."""
    all_masks: float
    """The share from which on any number of cells may be masked."""

    def most(self, done: float) -> float:
        """Up to which rate cells are masked: few at first, for with all rates at once nothing is learnt."""
        grown = (done - self.begins) / (self.all_masks - self.begins)
        return min(1.0, FEWEST_MASKS + (1.0 - FEWEST_MASKS) * grown)


LESSONS = {4: Lesson(1, 0.0, 0.4), 6: Lesson(3, 0.0, 0.4), 9: Lesson(8, 0.27, 0.65)}
FEWEST_MASKS = 0.25
RESPONSE = 90
"""Columns of the largest grid: digits, line breaks and an end mark."""
TOKENS = 1536
"""Tokens of a batch, about."""
FREE_LINES = 0.1
"""Share of the rows whose line breaks and end mark may be masked like cells."""
CHECKED = 0.25
"""Share of the rows in which some of the shown digits are wrong. A model that has only ever seen right ones
copies what stands in a cell, and never doubts it."""
SURE = 0.9
"""What is placed at once where several digits are."""
PIECES = (UNKNOWN, *SPECIAL, "\n", grids.EMPTY, *"123456789", *map(grids.message, grids.BOXES))
PATTERN = r"a [469]x[469] grid|[\s\S]"
TEMPLATE = (
    "{{ bos_token }}"
    "{%- for message in messages -%}"
    "{%- set mark = '<|assistant|>' if message['role'] == 'assistant' else '<|user|>' -%}"
    "{{ mark + message['content'].strip() }}"
    "{%- if mark == '<|assistant|>' -%}{{ '<|eos|>' }}{%- endif -%}"
    "{%- endfor -%}"
    "{{ '<|assistant|>' }}"
)

_CARD = """\
---
license: apache-2.0
---
# {name}

A masked diffusion language model of {parameters:.1f} million parameters ({layers} layers of
{width}, {vocabulary} tokens) in {manner}. It fills Sudoku grids of 4x4, of 6x6 (boxes of two lines
and three columns) and of 9x9 cells. It is made to study decoders that take tokens back on a laptop.

## How to ask

The message is the size, such as `a 9x9 grid`. The response is the grid, a line for every row, and
an end mark: 20 tokens for 4x4, 42 for 6x6, 90 for 9x9. Digits that are known are given in their
places in the response, and so are the line breaks; the cells in between are gaps of a token each.
From nothing but masks it writes a grid of its own.

## How it was made

Trained from nothing on full grids drawn at random: {sequences:,} sequences in {minutes:.0f} minutes
on a CPU, seed {seed}. The objective is that of LLaDA's fine-tuning: cells are masked at a rate
drawn per example, and the loss on them is weighted by one over the rate. The rates are below a
quarter at first and any later, and grids of 9x9 join after a quarter of the time. No puzzle was
shown, no order of filling either: the model knows how likely each digit is given some of the
others, so it is unsure where a puzzle takes several steps, and it makes mistakes. In a quarter of
the rows some of the shown digits were wrong and the right ones asked for, so it doubts a digit that
does not fit. The weights are a running average, stored in float16; compute in float32. Embedding
and head were trained as one tensor. The recipe is `make train MODEL={name}`.

## What it can and cannot do

The grids of the published puzzles were never trained on, nor any that differ from them only in the
names of the digits. There are only 288 grids of 4x4: all of them were. It knows nothing else. Check
what it writes: a grid is right if every row, column and box has every digit.

No personal data and no text by others was used. Licence: Apache-2.0.
"""


class Grids(Subject):
    """Full grids of the train split, in no order but that of their index."""

    response: ClassVar[int] = RESPONSE
    card: ClassVar[str] = _CARD

    def pieces(self) -> Sequence[str]:
        return PIECES

    def tokenizer(self) -> Tokenizer:
        return _tokenizer()

    def settings(self) -> dict[str, object]:
        return common() | {"chat_template": TEMPLATE}

    def pool(self, recipe: Recipe, number: int, done: float) -> list[Batch]:
        rng = Random(f"grids-{recipe.seed}-{number}")
        lessons = {size: each for size, each in LESSONS.items() if each.begins <= done}
        weights = [each.weight for each in lessons.values()]
        drawn: dict[int, list[list[int]]] = {size: [] for size in lessons}
        for size in rng.choices(list(lessons), weights, k=recipe.pool):
            drawn[size].append(row(solution(rng, "train", size)))
        batches = []
        for size, rows in drawn.items():
            count = max(1, TOKENS // len(rows[0])) if rows else 1
            most = lessons[size].most(done)
            parts = (rows[at : at + count] for at in range(0, len(rows), count))
            batches += [_batch(part, most, rng) for part in parts]
        rng.shuffle(batches)
        return batches

    def watch(self, network: Transformer, number: int) -> Watched:
        """The share of dev puzzles that are solved, a digit per update and all that are sure at once."""
        puzzles = grids.load("dev")[:number]
        slow, fast = (fill(network, puzzles, sure) for sure in (1.0, SURE))
        answers = [
            {"name": each.name, "givens": each.givens, "solution": each.solution, "cells": cells}
            for each, cells in zip(puzzles, slow, strict=True)
        ]
        return Watched({"solved": share(slow, puzzles), "at_once": share(fast, puzzles)}, answers)


def row(cells: str) -> list[int]:
    """The tokens of a grid with its prompt; a cell that is not given is a mask."""
    ids = {piece: index for index, piece in enumerate(PIECES)} | {grids.EMPTY: PIECES.index(MASK)}
    size = grids.message(grids.size_of(cells))
    return [ids[piece] for piece in (BEGIN, USER, size, ASSISTANT, *grids.lines(cells), END)]


def share(answers: Sequence[str], puzzles: Sequence[grids.Puzzle]) -> float:
    """How many of the grids are right."""
    right = [grids.solves(cells, each.givens) for cells, each in zip(answers, puzzles, strict=True)]
    return sum(right) / len(right)


@torch.no_grad()
def fill(network: Transformer, puzzles: Sequence[grids.Puzzle], sure: float) -> list[str]:
    """Puzzles of one size with their cells filled: at each update the surest digit and all above `sure`."""
    hole = PIECES.index(MASK)
    tokens: Tensor = torch.tensor([row(each.givens) for each in puzzles])
    while (open_cells := tokens == hole).any():
        scores = network.score(hidden_states(network, tokens).flatten(0, 1)).view(*tokens.shape, -1)
        scores[..., hole] = -torch.inf
        best = scores.softmax(dim=-1).max(dim=-1)
        confidence = best.values.masked_fill(~open_cells, -1.0)
        placed = (confidence == confidence.amax(1, keepdim=True)) | (confidence > sure)
        tokens = torch.where(placed & open_cells, best.indices, tokens)
    breaks = PIECES.index("\n")
    cells = [at for at, token in enumerate(row(puzzles[0].solution)) if at >= 4 and token != breaks]
    return ["".join(_cell(line[at]) for at in cells[:-1]) for line in tokens.tolist()]


def _cell(token: int) -> str:
    """What stands in a cell; a sign where it is no digit."""
    return PIECES[token] if PIECES[token].isdigit() else UNKNOWN


def _batch(rows: list[list[int]], most: float, rng: Random) -> Batch:
    kept = {PIECES.index("\n"), PIECES.index(END)}
    lines = [column for column, token in enumerate(rows[0]) if token in kept]
    prompt = rows[0].index(PIECES.index(ASSISTANT)) + 1
    return Batch(
        tokens=rows,
        prompts=[prompt] * len(rows),
        ends=[len(rows[0])] * len(rows),
        shown=[[] if rng.random() < FREE_LINES else lines for _ in rows],
        most=most,
        checked=CHECKED,
    )


@cache
def _tokenizer() -> Tokenizer:
    return build(PIECES, PATTERN)
