"""From "these columns" to spans: the host-side plan of one pass.

A policy answers with a mask over columns.  This file adds what the backbone's logit alignment needs and
lowers each row to a span where it can and to an index where it must.  It touches no weights and no logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from archer.network.shape import DENSE, AttentionKind, Blocks, Dense
from archer.passes.canvas import Canvas, Flags, Ints


@dataclass(frozen=True)
class Sight:
    """Some of a row's queries and how far they see, where not every query sees every column."""

    queries: slice
    """Counted among the columns that the row computes."""
    stop: int
    """One past the last key column."""


@dataclass(frozen=True)
class RowGroup:
    """Neighbouring rows that compute the same columns, packed one after the other."""

    row: int
    """First of the rows, counted among the running ones."""
    rows: int
    slots: slice
    """Where they live in the store."""
    columns: slice | Tensor
    """The columns: a span, or Long[each] where they have gaps."""
    picked: slice | Ints
    """The same columns for the host."""
    each: int
    """How many columns per row."""
    packed: slice
    """Their rows in the packed [N, ...] tensors."""
    sights: tuple[Sight, ...] = ()
    """Queries by how far they see, several for a single row only; none where every one sees every column.

    Rows of one group see equally far."""


@dataclass(frozen=True)
class Layout:
    """Everything a pass needs to know about columns, decided before any tensor is touched."""

    computed: tuple[RowGroup, ...]
    scored: tuple[RowGroup, ...]
    """The same for the rows that reach the vocabulary head; packed among themselves."""
    kept: slice | Tensor | None
    """Where the scored rows are among the computed ones; None when all of them are scored."""
    places: Ints
    """The same for the host, without exceptions."""
    answers: tuple[tuple[int, tuple[int, ...]], ...]
    """(row, places of the columns read among those that may be) in packed order."""
    fed: tuple[int, ...]
    """Columns computed per running row; 0 for rows that did not run."""
    full: tuple[bool, ...]
    """Whether a row was asked for every column it has."""
    positions: Tensor
    """Long[N]: the computed columns."""


MOST_KEPT = 64
"""Plans that are remembered, of all requests together."""
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class _Want:
    """One row's columns, as a sorted array."""

    row: int
    slot: int
    columns: Ints


@dataclass(frozen=True)
class Frame:
    """What a plan needs to know besides the columns."""

    slots: tuple[int, ...]
    """Where each row lives in the store."""
    response: int
    """First column of the response."""
    running: tuple[int, ...]
    """Rows that take part in the pass."""
    full: tuple[bool, ...] | None = None
    """Which rows are refreshed entirely, where that cannot be told from what is asked."""
    attention: AttentionKind = DENSE
    stops: tuple[int, ...] | None = None
    """One past the last column of each row, where rows have fewer than there are."""
    answers: tuple[int, ...] | None = None
    """The columns that may be read, where these are not all from the first of the response on."""

    @classmethod
    def of(
        cls,
        canvas: Canvas,
        slots: tuple[int, ...],
        running: tuple[int, ...],
        full: tuple[bool, ...] | None = None,
    ) -> Frame:
        stops = None if canvas.stops is None else tuple(canvas.stops.tolist())
        answers = None if canvas.gaps is None else tuple(canvas.answers.tolist())
        return cls(slots, canvas.response.start, running, full, canvas.attention, stops, answers)

    def places(self, columns: Ints) -> tuple[int, ...]:
        """Where columns that are read stand among those that may be."""
        if self.answers is None:
            return tuple((columns - self.response).tolist())
        return tuple(np.searchsorted(self.answers, columns).tolist())


def plan(
    recomputed: Flags, reads: Flags, frame: Frame, *, shift: bool, device: torch.device
) -> Layout:
    """Lay out a pass, or remember how it was laid out: most passes ask for the columns of an earlier one.

    recomputed, reads: Bool[B, L].  With `shift`, the logits of column i come from column i - 1, so the left
    neighbour of every response column that is computed comes with it: also the last prompt column.
    """
    size, together = recomputed.shape, recomputed.tobytes() + reads.tobytes()
    return planned(size, together, frame, shift, device)


