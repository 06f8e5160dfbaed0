"""The data of the player: small, complete, and harmless inside a page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.errors import BadRequest, BadTrace
from archer.pages import embed
from archer.pages.page import Player, Section, page
from archer.pages.player import CALLS, SCRIPTS, UNKNOWN, player_data, player_html, script
from archer.pages.trajectory import check_pair, rows, trajectories
from archer.results.trace import Placed, Start, Writer, states
from support.recorded import END, MASK, PIECES, PROMPT, Events, ended, simulate, start, update


def data_of(*events: Any, pieces: dict[int, str] | None = PIECES, length: int = 24) -> Any:
    (found,) = rows([start(length, pieces=pieces), *events])
    return player_data(found)


def replayed(data: Any) -> list[list[int]]:
    """Every state, from the player's data alone."""
    response, seen = [MASK] * data["length"], []
    for _, _, _, accepted, replaced, remasked, _, _ in data["updates"]:
        for changes in (accepted, replaced):
            for at, token in zip(changes[::3], changes[1::3], strict=True):
                response[at] = data["ids"][token]
        for at in remasked[::2]:
            response[at] = MASK
        seen.append(list(response))
    return seen


@given(st.integers(0, 10_000), st.integers(1, 40))
def test_every_state_can_be_rebuilt(seed: int, length: int) -> None:
    events = simulate(seed, length=length)
    assert replayed(data_of(*events, length=length)) == list(states(start(length), events))


def test_everything_said_about_an_update_is_kept() -> None:
    events = simulate(4)
    data = data_of(*events)
    for event, (call, distance, bar, accepted, replaced, remasked, drift, _) in zip(
        events, data["updates"], strict=True
    ):
        assert (CALLS[call], distance, drift) == (event.call, event.distance, UNKNOWN)
        assert bar == (UNKNOWN if event.threshold is None else 1000 * event.threshold)
        sure = [c.confidence for c in (*event.accepted, *event.replaced)] + event.doubts
        kept = accepted[2::3] + replaced[2::3] + remasked[1::2]
        assert kept == [round(1000 * each) for each in sure if each is not None]


def test_what_is_given_is_told_with_its_position() -> None:
    first = start(4).model_copy(update={"given": [[None, 1, None, 2]]})
    placed = Placed(at=2, token=5, confidence=0.5)
    (found,) = rows([first, update(1, accepted=[placed])])
    data = player_data(found)
    assert (data["length"], data["ids"]) == (4, [1, 2, 5])
    assert data["given"] == [1, 0, 3, 1]
    with pytest.raises(BadTrace, match="writes where a token is given"):
        rows([first, update(1, accepted=[Placed(at=1, token=5, confidence=0.5)])])
    with pytest.raises(ValueError, match="a given response for each prompt, or for none"):
        Start.model_validate(first.model_dump() | {"given": [None, None]})


@pytest.mark.parametrize(
    ("parts", "lead"),
    [
        ([], ""),
        (["a\ndef f(x):", ""], "def f(x):"),
        (["def f(x): ret", ""], "def f(x):"),
        (["x", ""], ""),
    ],
    ids=["nothing given", "a line", "healed", "another prompt"],
)
def test_what_stands_before_a_gap_on_its_line_is_told(parts: list[str], lead: str) -> None:
    """The prompt ends with it, but for what is healed."""
    end = ended(reason="stop")
    told = end.model_copy(update={"completion": end.completion | {"parts": parts}})
    assert data_of(update(1), told)["lead"] == lead


def test_a_confidence_that_is_no_number_is_unknown() -> None:
    placed = Placed(at=0, token=0, confidence=None)
    data = data_of(update(1, accepted=[placed]), update(2, remasked=[0]))
    assert data["updates"][0][3] == [0, 0, UNKNOWN]
    assert data["updates"][1][5] == [0, UNKNOWN]


def test_nats_are_kept_where_the_cache_counts_them() -> None:
    counted = update(1).model_copy(update={"drift": 0.1234})
    assert [each[6] for each in data_of(counted, update(2))["updates"]] == [123, UNKNOWN]


