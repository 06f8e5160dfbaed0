"""LLaDA2's samplers for one row, on lists, one update after the other."""

from dataclasses import dataclass, field

MASK = -1


@dataclass
class LLaDA2Row:
    """The canvas of one request; `update` applies a rule to confidences and tokens of every position."""

    prompt: int
    length: int
    size: int
    eos: int
    threshold: float
    early_stop: bool
    canvas: list[int] = field(init=False)
    block: int = field(init=False)
    count: int = 0
    done: bool = False

    def __post_init__(self) -> None:
        total = -(-(self.prompt + self.length) // self.size) * self.size
        self.canvas = [0] * self.prompt + [MASK] * (total - self.prompt)
        self.block = self.prompt // self.size

    @property
    def response(self) -> list[int]:
        return self.canvas[self.prompt :]

    @property
    def returned(self) -> list[int]:
        wanted = self.response[: self.length]
        return wanted[: wanted.index(self.eos) + 1] if self.eos in wanted else wanted

    def update(self, confidence: list[float], tokens: list[int]) -> None:
        raise NotImplementedError

    def inside(self) -> range:
        first = self.block * self.size
        return range(max(first, self.prompt), first + self.size)

    def masks(self) -> list[int]:
        return [at for at in self.inside() if self.canvas[at] == MASK]

    def fill(self, confidence: list[float], tokens: list[int], least: int) -> list[int]:
        masks = self.masks()
        high = [at for at in masks if confidence[at] > self.threshold]
        if len(high) < least:
            high = sorted(masks, key=lambda at: (-confidence[at], at))[:least]
        for at in high:
            self.canvas[at] = tokens[at]
        return high

    def leave(self, stop: bool) -> None:
        self.count = 0
        if stop or (self.block + 1) * self.size == len(self.canvas):
            self.done = True
        else:
            self.block += 1

    def so_far(self) -> list[int]:
        return self.canvas[self.prompt : (self.block + 1) * self.size]


@dataclass
class Filling(LLaDA2Row):
    """2.0"""

    steps: int = 32
    minimal_topk: int = 1

    def update(self, confidence: list[float], tokens: list[int]) -> None:
        steps = min(self.steps, self.length // self.minimal_topk)
        share, extra = divmod(self.size, steps)
        accepted = self.fill(confidence, tokens, share + (self.count < extra))
        self.count += 1
        if self.early_stop and any(self.canvas[at] == self.eos for at in accepted):
            first = self.response.index(self.eos)
            if MASK not in self.response[:first]:
                self.done = True
                return
        if not self.masks():
            self.leave(self.eos in self.so_far())


@dataclass
class Editing(LLaDA2Row):
    """2.1"""

    editing_threshold: float = 0.9
    most: int = 16
    least: int = 1

    def update(self, confidence: list[float], tokens: list[int]) -> None:
        had_masks = bool(self.masks())
        edits = [
            at
            for at in self.inside()
            if self.canvas[at] not in (MASK, tokens[at]) and confidence[at] > self.editing_threshold
        ]
        self.fill(confidence, tokens, self.least)
        for at in edits:
            self.canvas[at] = tokens[at]
        finished = not had_masks and not edits
        if not finished and not self.masks():
            self.count += 1
            finished = self.count > self.most
        if finished:
            self.leave(self.early_stop and self.eos in self.so_far())