@lru_cache(maxsize=MOST_KEPT)
def planned(
    size: tuple[int, ...], flags: bytes, frame: Frame, shift: bool, device: torch.device
) -> Layout:
    """The same of `recomputed` and `reads`, each of this size, one after the other."""
    recomputed, reads = np.frombuffer(flags, dtype=np.bool_).reshape(2, *size)
    slots, response = frame.slots, frame.response
    needed = recomputed.copy()
    if shift:
        needed[:, response - 1 : -1] |= recomputed[:, response:]
    computed, scored, answers = [], [], []
    fed, whole = [0] * len(recomputed), [False] * len(recomputed)
    for row in frame.running:
        columns, read = np.flatnonzero(needed[row]), np.flatnonzero(reads[row])
        computed.append(_Want(row, slots[row], columns))
        scored.append(_Want(row, slots[row], read - int(shift)))
        answers.append((row, frame.places(read)))
        fed[row] = len(columns)
        whole[row] = bool(recomputed[row].all()) if frame.full is None else frame.full[row]
    positions = [each.columns for each in computed]
    places = _places(computed, scored)
    return Layout(
        computed=_groups(computed, device, frame, recomputed.shape[1]),
        scored=_groups(scored, device, frame, recomputed.shape[1]),
        kept=kept_rows(places, sum(fed), device),
        places=places,
        answers=tuple(answers),
        fed=tuple(fed),
        full=tuple(whole),
        positions=torch.from_numpy(np.concatenate([_NONE, *positions])).to(device),
    )


def unanswered(recomputed: Flags, reads: Flags) -> Flags:
    """Bool[B]: rows whose decoder reads a column that the policy leaves out."""
    return np.asarray((reads & ~recomputed).any(axis=1))


def columns_of(values: Ints, group: RowGroup) -> Ints:
    """[B, L] -> [N of this group], row after row."""
    return values[group.row : group.row + group.rows, group.picked].reshape(-1)


def _groups(
    wants: Sequence[_Want], device: torch.device, frame: Frame, all_columns: int
) -> tuple[RowGroup, ...]:
    """Pack the rows in order, joining neighbours that want the same span."""
    groups: list[RowGroup] = []
    packed = 0
    for want in wants:
        each = len(want.columns)
        if each == 0:
            continue
        picked = _span(want.columns)
        sights = _sights(want, frame, all_columns)
        previous = groups[-1] if groups else None
        if (
            previous is not None
            and len(sights) < 2
            and sights == previous.sights
            and isinstance(picked, slice)
            and isinstance(previous.picked, slice)
            and previous.picked == picked
            and previous.slots.stop == want.slot
            and previous.row + previous.rows == want.row
        ):
            packed -= previous.rows * previous.each
            groups.pop()
            first, rows = previous, previous.rows + 1
            slots = slice(first.slots.start, want.slot + 1)
            row = first.row
        else:
            row, rows, slots = want.row, 1, slice(want.slot, want.slot + 1)
        span = slice(packed, packed + rows * each)
        columns = _on(device, picked)
        groups.append(RowGroup(row, rows, slots, columns, picked, each, span, sights))
        packed = span.stop
    return tuple(groups)


def _sights(want: _Want, frame: Frame, columns: int) -> tuple[Sight, ...]:
    """One for all columns of the row that see equally far."""
    if frame.stops is not None:
        columns = frame.stops[want.row]
    if isinstance(frame.attention, Dense):
        whole = slice(0, len(want.columns))
        return () if frame.stops is None else (Sight(whole, columns),)
    if isinstance(frame.attention, Blocks):
        stops = np.minimum(frame.attention.stop(want.columns, frame.response), columns)
    else:
        stops = np.where(want.columns < frame.response, frame.response, columns)
    ends, firsts = np.unique(stops, return_index=True)
    bounds = [*firsts.tolist(), len(want.columns)]
    return tuple(
        Sight(slice(bounds[at], bounds[at + 1]), stop) for at, stop in enumerate(ends.tolist())
    )


def _span(columns: Ints) -> slice | Ints:
    """A span where there are no gaps."""
    first, last = int(columns[0]), int(columns[-1])
    return slice(first, last + 1) if last - first + 1 == len(columns) else columns


def _on(device: torch.device, columns: slice | Ints) -> slice | Tensor:
    return columns if isinstance(columns, slice) else torch.from_numpy(columns).to(device)


def _places(computed: Sequence[_Want], scored: Sequence[_Want]) -> Ints:
    """Where the scored columns stand in the packed computed ones."""
    places, packed = [_NONE], 0
    for whole, part in zip(computed, scored, strict=True):
        places.append(packed + np.searchsorted(whole.columns, part.columns))
        packed += len(whole.columns)
    return np.concatenate(places)


def kept_rows(places: Ints, computed: int, device: torch.device) -> slice | Tensor | None:
    """The rows at `places` of `computed` packed ones: None for all of them, a span where they are one."""
    if len(places) == computed:
        return None
    return _on(device, _span(places)) if len(places) else slice(0, 0)
