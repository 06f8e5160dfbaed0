"""The data of the player: small, complete, and harmless inside a page."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.pages import embed
from archer.pages.page import Player, Section, page
from archer.pages.player import CALLS, SCRIPTS, UNKNOWN, player_data, player_html, script
from archer.pages.trajectory import rows
from archer.results.trace import Placed, states
from support.recorded import END, MASK, PIECES, ended, simulate, start, update


def data_of(*events: Any, pieces: dict[int, str] | None = PIECES, length: int = 24) -> Any:
    (found,) = rows([start(length, pieces=pieces), *events])
    return player_data(found)


def replayed(data: Any) -> list[list[int]]:
    """Every state, from the player's data alone."""
    response, seen = [MASK] * data["length"], []
    for _, _, _, accepted, replaced, remasked, _ in data["updates"]:
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
    for event, (call, distance, bar, accepted, replaced, remasked, drift) in zip(
        events, data["updates"], strict=True
    ):
        assert (CALLS[call], distance, drift) == (event.call, event.distance, UNKNOWN)
        assert bar == (UNKNOWN if event.threshold is None else 1000 * event.threshold)
        sure = [c.confidence for c in (*event.accepted, *event.replaced)] + event.doubts
        kept = accepted[2::3] + replaced[2::3] + remasked[1::2]
        assert kept == [round(1000 * each) for each in sure if each is not None]


def test_an_older_trace_has_no_doubts() -> None:
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
