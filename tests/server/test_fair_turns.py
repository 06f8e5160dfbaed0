"""What strangers can make long holds up no others: they take turns, and the event loop goes on."""

import asyncio
import sys
import threading
from contextlib import closing
from typing import Any

import pytest

from archer.model import Model
from archer.server.fair_turns import FairTurns, on_a_thread
from archer.structure import confined, structures
from archer.structure.token_automaton import Remembered
from server.running import CHAT, Client, chat, on_a_loop, serving, until

FOREVER = (sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)")


@on_a_loop
async def test_owners_take_turns_however_much_one_of_them_wants() -> None:
    turns, order = FairTurns(1), []

    async def work(owner: str) -> None:
        async with turns.turn(owner):
            order.append(owner)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(owner) for owner in "aaaaaabbc"))
    assert sorted(order) == list("aaaaaabbc")
    assert order.index("b") <= 2
    assert order.index("c") <= 3
    assert order[-3:] == ["a"] * 3
    assert not turns._owners, "owners without work are forgotten"


@on_a_loop
async def test_who_leaves_while_he_waits_leaves_nothing() -> None:
    turns, held = FairTurns(1), asyncio.Event()

    async def work(owner: str) -> None:
        async with turns.turn(owner):
            await held.wait()

    first, *others = [asyncio.create_task(work(owner)) for owner in "aabbc"]
    await asyncio.sleep(0)
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    held.set()
    await first
    async with asyncio.timeout(10), turns.turn("d"):
        pass


@on_a_loop
async def test_a_thread_keeps_its_place_until_it_is_done() -> None:
    turns, over = FairTurns(1), threading.Event()

    async def work() -> None:
        async with turns.turn("a"):
            await on_a_thread(lambda: over.wait(60))

    working = asyncio.create_task(work())
    await asyncio.sleep(0.05)
    working.cancel()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), turns.turn("b"):
            pass
    over.set()
    with pytest.raises(asyncio.CancelledError):
        await working
    async with asyncio.timeout(10), turns.turn("b"):
        pass


def being_prepared(client: Client) -> bool:
    return client.server.state.ready().busy > 0


@pytest.mark.parametrize(
    "structure",
    [
        {"guided_regex": "(?:a|b)*a(?:a|b){40}"},
        {"guided_json": {"type": "integer"}},
        {"response_format": {"type": "json_object"}},
    ],
    ids=str,
)
def test_others_are_answered_while_a_structure_is_prepared(
    pocket: Model, monkeypatch: pytest.MonkeyPatch, structure: dict[str, Any]
) -> None:
    """Even those of the same address; nothing is remembered of what other tests asked for."""
    monkeypatch.setattr(structures, "automata", Remembered(1))
    monkeypatch.setattr(confined, "COMMAND", FOREVER)
    with serving(pocket) as client, closing(client.raw(CHAT, chat(max_tokens=4, **structure))):
        until(lambda: being_prepared(client))
        assert client.ask(max_tokens=4).status == 200
        assert being_prepared(client)


def test_who_hangs_up_ends_what_was_prepared_for_him(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined, "COMMAND", FOREVER)
    with serving(pocket) as client:
        bodies = [chat(max_tokens=4, guided_regex=f"a{{{n}}}") for n in range(1, 6)]
        for body in bodies:
            with closing(client.raw(CHAT, body)):
                until(lambda: being_prepared(client))
        until(lambda: not being_prepared(client))


def test_who_waits_too_long_for_a_structure_is_told(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined, "COMMAND", FOREVER)
    with serving(pocket, queue_timeout=1.0) as client:
        reply = client.ask(max_tokens=4, guided_regex="[a-z]{3}")
        assert reply.status == 503
        assert "was not begun within 1 s" in reply.json["error"]["message"]
        until(lambda: not being_prepared(client))
