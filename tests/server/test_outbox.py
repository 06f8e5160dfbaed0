"""What a slow reader has not taken is merged, and nothing of its text is lost."""

import asyncio
import threading

from archer.model import Model
from archer.results.trace import states, updates
from archer.server.outbox import Delta, Outbox, Skipped, Stepped
from archer.server.provisional import ProvisionalEvents
from server.running import PROBLEM, on_a_loop


@on_a_loop
async def test_what_another_thread_posts_is_taken_in_order() -> None:
    outbox = Outbox(8)
    posted = [Delta(row, str(row)) for row in range(50)]

    def post() -> None:
        for item in posted:
            outbox.post(item)

    thread = threading.Thread(target=post)
    thread.start()
    taken: list[object] = []
    while len(taken) < len(posted):
        taken += await outbox.take()
    thread.join()
    assert taken == posted


@on_a_loop
async def test_deltas_of_a_row_become_one() -> None:
    outbox = Outbox(8)
    for row, text in ((0, "a"), (0, "b"), (1, "c"), (0, "d")):
        outbox.post(Delta(row, text))
    await asyncio.sleep(0)
    assert await outbox.take() == [Delta(0, "ab"), Delta(1, "c"), Delta(0, "d")]


@on_a_loop
async def test_updates_beyond_the_backlog_become_the_response_they_led_to(pocket: Model) -> None:
    stream = pocket.stream(PROBLEM, length=16)
    steps = list(stream)
    outbox = Outbox(4)
    watch = ProvisionalEvents("pocket", stream.request)
    for number, step in enumerate(steps):
        outbox.post(Stepped(0, step.record))
        outbox.post(Delta(0, str(number % 10)))
    await asyncio.sleep(0)
    items = await outbox.take()
    assert len(items) <= 2 * 4 + 2
    first = items[0]
    assert isinstance(first, Skipped)
    assert "".join(item.text for item in items if isinstance(item, Delta)) == "".join(
        str(number % 10) for number in range(len(steps))
    )
    events = [event for step in steps for event in updates(step.record)]
    from archer.results.trace import start

    replayed = list(states(start(stream.request), events))
    assert list(first.response) == replayed[first.update - 1]
    assert first.count == first.update
    kept = [item for item in items if isinstance(item, Stepped)]
    assert first.count + len(kept) == len(steps)
    assert '"event":"skipped"' in watch.skipped(first)
    for moment in kept:
        ((row, event),) = watch.updates(moment)
        assert row == 0
        assert '"stable":' in event


def test_a_loop_that_is_gone_is_no_error() -> None:
    made: list[Outbox] = []

    @on_a_loop
    async def make() -> None:
        made.append(Outbox(1))

    make()
    (outbox,) = made
    assert outbox._loop.is_closed()
    outbox.post(Delta(0, "nobody hears this"))
    assert len(outbox._items) == 1, "and it raised nothing"


@on_a_loop
async def test_updates_that_follow_soon_are_taken_together(pocket: Model) -> None:
    steps = list(pocket.stream(PROBLEM, length=16))
    outbox = Outbox(len(steps), pause=30.0)
    outbox.post(Stepped(0, steps[0].record))
    assert len(await outbox.take()) == 1, "the first update waits for nothing"
    for step in steps[1:]:
        outbox.post(Stepped(0, step.record))
    later = asyncio.ensure_future(outbox.take())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not later.done(), "updates within the pause wake nobody"
    outbox.post(Delta(0, "said"))
    items = await asyncio.wait_for(later, 10)
    assert [type(item) for item in items] == [Stepped] * (len(steps) - 1) + [Delta]


@on_a_loop
async def test_updates_are_taken_once_the_pause_is_over(pocket: Model) -> None:
    first, second, third, *_ = pocket.stream(PROBLEM, length=16)
    outbox = Outbox(8, pause=0.02)
    taken = []
    for step in (first, second):
        outbox.post(Stepped(0, step.record))
        taken += await asyncio.wait_for(outbox.take(), 10)
    await asyncio.sleep(0.1)
    outbox.post(Stepped(0, third.record))
    taken += await asyncio.wait_for(outbox.take(), 10)
    assert [item.record.updates[0] for item in taken if isinstance(item, Stepped)] == [1, 2, 3]
