"""The plan of a pass against a brute-force listing of its columns."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from archer.passes import layout
from archer.passes.canvas import Flags
from archer.passes.layout import Frame, Layout, RowGroup

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Case:
    """Rows of prompt columns, response columns and (some) scratch, with what is asked and read."""

    asked: Flags
    reads: Flags
    slots: tuple[int, ...]
    response: int
    shift: bool
    running: tuple[int, ...]

    @property
    def frame(self) -> Frame:
        return Frame(self.slots, self.response, self.running)

    def plan(self) -> Layout:
        return layout.plan(self.asked, self.reads, self.frame, shift=self.shift, device=CPU)

    def computed(self, row: int) -> list[int]:
        """Columns of a row, one by one: asked for, or left neighbour of an asked response column."""
        return [
            column
            for column in range(self.asked.shape[1])
            if self.asked[row, column]
            or (
                self.shift
                and self.response <= column + 1 < self.asked.shape[1]
                and self.asked[row, column + 1]
            )
        ]

    def scored(self, row: int) -> list[int]:
        """Columns whose output is read: of the same column, or of the one before."""
        return [column - self.shift for column in np.flatnonzero(self.reads[row]).tolist()]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any masks; reads are asked response or scratch columns, as the loop guarantees."""
    rows, prompt, rest = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    few = st.sampled_from(draw(st.sampled_from([(True,), (True, False)])))
    alike = draw(st.booleans())
    masks = st.lists(few, min_size=prompt + rest, max_size=prompt + rest)
    first = draw(masks)
    asked = np.array([first if alike else draw(masks) for _ in range(rows)])
    wanted = np.array([draw(masks) for _ in range(rows)])
    wanted[:, :prompt] = False
    slots = st.sampled_from([range(rows), range(0, 2 * rows, 2)]) | st.permutations(range(rows))
    running = tuple(row for row in range(rows) if draw(st.booleans()) or rows == 1)
    return Case(
        asked=asked,
        reads=wanted & asked,
        slots=tuple(draw(slots)),
        response=prompt,
        shift=draw(st.booleans()),
        running=running,
    )


def full_case(shift: bool, rows: int = 2) -> Case:
    """Three prompt columns, two of response, everything asked and the response read."""
    asked = np.ones((rows, 5), dtype=np.bool_)
    reads = asked & (np.arange(5) >= 3)
    return Case(asked, reads, tuple(range(rows)), 3, shift, tuple(range(rows)))


def columns_in(run: RowGroup) -> list[int]:
    """The columns of a run, one by one."""
    if isinstance(run.columns, slice):
        return list(range(run.columns.start, run.columns.stop))
    columns: list[int] = run.columns.tolist()
    return columns


def listed(runs: tuple[RowGroup, ...]) -> list[tuple[int, int]]:
    """(row, column) in packed order, checking that the runs lie one behind the other."""
    pairs: list[tuple[int, int]] = []
    for run in runs:
        assert run.packed == slice(len(pairs), len(pairs) + run.rows * run.each)
        columns = columns_in(run)
        assert len(columns) == run.each > 0
        pairs += [(run.row + k, column) for k in range(run.rows) for column in columns]
    return pairs


def indices(kept: slice | Tensor, size: int) -> list[int]:
    chosen: list[int] = torch.arange(size)[kept].tolist()
    return chosen


@settings(max_examples=300)
@given(cases())
@example(full_case(True))
@example(full_case(False))
def test_a_plan_computes_and_scores_exactly_the_listed_columns(case: Case) -> None:
    plan = case.plan()
    computed = [(row, column) for row in case.running for column in case.computed(row)]
    scored = [(row, column) for row in case.running for column in case.scored(row)]
    assert listed(plan.computed) == computed
    assert listed(plan.scored) == scored
    assert [
        (row, column + case.response) for row, answers in plan.answers for column in answers
    ] == [(row, column + case.shift) for row, column in scored]
    assert [row for row, _ in plan.answers] == list(case.running)
    assert plan.positions.tolist() == [column for _, column in computed]


