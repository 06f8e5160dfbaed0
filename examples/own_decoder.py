"""A decoder of your own: the surest masks first, but never more than a few, with any cache."""

from dataclasses import dataclass

import archer
from archer.extend import (
    Archer,
    Canvas,
    Decision,
    DecodeState,
    Logits,
    Rule,
    above_or_surest,
    leading,
    one_block,
)


@dataclass(frozen=True)
class SureFew(Rule[DecodeState]):
    """Fill every mask that is surer than `bar`, at least one and at most `most`."""

    bar: float = 0.9
    most: int = 4

    def canvas(self, state: DecodeState) -> Canvas:
        return one_block(state, state.masked)

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        best, _ = logits.read(self.sampled(state, logits))
        sure = state.masked & (best.confidence > self.bar)
        chosen = above_or_surest(sure, best.confidence, state.masked, 1)
        accepted = leading(best.confidence, chosen, self.most)
        response = accepted * best.tokens + ~accepted * state.response
        return state.advanced(response), Decision.accepting(accepted, best)


PROBLEM = """\
Write a function to count the numbers in nums that are greater than 5.
assert solve([1, 7, 9]) == 2
assert solve([2]) == 0
def solve(nums):"""

model = archer.load("pocket")
(done,) = model.generate(PROBLEM, archer.Method(SureFew(), Archer(radius=8), length=64))
print(PROBLEM.splitlines()[-1] + done.text)
print(f"\n{done.updates} updates, {done.cached_passes} of them cached")
