"""What a model is taught, apart from how: a vocabulary, sequences, a measure of what was learnt, a card.

Axes: B rows, L columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tokenizers import Tokenizer

from archer.network.network import Transformer
from archer.pocket.tokenizer import MASK
from pocket_training.recipe import Recipe


@dataclass(frozen=True)
class Batch:
    """Rows of equal length: prompt, response, end marks."""

    tokens: list[list[int]]
    prompts: list[int]
    """Length of each row's prompt."""
    ends: list[int]
    """Column behind each row's answer."""
    shown: list[list[int]] = field(default_factory=list)
    """Columns of each row's response that are never masked; empty where any may be."""
    most: float = 1.0
    """Up to which rate responses are masked."""
    checked: float = 0.0
    """Share of the rows in which some of the shown tokens are wrong, and all of them are asked for."""


@dataclass(frozen=True)
class Watched:
    """What a model could do at some point of its training."""

    scores: dict[str, Any]
    answers: list[dict[str, str]]
    """The problems with what the model wrote."""


class Subject(ABC):
    """One kind of problem."""

    response: ClassVar[int]
    """Columns of a response, unless a user says otherwise."""
    card: ClassVar[str]
    """What the model card says of it, with the facts of the run in braces."""

    @abstractmethod
    def pieces(self) -> Sequence[str]:
        """The vocabulary in the order of its ids."""

    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """As it is written to tokenizer.json."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """What stands in tokenizer_config.json."""

    @abstractmethod
    def pool(self, recipe: Recipe, number: int, done: float) -> list[Batch]:
        """The n-th pool of training sequences; `done` is the share of the time spent."""

    @abstractmethod
    def watch(self, network: Transformer, number: int) -> Watched:
        """What the model makes of the first dev problems."""

    def token_id(self, name: str) -> int:
        """The id of a special token."""
        return list(self.pieces()).index(name)

    @property
    def mask(self) -> int:
        return self.token_id(MASK)
