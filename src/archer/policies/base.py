"""What a cache policy is: the set of columns it recomputes, as a pure function of canvas and memory.

Axes: B rows, L columns.  Policies know neither the decoder nor the network.
"""

from typing import ClassVar

from archer.passes.canvas import Canvas, Flags, Reals, Scope
from archer.passes.layer_rule import Ruled
from archer.passes.logits import Logits
from archer.passes.memory import Memory, Notes


class Policy:
    """Base of all policies: frozen dataclasses of settings.

    What one remembers from pass to pass are its notes: arrays with a line for each row, kept in the memory,
    where they are selected, cloned and swapped with the rest.
    """

    answers: ClassVar[Scope]
    """For which columns there are always logits; compared with what a decoder reads."""
    why: ClassVar[str] = ""
    """Why it answers no more than that, as the end of a sentence."""
    block_causal: ClassVar[bool] = False
    """Whether it knows what a column sees in a model with block-causal attention."""
    counts_passes: ClassVar[bool] = False
    """Whether the answer depends on how many passes were made.

    If not, a row that asks the same question under the same anchor may reuse the logits it has.
    """
    rebuilds: ClassVar[bool] = False
    """Whether all it keeps is a function of the anchor's tokens: one full pass on them makes it again."""
    features: ClassVar[int] = 0
    """Tensors as wide as the hidden states that it keeps per layer, beside keys and values."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        """[B, L]: the columns the next pass computes.  Row i depends on row i alone.

        With guidance a row of the request is two of the canvas, and the answer for the first holds for both.
        """
        raise NotImplementedError

    def start(self, canvas: Canvas) -> Notes:
        """Its notes before the first pass; none where anchor and last pass are all it looks at."""
        return {}

    def noted(self, canvas: Canvas, memory: Memory, full: Flags, logits: Logits) -> Notes:
        """Its notes after a pass, of which the rows in `full` [B] computed every column.

        The memory is as it was before the pass, notes included.  Rows that made no pass keep the notes they
        have, whatever is returned for them.
        """
        return memory.notes

    def ask(self, canvas: Canvas, memory: Memory) -> tuple[Flags, Reals | None]:
        """What to recompute, and [B] what it compared with its limit; None where that is the distance."""
        return self.recompute(canvas, memory), None

    def inside_layers(self, memory: Memory) -> Ruled | None:
        """A rule that chooses rows inside each layer of the next pass; None where columns say it all."""
        return None


class PromptCache(Policy):
    """Base of those that keep nothing but the prompt, as the anchor's pass made it.

    It declares what holds of all of them, and leaves open when the prompt is computed anew.
    """

    answers = Scope.RESPONSE
    rebuilds = True
    block_causal = True


def prompt_kept(canvas: Canvas, memory: Memory, old: Flags) -> Flags:
    """[B, L]: the response, and everything in the rows whose prompt is too `old` (Bool[B]) or not there yet.

    Where a prompt cache is exact nothing that is kept ever grows old, and `old` has no effect.
    """
    refresh = ~memory.anchored if canvas.exact else old | ~memory.anchored
    return memory.outdated(canvas) | (canvas.everything() & refresh[:, None])
