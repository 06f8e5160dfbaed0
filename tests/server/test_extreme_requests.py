"""Whatever number a client writes wherever it may write one: a sentence at once, or an answer."""

import json
import time
from random import Random

import pytest

from archer.server import limits
from conftest import REPOSITORY
from server.extreme_fields import Sent, everything, fields, settings
from server.running import TEXT, Client
from support.extremes import VALUES, sendable

LONGEST_REPLY = 3000
CPU_SECONDS = 0.05
IDLE = 0.02
"""Share of the time that a server may take for itself while a child makes what was asked for."""
TRIES = 5
"""The best counts: a collection of garbage, or a thread of another request, is none of a refusal's cost."""
QUICK = 120
ROW = 20
"""Refusals one after the other.  Client and server are one process here, so half of the bound is plenty."""
SETTINGS, FIELDS = 3500, 3200
"""Requests at the least."""
PARTS = 4
"""Of the whole sweep, so that none takes long."""


def refused_or_answered(client: Client, sent: Sent) -> None:
    path, body = sent
    content, kind = json.dumps(body).encode(), {"content-type": "application/json"}
    spent = []
    for _ in range(TRIES):
        began, at = time.process_time(), time.monotonic()
        reply = client.send("POST", path, content, kind)
        spent.append(time.process_time() - began - IDLE * (time.monotonic() - at))
        where = (path, content[:300], reply.body[:300])
        assert reply.status == 200 or 400 <= reply.status < 500, where
        if reply.status == 200:
            return
        assert len(reply.body) < LONGEST_REPLY, where
        assert reply.json["error"]["message"].endswith((".", "...")), where
        if spent[-1] < CPU_SECONDS:
            return
    assert min(spent) < CPU_SECONDS, (spent, where)


@pytest.mark.parametrize("settings", [{"nonsense": 1}, {"temperature": -1}, {"eos": True}], ids=str)
def test_a_refusal_of_a_setting_looks_up_no_sources(
    client: Client, settings: dict[str, object]
) -> None:
    """What settings mean is read from source files; who sends wrong ones in a row is not worth that."""
    body = {"model": "pocket", "prompt": "x", "top_p": 1, "archer": {"settings": settings}}
    client.post(TEXT, body)
    began = time.process_time()
    for _ in range(ROW):
        assert client.post(TEXT, body).status == 400
    assert time.process_time() - began < ROW * CPU_SECONDS / 2


@pytest.mark.parametrize("kind", [settings, fields])
def test_drawn_extremes_get_a_sentence_or_an_answer(client: Client, kind: object) -> None:
    assert callable(kind)
    for sent in Random(34).sample(kind(), QUICK):
        refused_or_answered(client, sent)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_extreme_gets_a_sentence_or_an_answer(client: Client, part: int) -> None:
    for sent in everything()[part::PARTS]:
        refused_or_answered(client, sent)


def test_the_sweep_has_every_setting_and_every_field() -> None:
    """New ones are in it because it is made of the declarations; the page says how many there are."""
    assert len(settings()) > SETTINGS
    assert len(fields()) > FIELDS
    page = (REPOSITORY / "docs" / "serving.md").read_text(encoding="utf-8")
    for words in (
        f"more than {SETTINGS:,} requests\nwith every setting",
        f"more than {FIELDS:,} with every field",
        f"each with {sum(map(sendable, VALUES))} absurd\nvalues",
        f"{limits.STATES:,} tokens together",
    ):
        assert words in page, words