@given(st.lists(cases(), min_size=1, max_size=16))
def test_a_plan_that_was_kept_is_the_one_that_would_be_made(asked: list[Case]) -> None:
    for case in [*asked, *reversed(asked)]:
        kept = case.plan()
        flags = case.asked.tobytes() + case.reads.tobytes()
        made = layout.planned.__wrapped__(case.asked.shape, flags, case.frame, case.shift, CPU)
        assert repr(kept) == repr(made), "tensors this small are shown whole"
        same = replace(case, asked=case.asked.copy(), reads=case.reads.copy())
        assert same.plan() is kept


@settings(max_examples=300)
@given(cases())
def test_kept_points_at_the_scored_columns(case: Case) -> None:
    plan = case.plan()
    computed, scored = listed(plan.computed), listed(plan.scored)
    if plan.kept is None:
        assert scored == computed
    else:
        assert scored != computed
        assert [computed[at] for at in indices(plan.kept, len(computed))] == scored


def split_by_an_idle_row() -> Case:
    """Rows 0 and 2 run and live next to each other in the store; row 1 between them does not run."""
    return replace(full_case(shift=False, rows=3), slots=(0, 2, 1), running=(0, 2))


@settings(max_examples=300)
@given(cases())
@example(split_by_an_idle_row())
def test_neighbours_are_joined_exactly_when_everything_agrees(case: Case) -> None:
    plan = case.plan()
    for runs in (plan.computed, plan.scored):
        for run in runs:
            members = range(run.row, run.row + run.rows)
            slots = [case.slots[row] for row in members]
            assert slots == list(range(run.slots.start, run.slots.stop))
        for left, right in pairwise(runs):
            agree = (
                isinstance(left.columns, slice)
                and isinstance(right.columns, slice)
                and left.columns == right.columns
                and left.slots.stop == right.slots.start
                and left.row + left.rows == right.row
            )
            assert not agree, "two runs that could have been one"


@settings(max_examples=300)
@given(cases())
def test_columns_without_gaps_are_a_span(case: Case) -> None:
    plan = case.plan()
    for run in (*plan.computed, *plan.scored):
        columns = columns_in(run)
        gapless = columns[-1] - columns[0] + 1 == len(columns)
        assert isinstance(run.columns, slice) == gapless
    if plan.kept is not None:
        places = indices(plan.kept, sum(plan.fed))
        gapless = not places or places[-1] - places[0] + 1 == len(places)
        assert isinstance(plan.kept, slice) == gapless


@settings(max_examples=300)
@given(cases())
def test_fed_and_full_are_per_row(case: Case) -> None:
    plan = case.plan()
    for row in range(len(case.asked)):
        runs = row in case.running
        assert plan.fed[row] == (len(case.computed(row)) if runs else 0)
        assert plan.full[row] == (runs and bool(case.asked[row].all()))


def test_rows_of_one_pass_share_one_run_and_do_not_change_what_was_asked() -> None:
    case = full_case(shift=True, rows=3)
    case.asked[:, :3] = False
    before = case.asked.copy()
    plan = case.plan()
    assert [(run.rows, run.slots) for run in plan.computed] == [(3, slice(0, 3))]
    assert isinstance(plan.kept, Tensor)
    assert (case.asked == before).all()


def test_the_caller_may_say_which_rows_are_full() -> None:
    """Where a rule inside the layers recomputes less than the columns that are fed."""
    case = full_case(shift=False, rows=3)
    case = replace(case, running=(0, 1))
    frame = replace(case.frame, full=(True, False, True))
    plan = layout.plan(case.asked, case.reads, frame, shift=case.shift, device=CPU)
    assert plan.full == (True, False, False)


def test_reading_what_is_not_asked_is_noticed_per_row() -> None:
    asked = np.array([[True, False], [True, True], [False, False]])
    reads = np.array([[False, True], [False, True], [False, False]])
    assert layout.unanswered(asked, reads).tolist() == [True, False, False]


@given(cases())
def test_columns_of_gathers_row_after_row(case: Case) -> None:
    values = np.arange(case.asked.size).reshape(case.asked.shape)
    for run in case.plan().computed:
        expected = [
            int(values[run.row + k, column]) for k in range(run.rows) for column in columns_in(run)
        ]
        assert layout.columns_of(values, run).tolist() == expected
