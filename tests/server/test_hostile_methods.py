"""Methods that raise before their first update, asked for over a live server: others are answered."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from archer.engine.handle import Handle
from archer.engine.job import Job
from archer.errors import Cancelled
from archer.model import Model
from archer.server.error_log import ErrorLog
from server.running import CHAT, SLOW, TEXT, Client, Reply, chat, serving, until
from support import hostile


@pytest.fixture(scope="module")
def client(pocket: Model) -> Iterator[Client]:
    with hostile.brought(), serving(pocket) as client:
        yield client


def asked(client: Client, verb: str, kind: str, **fields: Any) -> Reply:
    extension = {"method": "early", "settings": {"verb": verb, "kind": kind}}
    return client.post(CHAT, chat(max_tokens=8, archer=extension, **fields))


@pytest.mark.parametrize("kind", hostile.LETHAL)
@pytest.mark.parametrize("verb", hostile.VERBS)
def test_what_a_method_raises_is_answered_and_harms_nobody(
    client: Client, verb: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="archer"):
        reply = asked(client, verb, kind)
    message = reply.json["error"]["message"]
    if (verb, kind) == ("made", "ValueError"):  # how a dataclass refuses its settings
        assert (reply.status, message) == (400, "These settings do not go together: a secret.")
    else:
        assert reply.status == 500
        assert message.startswith("The server made a mistake. Its log says where")
    assert "a secret" not in caplog.text
    assert client.ask(max_tokens=8).status == 200
    assert client.get("/ready").status == 200
    until(client.idle)


@pytest.mark.parametrize("kind", ["SystemExit", "StopIteration"])
def test_an_answer_that_has_to_be_something_is_no_way_around(client: Client, kind: str) -> None:
    fields: dict[str, Any] = {"guided_regex": "[0-9]{2}"}
    assert asked(client, "start", kind, **fields).status == 500
    assert client.ask(max_tokens=8, **fields).status == 200


def test_the_log_says_where(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    serving = client.server.state.ready()
    serving._errors = ErrorLog(logging.getLogger("archer"))  # as if a minute had gone by
    with caplog.at_level(logging.ERROR, logger="archer"):
        assert asked(client, "start", "KeyboardInterrupt").status == 500
    assert "A request failed in KeyboardInterrupt < hostile.py:" in caplog.text
    assert "a secret" not in caplog.text


def test_asking_for_a_model_by_a_method_that_cannot_be_made(client: Client) -> None:
    assert client.get("/v1/models/pocket@making").status == 500
    assert client.get("/v1/models/pocket@early").status == 200


def test_of_a_request_that_is_taken_in_part_nothing_stays(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = client.server.state.ready().engine
    take, taken = engine.take, list[Job]()

    def only_one(job: Job) -> Handle:
        if taken:
            raise RuntimeError
        taken.append(job)
        return take(job)

    monkeypatch.setattr(engine, "take", only_one)
    body = {"model": "pocket", "prompt": ["a", "b"], "max_tokens": 512}
    assert client.post(TEXT, body | {"archer": {"method": SLOW}}).status == 500
    until(client.idle)
    assert taken[0].cancelled
    assert isinstance(taken[0].error, Cancelled)
    accepted, there = client.balance()
    assert accepted == there
