"""A decoder of your own: the surest masks first, but never more than a few, with any cache."""

from dataclasses import dataclass, replace

import archer
from archer.decoders.base import Decision, DecodeState, blank, kept, leading, one_block
from archer.passes.canvas import Canvas, Flags, Prompt, Scope
from archer.passes.logits import Logits
from archer.policies.prompt_cache import Archer


@dataclass(frozen=True)
class SureFew:
    """Fill every mask that is surer than `bar`, at least one and at most `most`."""

    bar: float = 0.9
    most: int = 4
    draws = False

    @property
    def reads(self) -> Scope:
        return Scope.MASKS

    def check(self, length: int) -> None:
        """Fits every length."""

    def start(self, prompt: Prompt, length: int) -> DecodeState:
        return blank(prompt, length)

    def limit(self, length: int) -> int:
        return length

    def settled(self, state: DecodeState) -> Flags:
        return kept(state)

    def canvas(self, state: DecodeState) -> Canvas:
        return one_block(state, state.masked)

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        best, _ = logits.read(logits.greedy)
        sure = state.masked & (best.confidence > self.bar)
        accepted = leading(best.confidence, state.masked, 1)
        accepted |= leading(best.confidence, sure, self.most)
        response = accepted * best.tokens + ~accepted * state.response
        after = replace(
            state,
            response=response,
            done=(response != state.prompt.mask).all(axis=1),
            updates=tuple(update + 1 for update in state.updates),
        )
        return after, Decision.accepting(accepted, best)


PROBLEM = """\
Write a function to count the numbers in nums that are greater than 5.
assert solve([1, 7, 9]) == 2
assert solve([2]) == 0
def solve(nums):"""

model = archer.load("pocket")
(done,) = model.generate(PROBLEM, archer.Method(SureFew(), Archer(radius=8), length=64))
print(PROBLEM.splitlines()[-1] + done.text)
print(f"\n{done.updates} updates, {done.cached_passes} of them cached")
