"""Responses of one HTTP request that run as several requests of the engine: its client sees no difference."""

from collections.abc import Sequence
from typing import Any

import pytest

from archer.engine import job
from archer.engine.footprint import logits_bytes
from archer.model import Model
from server.running import PROBLEM, TEXT, Client, serving, until

LENGTH = 8
ASKED: dict[str, Any] = {
    "model": "pocket",
    "prompt": [PROBLEM, PROBLEM[9:]],
    "n": 3,
    "max_tokens": LENGTH,
}
METHOD = {"method": "llada-confidence", "settings": {"eos": "logits"}}
HOT = {"temperature": 2.0, "seed": 5, "archer": METHOD}


def texts(choices: Sequence[dict[str, Any]]) -> list[str]:
    parts: dict[int, str] = {}
    for each in choices:
        parts[each["index"]] = parts.get(each["index"], "") + each["text"]
    return [parts[index] for index in sorted(parts)]


def test_spread_responses_are_one_request_of_the_queue(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "MOST_LOGITS", logits_bytes(pocket.network, LENGTH))
    with serving(pocket, queue=1) as client:
        body = ASKED | HOT | {"prompt": PROBLEM, "n": 8}
        assert [client.post(TEXT, body).status for _ in range(3)] == [200] * 3
        until(client.idle)
        accepted, there = client.balance()
        assert accepted == there
        assert client.metric("requests_rejected_total") == 0


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("together", [1, 2])
def test_spread_responses_are_the_same(
    client: Client, pocket: Model, monkeypatch: pytest.MonkeyPatch, together: int, watched: bool
) -> None:
    body = ASKED | HOT
    whole = client.post(TEXT, body).json
    monkeypatch.setattr(job, "MOST_LOGITS", together * logits_bytes(pocket.network, LENGTH))
    names = ("requests_accepted_total", "prompt_tokens_total")
    before = [client.metric(name) for name in names]
    spread = client.post(TEXT, body).json
    assert texts(spread["choices"]) == texts(whole["choices"])
    assert len(set(texts(spread["choices"]))) > 3
    counts = {**spread["usage"]}, {**whole["usage"]}
    for each in counts:
        each.pop("archer")
    assert counts[0] == counts[1]
    until(client.idle)
    requests, tokens = (client.metric(name) - old for name, old in zip(names, before, strict=True))
    assert requests == 2 * (3 if together == 1 else 2)
    assert tokens == whole["usage"]["prompt_tokens"]
    mode = {"stream_mode": "provisional"} if watched else {}
    streamed = client.post(TEXT, body | {"stream": True, "archer": METHOD | mode})
    assert texts([one for event in streamed.events for one in event["choices"]]) == texts(
        whole["choices"]
    )
