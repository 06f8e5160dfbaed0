"""Answers as one JSON object or as server-sent events; both watch for the client to leave meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from archer.results.completion import Completion
from archer.server import limits
from archer.server.exchange import Exchange
from archer.server.outbox import Admitted, Delta, Failed, Finished, Item, Skipped, Stepped
from archer.server.provisional import ProvisionalEvents
from archer.server.replies import error_line, logprobs, usage
from archer.server.request_schema import GenerationRequest
from archer.server.serving import Serving

ALIVE = ": keep-alive\n\n"
NOBODY_READS = 499
"""The status of what is answered to a client that has left."""
T = TypeVar("T")


async def plain(serving: Serving, exchange: Exchange, request: Request) -> Response:
    """The whole answer; nothing if the client leaves before."""
    try:
        answer = await unless_gone(request.receive, _collected(serving, exchange))
    finally:
        serving.over(exchange)
    if answer is None:
        return Response(status_code=NOBODY_READS)
    done, columns = answer
    choices = [
        exchange.reply.choice(row, each, _sure(serving, exchange, each))
        for row, each in enumerate(done)
    ]
    usage = _usage(serving, exchange, done, columns)
    return JSONResponse(
        exchange.reply.whole(choices, usage=usage, archer=serving.provenance(done[0]))
    )


def nothing_written(serving: Serving, generation: GenerationRequest) -> Response:
    """The answer to a client of llama.cpp that asks for no token, to have its prompt in a cache."""
    serving.terms.method(generation.model)
    reply = {"content": "", "stop": True, "stop_type": "limit", "tokens_predicted": 0}
    reply |= {"model": generation.model or serving.name, "tokens": [], "tokens_evaluated": 0}
    if not generation.stream:
        return JSONResponse(reply)
    return Response(f"data: {json.dumps(reply)}\n\n", media_type="text/event-stream")


class EventStream(Response):
    """A stream of chunks, with a sign of life in long silences and an end for readers that do not read."""

    def __init__(self, serving: Serving, exchange: Exchange) -> None:
        super().__init__(
            media_type="text/event-stream",
            headers={"cache-control": "no-cache", "x-accel-buffering": "no"},
        )
        del self.headers["content-length"]
        self._serving, self._exchange = serving, exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(until_gone(receive))
        sending = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                with suppress(TimeoutError):
                    sending.result()
        finally:
            self._serving.over(self._exchange)
            gone.cancel()
            sending.cancel()

    async def _send(self, send: Send) -> None:
        slow = limits.SLOW_SECONDS
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        script = Script(self._serving, self._exchange)
        text = script.opening()
        while True:
            async with asyncio.timeout(slow):
                body = {"type": "http.response.body", "body": text.encode(), "more_body": True}
                await send(body)
            if script.over:
                break
            text = await self._following(script)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _following(self, script: Script) -> str:
        try:
            async with asyncio.timeout(limits.ALIVE_SECONDS):
                items = await self._exchange.outbox.take()
        except TimeoutError:
            return ALIVE
        return script.following(items)


class Script:
    """The text of a stream, piece by piece; it knows no socket."""

    def __init__(self, serving: Serving, exchange: Exchange) -> None:
        self._serving, self._exchange = serving, exchange
        self._done: dict[int, Completion] = {}
        self._columns = 0
        self._nulls = ',"usage":null' if exchange.generation.usage else ""
        self.over = False

    def opening(self) -> str:
        """A chunk per choice at once, so that the client knows that it was heard."""
        reply, rows, watch = self._exchange.reply, range(self._exchange.rows), self._exchange.watch
        text = "".join(self._chunk(reply.opening(row)) for row in rows)
        return text if watch is None else text + self._start(watch)

    def _start(self, watch: ProvisionalEvents) -> str:
        return self._chunk(self._exchange.reply.silent(0), f',"archer":{watch.start()}')

    def following(self, items: list[Item]) -> str:
        """Everything up to the end or to the first error."""
        text = ""
        for item in items:
            if not self.over:
                text += "".join(self._lines(item))
        return text

    def _lines(self, item: Item) -> Iterator[str]:
        reply, watch = self._exchange.reply, self._exchange.watch
        match item:
            case Admitted():
                yield self._start(self._exchange.watch_from([item.request]))
            case Stepped() if watch is not None:
                for row, event in watch.updates(item):
                    yield self._chunk(reply.silent(row), f',"archer":{event}')
            case Skipped() if watch is not None:
                yield self._chunk(reply.silent(item.row), f',"archer":{watch.skipped(item)}')
            case Delta():
                yield self._chunk(reply.delta(item.row, item.text))
            case Finished():
                yield from self._ends(item)
            case Failed():
                self.over = True
                yield error_line(self._serving.refusal_of(item.error).body)
            case _:
                pass

    def _ends(self, item: Finished) -> Iterator[str]:
        exchange, serving = self._exchange, self._serving
        for row, done in enumerate(item.completions, start=item.first):
            self._done[row] = done
            event = "" if exchange.watch is None else f',"archer":{exchange.watch.end(row, done)}'
            choice = exchange.reply.closing(row, done, _sure(serving, exchange, done))
            yield self._chunk(choice, event)
        self._columns += item.columns
        if len(self._done) < exchange.rows:
            return
        self.over = True
        if exchange.generation.usage:
            rows = [self._done[row] for row in range(exchange.rows)]
            usage = _json(_usage(serving, exchange, rows, self._columns))
            made = _json(serving.provenance(rows[0]))
            yield exchange.reply.chunk("", f',"usage":{usage},"archer":{made}')
        yield exchange.reply.done

    def _chunk(self, choice: str, more: str = "") -> str:
        return self._exchange.reply.chunk(choice, self._nulls + more)


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """What the work comes to; None, and the work is cancelled, if the client leaves before."""
    gone = asyncio.create_task(until_gone(receive))
    working = asyncio.create_task(work)
    try:
        await asyncio.wait({gone, working}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        gone.cancel()
        working.cancel()


async def until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _collected(serving: Serving, exchange: Exchange) -> tuple[list[Completion], int]:
    done: dict[int, Completion] = {}
    columns = 0
    while len(done) < exchange.rows:
        for item in await exchange.outbox.take():
            match item:
                case Finished():
                    done |= dict(enumerate(item.completions, start=item.first))
                    columns += item.columns
                case Failed():
                    raise serving.refusal_of(item.error)
                case _:
                    pass
    return [done[row] for row in range(exchange.rows)], columns


def _sure(serving: Serving, exchange: Exchange, done: Completion) -> dict[str, Any] | None:
    return (
        logprobs(serving.model, done, exchange.generation.chat)
        if exchange.generation.logprobs
        else None
    )


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _usage(
    serving: Serving, exchange: Exchange, done: Sequence[Completion], columns: int
) -> dict[str, Any]:
    prompts = sum(each.prompt_tokens for request in exchange.requests for each in request.prompts)
    return usage(serving.model, done, prompts, columns)
