"""Training sequences made on the fly: the n-th pool is the same on any machine.

A row is a prompt and a response filled with end marks up to the batch's length, so that no column is padding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tokenizers import Tokenizer

from archer.pocket import prompts
from archer.pocket.problems import Problem
from archer.pocket.tokenizer import END, token_id
from pocket_training.generator.problems import problem
from pocket_training.generator.published import worked_examples
from pocket_training.recipe import POOL
from pocket_training.subject import Batch

TOKENS = 4096
"""Tokens of a batch, about."""
RESPONSES = ((16, 32, 48, 64), (5, 2, 1, 1))
"""Least response lengths in training and their weights; the deployed length is the last."""
SHORTENED = 0.7
"""Share of the rows that show one assert only: more sequences in the same time."""
RESPONSE = RESPONSES[0][-1]
LONGEST = 704
"""Columns of a row at most; longer rows are left out."""


@dataclass(frozen=True)
class Row:
    """A tokenized prompt and response, and the least number of columns it wants."""

    prompt: list[int]
    response: list[int]
    columns: int


class Samples:
    """Draws rows: problems of the train split, said in different ways."""

    def __init__(self, tokenizer: Tokenizer, seed: int, size: int = POOL) -> None:
        self.tokenizer = tokenizer
        self.seed = seed
        self.size = size
        self.end = token_id(END)

    def pool(self, number: int, long_share: float = 0.0, candidates: int = 1) -> list[Batch]:
        """The batches of one pool, in random order; a batch has rows of about the same length.

        `long_share` of the rows have the long prompt; a pool with such rows is smaller. Of `candidates`
        problems the shortest is taken, which makes a pool easier and faster to learn from.
        """
        rng = Random(f"pool-{self.seed}-{number}")
        size = self.size if long_share == 0 else self.size // 4
        drawn = [
            self._row(_shortest(number * self.size + index, candidates), rng, long_share)
            for index in range(size)
        ]
        rows = [row for row in drawn if row.columns <= LONGEST and len(row.response) < RESPONSE]
        rows.sort(key=lambda row: row.columns)
        batches: list[Batch] = []
        while rows:
            count = max(1, min(len(rows), round(TOKENS / rows[0].columns)))
            batches.append(self._batch(rows[:count]))
            rows = rows[count:]
        rng.shuffle(batches)
        return batches

    def _row(self, task: Problem, rng: Random, long_share: float) -> Row:
        prompt, response = self._texts(task, rng, long_share)
        ids = self.tokenizer.encode(prompts.rendered(prompt), add_special_tokens=False).ids
        answer = self.tokenizer.encode(response, add_special_tokens=False).ids
        room = rng.choices(*RESPONSES)[0]
        columns = len(ids) + max(len(answer) + 1, room)
        return Row(ids, answer, columns)

    def _texts(self, task: Problem, rng: Random, long_share: float) -> tuple[str, str]:
        drawn = rng.random()
        if drawn < long_share:
            examples = worked_examples(task, rng.choice((2, 3, 3)))
            return prompts.long_message(task, examples), task.body
        if drawn < long_share + 0.03:
            example = problem("train", rng.randrange(20_000_000, 30_000_000), hidden=False)
            shown = f"Example 1\n{prompts.worked(example)}\n\nTask\n{prompts.message(task)}"
            return shown, task.body
        if drawn < long_share + 0.07:
            return prompts.message(task, header=False), task.header + task.body
        if rng.random() < SHORTENED:
            task = replace(task, visible=task.visible[:1])
        return prompts.message(task), task.body

    def _batch(self, rows: list[Row]) -> Batch:
        columns = max(row.columns for row in rows)
        filled = []
        for row in rows:
            placed = row.prompt + row.response
            filled.append(placed + [self.end] * (columns - len(placed)))
        return Batch(
            tokens=filled,
            prompts=[len(row.prompt) for row in rows],
            ends=[len(row.prompt) + len(row.response) for row in rows],
        )


def _shortest(index: int, candidates: int) -> Problem:
    """The problem of an index, or a shorter one from a far part of the train split."""
    drawn = [
        problem("train", index + place * 1_000_000_000, hidden=False) for place in range(candidates)
    ]
    return min(drawn, key=lambda task: len(task.statement) + len(task.body))
