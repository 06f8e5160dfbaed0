"""Sudoku over HTTP: a grid as the message of a chat, laid out as the task lays it out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from archer.model import Model
from archer.pocket import grids
from archer.server.refusals import Refusal
from archer.server.request_reading import chat_request
from server.running import CHAT, TEXT, Client, serving

PUZZLE = grids.load("dev")[0]


@pytest.fixture(scope="module")
def of_grids(sudoku: Model) -> Iterator[Client]:
    with serving(sudoku) as client:
        yield client


def body(grid: str = PUZZLE.givens, model: str = "pocket-sudoku", **fields: Any) -> dict[str, Any]:
    extension = {"grid": True, **fields.pop("archer", {})}
    messages = [{"role": "user", "content": grid}]
    return {"model": model, "messages": messages, "archer": extension, **fields}


@pytest.mark.parametrize("method", ["archer-doubt", "saber"])
def test_a_grid_is_filled_as_by_the_task(sudoku: Model, of_grids: Client, method: str) -> None:
    (done,) = sudoku.generate(grids.fill(PUZZLE.givens), method)
    typed = grids.lines(PUZZLE.givens).replace(".", "0")
    (choice,) = of_grids.post(CHAT, body(typed, archer={"method": method})).json["choices"]
    assert choice["message"]["content"] == done.text
    assert choice["archer"]["gaps"] == list(done.gaps)


def test_cells_at_the_end_alone_are_as_many_as_they_are(of_grids: Client) -> None:
    """Nothing is given behind them, but the length of the answer is known all the same."""
    reply = of_grids.post(CHAT, body(PUZZLE.solution[:-3] + "...")).json
    assert reply["choices"][0]["message"]["content"] == PUZZLE.solution[-3:]
    assert "canvas" not in reply["archer"]["settings"]


def test_who_lists_models_sees_which_grids_one_fills(of_grids: Client, client: Client) -> None:
    (own,) = of_grids.get("/v1/models").json["data"]
    assert own["grids"] == [4, 6, 9]
    (other,) = client.get("/v1/models").json["data"]
    assert "grids" not in other


def test_a_model_that_fills_no_grids_says_so(client: Client) -> None:
    reply = client.post(CHAT, body(model="pocket"))
    assert (reply.status, reply.json["error"]["param"]) == (400, "archer.grid")
    assert reply.json["error"]["message"] == (
        "'pocket' does not fill grids of this size: it has no word for 'a 9x9 grid'. "
        "Ask a model that does, such as the bundled pocket-sudoku."
    )


def test_a_grid_that_is_none_is_refused_before_anything_is_computed(of_grids: Client) -> None:
    accepted = of_grids.metric("requests_accepted_total")
    reply = of_grids.post(CHAT, body("77" + PUZZLE.givens[2:]))
    assert (reply.status, reply.json["error"]["param"]) == (400, "messages")
    assert "Row 1 has the digit 7 more than once" in reply.json["error"]["message"]
    assert of_grids.metric("requests_accepted_total") == accepted


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 90}, "max_tokens"),
        ({"max_completion_tokens": 90}, "max_completion_tokens"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"archer": {"prefill": "1"}}, "archer.prefill"),
        ({"archer": {"gap": "."}}, "archer.gap"),
        ({"archer": {"settings": {"length": 9}}}, "archer.settings.length"),
    ],
)
def test_what_a_grid_says_itself_is_not_said_twice(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(Refusal) as caught:
        chat_request(body(**fields))
    assert caught.value.param == param
    assert caught.value.message == (
        f"A grid says itself what is given and how long its answer is. Leave out {param}."
    )


def test_a_grid_is_the_only_message() -> None:
    system = [{"role": "system", "content": "Solve."}, *body()["messages"]]
    for messages in (system, [{"role": "assistant", "content": PUZZLE.givens}]):
        with pytest.raises(Refusal, match="the only message, and the user's") as caught:
            chat_request(body() | {"messages": messages})
        assert caught.value.param == "messages"


def test_other_routes_know_no_grids(of_grids: Client) -> None:
    extension = {"archer": {"grid": True}}
    for path, own in (
        (TEXT, {"model": "pocket-sudoku", "prompt": "1"}),
        ("/infill", {"prompt": "1"}),
    ):
        reply = of_grids.post(path, own | extension)
        assert (reply.status, reply.json["error"]["param"]) == (400, "archer.grid")
        assert reply.json["error"]["message"] == (
            "archer.grid is for /v1/chat/completions, where the grid is the message."
        )
