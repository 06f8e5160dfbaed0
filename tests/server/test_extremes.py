"""Every setting at values that nobody means, over HTTP: a sentence or an answer, never a server's error."""

import json
from random import Random
from typing import Any

import pytest

from server.running import TEXT, Client
from support.extremes import LENGTH, cases

PROMPT = "def solve(nums):"
LONGEST_REPLY = 3000


def body(method: str, setting: str, value: Any) -> bytes:
    settings = {setting: value}
    own = {"method": method, "settings": settings}
    asked: dict[str, Any] = {"model": "pocket", "prompt": PROMPT, "archer": own}
    if setting != "length":
        asked["max_tokens"] = LENGTH
    return json.dumps(asked).encode()


def refused_or_answered(client: Client, chosen: list[tuple[str, str, Any]]) -> None:
    for case in chosen:
        reply = client.send("POST", TEXT, body(*case), {"content-type": "application/json"})
        where = (*case[:2], repr(case[2])[:40], reply.body[:300])
        assert reply.status == 200 or 400 <= reply.status < 500, where
        if reply.status != 200:
            assert len(reply.body) < LONGEST_REPLY, where
            assert reply.json["error"]["message"].endswith((".", "...")), where


def sendable() -> list[tuple[str, str, Any]]:
    """Integers of thousands of digits cannot be written as JSON here."""
    return [case for case in cases() if not (isinstance(case[2], int) and case[2] > 10**308)]


@pytest.mark.parametrize("count", [150, pytest.param(None, marks=pytest.mark.slow)])
def test_extreme_settings_get_a_sentence_or_an_answer(client: Client, count: int | None) -> None:
    """Drawn ones; all of them in the slow suite."""
    every = sendable()
    refused_or_answered(client, every if count is None else Random(34).sample(every, count))
