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


@dataclass
class CutRow:
    """Saber, taking back what lost confidence, on a list that is cut after the first pass and may grow."""

    most: int
    start_length: int
    cut: float
    margin: int
    keep: int
    grow: int
    n: int
    cap: float
    ends: set[int]
    response: list[int | None] = field(init=False)
    accepted_at: dict[int, float] = field(default_factory=dict)
    previous: dict[int, float] = field(default_factory=dict)
    resting: set[int] = field(default_factory=set)
    done: bool = False

    def __post_init__(self) -> None:
        self.response = [None] * min(self.start_length, self.most)

    def update(self, sure: dict[int, float], tokens: list[int]) -> tuple[list[int], list[int]]:
        """Accepted and re-masked positions; `sure` has the positions that were read."""
        marks = []
        if all(token is None for token in self.response):
            stop = len(self.response)
            if stop < self.most and (tokens[stop - 1] not in self.ends or sure[stop - 1] < 0.99):
                self.response += [None] * (min(2 * stop, self.most) - stop)
                return [], []
            marks = self._cut(sure, tokens)
        history = list(self.accepted_at.values())
        bar = min(math.fsum(history) / len(history) if history else 1.0, self.cap)
        masks = [i for i, token in enumerate(self.response) if token is None]
        accepted = [i for i in masks if sure[i] > bar]
        if len(accepted) < self.n:
            accepted = sorted(masks, key=lambda i: (-sure[i], i))[: self.n]
        for i in accepted:
            self.response[i], self.accepted_at[i] = tokens[i], sure[i]
        back: list[int] = []
        if None in self.response:
            count = min(max(self.n // 2, math.ceil(len(accepted) / 2)), len(accepted) - 1)
            lost = [
                i
                for i, token in enumerate(self.response)
                if token is not None and i in sure and sure[i] / self.accepted_at[i] < 1
            ]
            back = sorted(lost, key=lambda i: (sure[i] - self.previous.get(i, 0.0), i))[:count]
            for i in back:
                self.response[i] = None
        elif self.ends & set(self.response) or len(self.response) == self.most:
            self.done = True
        else:
            self.response += [None] * min(self.grow, self.most - len(self.response))
        self.previous |= sure
        self.resting -= set(back)
        return sorted({*accepted, *marks}), sorted(back)

    def _cut(self, sure: dict[int, float], tokens: list[int]) -> list[int]:
        """The end marks that are placed at once."""
        stop, run = len(self.response), 0
        while (
            run < stop and tokens[stop - 1 - run] in self.ends and sure[stop - 1 - run] >= self.cut
        ):
            run += 1
        first = stop - max(0, run - self.margin)
        last = min(stop, first + self.keep)
        self.accepted_at |= {i: sure[i] for i in range(first, stop)}
        self.resting = set(range(first, last))
        self.response = [None] * first + [tokens[i] for i in range(first, last)]
        return list(range(first, last))


def p2_rule(sure: list[float], update: int, steps: int) -> list[int]:
    """Columns that are masks after an update, counted from 1: the least sure, the first among equals."""
    masks = math.floor(len(sure) * (1 - update / steps) + 1e-6)
    return sorted(sorted(range(len(sure)), key=lambda i: (sure[i], i))[:masks])


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
