"""One HTTP request while the engine works on it: how it is answered, and what becomes of its parts.

Who gets this far, and with which method, is decided before; what is sent is put into words behind it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archer.engine.handle import Listener
from archer.errors import ArcherError
from archer.results.completion import Completion
from archer.results.step import Step
from archer.server.infill import InfillReply
from archer.server.metrics import Metrics
from archer.server.outbox import Admitted, Delta, Failed, Finished, Outbox, Stepped
from archer.server.provisional import ProvisionalEvents
from archer.server.refusals import RowFailed
from archer.server.replies import Reply, counted
from archer.server.request_schema import GenerationRequest

if TYPE_CHECKING:
    from archer.engine.handle import Handle
    from archer.model import Model
    from archer.request.request import Request


class Exchange:
    """One HTTP request that the engine works on."""

    def __init__(
        self,
        model: Model,
        name: str,
        generation: GenerationRequest,
        requests: list[Request],
        arrived: float,
        outbox: Outbox,
    ) -> None:
        """`name` is the model's own; `arrived`: when the first byte was read, by the monotonic clock."""
        self.model, self.name = model, name
        self.generation, self.arrived = generation, arrived
        self.requests = requests
        self.outbox = outbox
        common: dict[str, Any] = {
            "id": f"{'chatcmpl' if generation.chat else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": generation.model or name,
            "chat": generation.chat,
            "tokens": generation.extension.return_tokens is True,
            "states": generation.extension.return_states is True,
            "served": model,
        }
        self.reply = (
            Reply(**common)
            if generation.infill is None
            else InfillReply(**common, infill=generation.infill, stop=generation.stop)
        )
        self.rows = len(requests) * generation.n
        self.watch: ProvisionalEvents | None = None
        """None where nobody watches, and before it is known how long the gaps are."""
        if generation.provisional and not requests[0].prompts[0].searched:
            self.watch_from(requests)
        self.handles: list[Handle] = []

    def watch_from(self, requests: list[Request]) -> ProvisionalEvents:
        """Begin to tell updates of requests all of whose gaps have their length."""
        self.watch = ProvisionalEvents(self.name, _all_rows(requests, self.generation.n))
        return self.watch

    def cancel(self) -> None:
        """Free what it holds; harmless where it is over."""
        for handle in self.handles:
            handle.cancel()


class Ticket(Listener):
    """One request of the engine: tells the outbox and the metrics what becomes of it."""

    def __init__(
        self, exchange: Exchange, metrics: Metrics, request: Request, first: int, samples: int
    ) -> None:
        """`first` is the number of its first response among all that the client asked for."""
        self.hears_text = exchange.generation.stream
        self._metrics, self._model = metrics, exchange.model
        self._outbox, self._first = exchange.outbox, first
        self._watched = exchange.generation.provisional
        self._unsized = bool(request.prompts[0].searched)
        # one row stands for all samples of a method that leaves nothing to chance
        self._copies = 1 if request.method.decoder.draws else samples
        self._born = exchange.arrived
        self._columns = 0
        self._silent = True

    @property
    def restarts(self) -> bool:
        """Where the client hears nothing before the end."""
        return not (self.hears_text or self._watched)

    def admitted(self, request: Request) -> None:
        self._columns = 0
        self._metrics.admitted(self._age)
        self._columns += request.prompts[0].probed
        if self._watched and self._unsized:
            self._outbox.post(Admitted(request))

    def stepped(self, step: Step[Any]) -> None:
        self._columns += sum(call.fed for call in step.calls)
        positions = step.before.stops.clip(max=step.before.wanted).sum()
        self._metrics.stepped(len(step.rows), int(positions))
        if self._watched:
            for copy in range(self._copies):
                self._outbox.post(Stepped(self._first + copy, step.record))

    def settled(self, row: int, text: str) -> None:
        self._speak()
        self._outbox.post(Delta(self._first + row, text))

    def finished(self, completions: Sequence[Completion]) -> None:
        for each in completions:
            if each.error is not None:
                self.failed(RowFailed(each.error))
                return
        self._speak()
        tokens = sum(counted(self._model, each) for each in completions)
        self._metrics.finished(completions, tokens, self._age)
        self._outbox.post(Finished(self._first, completions, self._columns))

    def failed(self, error: ArcherError) -> None:
        self._metrics.failed(error)
        self._outbox.post(Failed(error))

    def _speak(self) -> None:
        if self._silent:
            self._silent = False
            self._metrics.first_text(self._age)

    @property
    def _age(self) -> float:
        return time.monotonic() - self._born


def _all_rows(requests: list[Request], n: int) -> Request:
    """One request with a prompt for every row that the client will see."""
    prompts = tuple(prompt for request in requests for prompt in request.prompts for _ in range(n))
    return replace(requests[0], prompts=prompts)
