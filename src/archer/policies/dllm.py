"""dLLM-Cache: layer features are kept; between refreshes only the rows that moved most are redone.

Axes: n columns of one sequence (prompt first), d width, G response columns.

Every column is fed; work is saved inside the layers, so this policy works by a layer rule.  The first layer
always refreshes.  The residual stream is re-summed from current embeddings in every pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass

import numpy as np
import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from archer.passes.bounds import Count, Share
from archer.passes.canvas import Canvas, Flags, Scope
from archer.passes.layer_rule import LayerPieces, Local, RowInPass, Ruled
from archer.passes.logits import Logits
from archer.passes.memory import Memory, Notes
from archer.policies.base import Policy


@dataclass(frozen=True)
class DllmCache(Policy):
    """Refresh the prompt's and the response's features at their own intervals; a share of rows in between."""

    answers = Scope.RESPONSE
    counts_passes = True
    features = 2

    prompt_interval: Count = 100
    """Passes for which the prompt's features are kept."""
    response_interval: Count = 7
    """Passes for which the response's features are kept."""
    ratio: Share = 0.25
    """Share of response rows recomputed in between, those whose values changed most; 0 for none."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        return canvas.everything()

    def start(self, canvas: Canvas) -> Notes:
        return {"passes": np.zeros(canvas.rows, dtype=np.int64)}

    def noted(self, canvas: Canvas, memory: Memory, full: Flags, logits: Logits) -> Notes:
        """Passes since everything was refreshed, that one included."""
        return {"passes": np.where(full, 0, memory.notes["passes"]) + 1}

    def inside_layers(self, memory: Memory) -> Ruled:
        passes = np.where(memory.anchored, memory.notes["passes"], 0)
        due = [
            (count % self.prompt_interval == 0, count % self.response_interval == 0)
            for count in passes.tolist()
        ]
        return Ruled(DllmRule(self.ratio, tuple(due)), tuple(all(both) for both in due))


@plain_dataclass(frozen=True)
class DllmRule:
    """One pass of dLLM-Cache."""

    ratio: float
    due: Sequence[tuple[bool, bool]]
    """Per row, whether prompt and response are refreshed."""

    def __call__(self, index: int, layer: LayerPieces, hidden: Tensor, at: RowInPass) -> Tensor:
        prompt, response = (index == 0 or due for due in self.due[at.row])
        normed = layer.normed(hidden)
        first = 0 if prompt else at.prompt
        if response:
            self._write(index, layer, normed, at, slice(first, len(normed)))
            rows: Local = slice(at.prompt if at.is_last(index) else first, len(normed))
        else:
            rows = self._write_moved(index, layer, normed, at, first)
        attention = at.feature("attention", index, hidden)
        feed = at.feature("feed_forward", index, hidden)
        fresh = normed[rows]
        if len(fresh):
            mixed = layer.mix(at.attend(index, rows, layer.queries(fresh)))
            attention[rows] = mixed
            feed[rows] = layer.feed_forward(hidden[rows] + mixed)
        return hidden + attention + feed

    def _write(
        self, index: int, layer: LayerPieces, normed: Tensor, at: RowInPass, rows: slice
    ) -> None:
        """Keys and values of a span."""
        fresh = normed[rows]
        if len(fresh):
            at.write_values(index, rows, layer.values(fresh))
            at.write_keys(index, rows, layer.keys(fresh))

    def _write_moved(
        self, index: int, layer: LayerPieces, normed: Tensor, at: RowInPass, first: int
    ) -> Local:
        """Keys of the prompt from `first` on and of the response rows that moved; values of all of these.

        Returns the rows that attend; in the last layer nobody reads those of the prompt.
        """
        self._write(index, layer, normed, at, slice(first, at.prompt))
        moved = self._moved(index, layer, normed, at)
        if len(moved):
            at.write_keys(index, moved, layer.keys(normed[moved]))
        if first == at.prompt or at.is_last(index):
            return moved
        return torch.cat((torch.arange(first, at.prompt, device=normed.device), moved))

    def _moved(self, index: int, layer: LayerPieces, normed: Tensor, at: RowInPass) -> Tensor:
        """Long[k]: response rows whose values are least like those of the last pass; writes all values."""
        response = slice(at.prompt, len(normed))
        if self.ratio == 0:
            return torch.empty(0, dtype=torch.long, device=normed.device)
        values = layer.values(normed[response])
        before = at.values(index, response)
        alike = layer.cosine(values, before)
        at.write_values(index, response, values)
        chosen = alike.argsort(stable=True)[: int(self.ratio * len(alike))]
        return at.prompt + chosen.sort().values