def test_what_is_said_about_the_run() -> None:
    data = data_of(*simulate(1), ended(reason="stop"))
    assert (data["model"], data["method"], data["seed"]) == ("tiny", "archer", 3)
    assert (data["radius"], data["settings"]["length"]) == (4, 24)
    assert data["prompt"] == "def f(x):"
    assert data["numbers"] is False
    assert data["texts"] == [PIECES[token] for token in data["ids"]]
    assert [data["ids"][place] for place in data["ends"]] == [END]


@pytest.mark.parametrize(
    ("name", "shown"), [("/home/me/models/mine", "mine"), ("org/model", "org/model")]
)
def test_a_page_does_not_tell_where_a_model_lies(name: str, shown: str) -> None:
    (found,) = rows([start(4).model_copy(update={"model": name})])
    assert player_data(found)["model"] == shown


def test_without_a_tokenizer_ids_are_shown() -> None:
    data = data_of(*simulate(1), pieces=None)
    assert data["numbers"] is True
    assert data["prompt"] == "0 1 2"
    assert data["texts"] == [str(token) for token in data["ids"]]


def test_ids_that_an_older_trace_does_not_spell_are_shown_as_such() -> None:
    data = data_of(update(1, accepted=[Placed(at=0, token=5, confidence=1.0)]), pieces={0: "def"})
    assert data["texts"] == ["<5>"]
    assert data["prompt"] == "def<1><2>"


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ([], "unfinished"),
        ([ended(reason="stop")], "ended by an end token"),
        ([ended(reason="length")], "all positions filled"),
        ([ended(reason="other")], "finished"),
        ([ended(reason="error", error="it\x1b broke")], r"it\x1b broke"),
    ],
)
def test_how_it_ended(end: list[Any], said: str) -> None:
    assert said in data_of(*simulate(1), *end)["outcome"]


def test_characters_that_could_reorder_a_page_are_escaped() -> None:
    pieces = {**PIECES, 0: "\u202eevil", 1: "\x00"}
    data = data_of(*simulate(1), pieces=pieces)
    assert "\u202e" not in data["prompt"]
    assert r"\u202eevil" in data["texts"]


HOSTILE = "</script><script>alert(1)</script><!--<script>\u2028&amp;]]>"


def embedded(html: str) -> Any:
    """What a browser takes for the data: up to the first end of a script element."""
    (content,) = re.findall(r'<script type="application/json">(.*?)</script', html, re.DOTALL)
    return json.loads(content)


@given(st.text() | st.just(HOSTILE))
def test_no_text_can_leave_its_script(text: str) -> None:
    html = player_html([{"prompt": text}], title=text)
    assert embedded(html) == {"runs": [{"prompt": text}]}
    assert html.count("<script") == html.count("</script") == 1
    assert html.count("<summary>") == 1


@given(st.text())
def test_no_text_can_leave_its_element_or_attribute(text: str) -> None:
    assert not set("<>\"'") & set(embed.text(text))


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        embed.data({"value": float("nan")})


def test_scripts_reach_for_nothing_outside_of_the_page() -> None:
    code = script()
    assert all(embed.asset(name) in code for name in SCRIPTS)
    for word in ("fetch(", "XMLHttpRequest", "import(", "innerHTML", "eval(", "document.write"):
        assert word not in code
    addresses = re.findall(r"https?://[^\s\"']+", code + embed.asset("player.css"))
    assert addresses == ["http://www.w3.org/2000/svg"], "a name, not an address"
    assert "</script" not in code


def test_fifty_long_trajectories_fit_in_a_report() -> None:
    vocabulary = range(30_000)
    pieces = {token: f" token{token}" for token in vocabulary}
    runs = [
        data_of(
            *simulate(seed, length=256, vocabulary=vocabulary), ended(), pieces=pieces, length=256
        )
        for seed in range(5)
    ]
    players = [Player(f"Problem {number}", [runs[number % 5]]) for number in range(50)]
    size = len(page("Report", [Section("Trajectories", players)]).encode())
    assert size < 2_500_000, "half of what a whole report may have"


def test_code_in_prose_is_set_as_code_and_nothing_else_is() -> None:
    assert (
        embed.prose("`archer study main` & <b>") == "<code>archer study main</code> &amp; &lt;b&gt;"
    )
    assert embed.prose("`<i>` and ` alone") == "<code>&lt;i&gt;</code> and ` alone"


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
