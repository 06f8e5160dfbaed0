"""Saber and LLaDA-Confidence for one row, on lists of numbers, one update after the other."""

import math
from dataclasses import dataclass, field


@dataclass
class SaberRow:
    """The state of one response; `update` applies the rule to confidences and tokens of every position."""

    length: int
    block: int
    n: int
    mu: int
    rollback: bool = True
    doubt: float | None = None
    doubt_by: str = "confidence"
    cap: float = 1.0
    response: list[int | None] = field(init=False)
    accepted_at: dict[int, float] = field(default_factory=dict)
    previous: list[float | None] = field(init=False)
    current: int = 0
    done: bool = False

    def __post_init__(self) -> None:
        self.response = [None] * self.length
        self.previous = [0.0] * self.length

    def update(
        self, confidence: list[float], tokens: list[int], chances: list[list[float]] | None = None
    ) -> tuple[list[int], list[int], float]:
        """Accepted positions, re-masked positions, and the bar; `chances` of every token, to doubt by."""
        end = (self.current + 1) * self.block
        change = {}
        for i in range(end):
            last = self.previous[i]
            change[i] = math.inf if last is None else confidence[i] - last
        self.previous = [confidence[i] if i < end else None for i in range(self.length)]
        history = [sure for i, sure in self.accepted_at.items() if i < end]
        bar = min(sum(history) / len(history) if history else 1.0, self.cap)
        masks = [i for i in range(end) if self.response[i] is None]
        accepted = [i for i in masks if confidence[i] > bar]
        if len(accepted) < self.n:
            accepted = sorted(masks, key=lambda i: (-confidence[i], i))[: self.n]
        for i in accepted:
            self.response[i] = tokens[i]
            self.accepted_at[i] = confidence[i]
        if None not in self.response:
            self.done = True
            return sorted(accepted), [], bar
        if None not in self.response[:end]:
            self.current += 1
            return sorted(accepted), [], bar
        count = min(max(self.n // 2, math.ceil(len(accepted) / self.mu)), len(accepted) - 1)
        placed = [
            i
            for i in range(end)
            if (token := self.response[i]) is not None
            and self._doubted(i, token, confidence[i], chances)
        ]
        count = count if self.rollback else 0
        remasked = sorted(placed, key=lambda i: (change[i], i))[:count]
        for i in remasked:
            self.response[i] = None
        return sorted(accepted), sorted(remasked), bar

    def _doubted(self, i: int, token: int, sure: float, chances: list[list[float]] | None) -> bool:
        if self.doubt is None:
            return True
        if self.doubt_by == "confidence":
            return sure < self.doubt
        if self.doubt_by == "kept":
            return sure / self.accepted_at[i] < self.doubt
        assert chances is not None
        if self.doubt_by == "own":
            return chances[i][token] < self.doubt
        if self.doubt_by == "rival":
            likeliest = max(chances[i])
            return chances[i][token] < likeliest and 1 - likeliest < self.doubt
        if self.doubt_by == "moved":
            return 1 - round(abs(chances[i][token] - self.accepted_at[i]), 12) < self.doubt
        first, second, *_ = sorted(chances[i], reverse=True)
        return first - second < self.doubt


def rcr_rule(
    filled: dict[int, float], block: range, confidence: list[float], owed: int
) -> tuple[list[int], dict[int, float]]:
    """Columns of a block that are masks after an update, and how sure the others were when filled."""
    sure = {i: filled.get(i, confidence[i]) for i in block}
    masks = sorted(sorted(block, key=lambda i: (sure[i], i))[:owed])
    return masks, {i: sure[i] for i in block if i not in masks}


def schedule(length: int, block: int, steps: int) -> list[int]:
    """How many masks each update of the confidence schedule fills."""
    blocks = length // block
    each = steps // blocks
    share, extra = divmod(block, each)
    return ([share + 1] * extra + [share] * (each - extra)) * blocks


def confidence_rule(
    response: list[int | None], end: int, count: int, confidence: list[float]
) -> list[int]:
    """The surest masks below `end`, lower index first among equals."""
    masks = [i for i in range(end) if response[i] is None]
    return sorted(sorted(masks, key=lambda i: (-confidence[i], i))[:count])
