"""A trace must tell one story per row."""

from pathlib import Path

import pytest

from archer.errors import BadRequest, BadTrace
from archer.pages.trajectory import check_pair, rows, trajectories
from archer.results.trace import Placed, Writer
from support.recorded import END, PIECES, PROMPT, Events, ended, simulate, start, update

PLACED = Placed(at=0, token=1, confidence=0.5)


def test_rows_are_told_apart() -> None:
    first, second = simulate(1, row=0), simulate(2, row=1)
    mixed = [event for pair in zip(first, second, strict=False) for event in pair]
    longest = max(first, second, key=len)
    events: Events = [start(24, prompts=2), *mixed, *longest[len(mixed) // 2 :], ended(1), ended(0)]
    found = rows(events)
    assert [each.updates for each in found] == [first, second]
    assert all(each.completion is not None for each in found)
    assert [each.prompt for each in found] == [PROMPT, PROMPT]


def test_a_trace_that_stops_early_is_still_a_trajectory() -> None:
    (found,) = rows([start(24), *simulate(1)[:2]])
    assert len(found.updates) == 2
    assert found.completion is None


def test_pieces_come_from_the_start_and_from_the_updates() -> None:
    spelled = update(1, accepted=[PLACED]).model_copy(update={"pieces": {1: "one"}})
    (found,) = rows([start(4, pieces={0: "zero"}), spelled])
    assert found.pieces == {0: "zero", 1: "one"}


BROKEN: dict[str, tuple[Events, str]] = {
    "nothing": ([], "does not begin with a start event"),
    "no start": ([ended()], "does not begin with a start event"),
    "two starts": ([start(4), start(4)], "has a second start event"),
    "an unknown row": ([start(4), update(1, row=1)], "row 1 has no prompt"),
    "a negative row": ([start(4), update(1, row=-1)], "row -1 has no prompt"),
    "a gap": ([start(4), update(1), update(3)], "update 2 of row 0 is missing"),
    "more after the end": ([start(4), ended(), update(1)], "row 0 goes on after its end"),
    "outside": (
        [start(4), update(1, accepted=[PLACED.model_copy(update={"at": 4})])],
        "update 1 of row 0 writes outside the response",
    ),
    "before": ([start(4), update(1, remasked=[-1])], "update 1 of row 0 writes outside"),
    "doubts": (
        [start(4), update(1, remasked=[0], doubts=[0.1, 0.2])],
        "update 1 of row 0 has different numbers of doubts and re-masks",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_events_that_do_not_fit_together_are_refused(name: str, tmp_path: Path) -> None:
    events, reason = BROKEN[name]
    path = tmp_path / "run.jsonl"
    with Writer(path) as writer:
        for event in events:
            writer.write(event)
    with pytest.raises(BadTrace, match=rf"run\.jsonl' is inconsistent: .*{reason}"):
        trajectories(path)


def test_a_line_that_is_no_event_is_named_as_the_reader_does(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("{}\n")
    with pytest.raises(BadTrace, match=r"^Line 1 of '.*run\.jsonl' is not a trace event"):
        trajectories(path)


@pytest.mark.parametrize(
    "change", [{"prompts": [[0, 1]]}, {"length": 8}, {"mask": 98}], ids=["prompt", "length", "mask"]
)
def test_only_what_begins_alike_is_compared(change: dict[str, object]) -> None:
    (first,), (second,) = rows([start(4)]), rows([start(4).model_copy(update=change)])
    check_pair(first, first)
    with pytest.raises(BadRequest, match="Row 1 of the two traces cannot be compared"):
        check_pair(first, second)


def test_the_simulated_runs_do_all_that_a_decoder_can() -> None:
    """The other tests rely on it."""
    events = [event for seed in range(5) for event in simulate(seed)]
    assert {event.call for event in events} == {"full", "cached", "reused"}
    assert any(event.replaced for event in events)
    at_once = [{c.at for c in event.accepted} & {*event.remasked} for event in events]
    assert any(at_once)
    assert any(event.remasked for event, both in zip(events, at_once, strict=True) if not both)
    assert END in PIECES
