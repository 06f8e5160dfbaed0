"""One model behind the API, from a request that has been read to its place in the engine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archer.engine.batch import contained
from archer.engine.job import Job, Options, samples_together
from archer.engine.schedule import may_wait
from archer.errors import (
    ArcherError,
    BadModel,
    BadRequest,
    Closing,
    Expired,
    Incompatible,
    Overloaded,
    PassFailed,
)
from archer.methods.build import resolve
from archer.results.completion import Completion
from archer.server import limits
from archer.server.encoding import Encoded
from archer.server.entrance import Entrance
from archer.server.error_log import ErrorLog
from archer.server.exchange import Exchange, Ticket
from archer.server.fair_turns import on_a_thread
from archer.server.metrics import Metrics
from archer.server.outbox import Outbox
from archer.server.refusals import STOPPING, Refusal, refusal
from archer.server.request_schema import GenerationRequest
from archer.server.settings import ServerSettings
from archer.server.terms import Terms

if TYPE_CHECKING:
    from archer.engine.engine import Engine
    from archer.model import Model

log = logging.getLogger("archer")
WEIGHT_FIELDS = ("model_path", "running")
"""What a request for new weights may hold."""


class Serving:
    """The model, its engine and its encoder; what may be asked of them stands in the `terms`."""

    def __init__(
        self,
        model: Model,
        engine: Engine,
        metrics: Metrics,
        settings: ServerSettings,
    ) -> None:
        if model.text is None:
            raise BadRequest(
                f"{model.name!r} has no tokenizer, so it cannot be served: clients send texts. "
                "Add a tokenizer.json to its folder."
            )
        self.model, self.engine, self.metrics, self.settings = model, engine, metrics, settings
        self.name = settings.served_model_name or public_name(model.name)
        self.terms = Terms(model, self.name, settings)
        self.created = int(time.time())
        self.stopping = False
        self.exchanges: set[Exchange] = set()
        self._entering = 0
        self._prompts_entering: Counter[str] = Counter()
        self._entrance = Entrance(model.text)
        self._changing = asyncio.Lock()
        self._errors = ErrorLog(log)
        self._path = str(model.folder.path)

    @property
    def busy(self) -> int:
        """Clients that wait for an answer."""
        return len(self.exchanges) + self._entering

    async def check_id(self, name: str) -> None:
        """Refuse an id that names another model, or a method that is none with any settings."""
        method = self.terms.method(name)
        try:
            await on_a_thread(lambda: resolve(method, {}))
        except Incompatible:
            pass  # settings such as a block may change that
        except BadRequest as error:
            raise self.terms.no_model(name) from error
        except ArcherError as error:
            raise self.refusal_of(error) from error

    async def submit(self, generation: GenerationRequest, owner: str, arrived: float) -> Exchange:
        """Check, encode and enqueue; refuses all that can be refused. Cancelled, it leaves nothing."""
        if self.stopping:
            raise refusal(Closing(STOPPING))
        try:
            with contained():
                choice = self.terms.choice(generation)
            self.terms.check_prompts(generation)
            self._check_room(len(generation.prompts), owner)
            outbox, waited = Outbox(limits.BACKLOG), time.monotonic() - arrived

            def prepared(prompts: Encoded) -> tuple[Exchange, list[Job]]:
                """On a thread beside the loop."""
                requests = self.terms.requests(generation, choice, prompts)
                exchange = Exchange(self.model, self.name, generation, requests, arrived, outbox)
                return exchange, self._jobs(exchange, owner)

            with self._enters(owner, len(generation.prompts)):
                async with asyncio.timeout(self.settings.queue_timeout - waited):
                    exchange, jobs = await self._entrance.requests(generation, owner, prepared)
                self._enqueue(exchange, jobs)
        except TimeoutError as error:
            raise self.refusal_of(Expired("queue", self.settings.queue_timeout)) from error
        except ArcherError as error:
            raise self.refusal_of(error) from error
        return exchange

    @contextmanager
    def _enters(self, owner: str, prompts: int) -> Iterator[None]:
        """N prompts of an owner are on their way to the engine."""
        self._entering += 1
        self._prompts_entering[owner] += prompts
        try:
            yield
        finally:
            self._entering -= 1
            self._prompts_entering[owner] -= prompts
            self._prompts_entering += Counter()  # forgets owners without any

    def provenance(self, done: Completion) -> dict[str, Any]:
        """How an answer was made, without the places of files; its weights by their version."""
        assert done.provenance is not None
        made = replace(done.provenance, structure=None, stop=()).to_dict()  # clients know theirs
        del made["sample"]
        files = {Path(name).name: digest for name, digest in done.provenance.files.items()}
        made |= {"model": self.name, "weights_version": done.weights_version}
        return made | ({"files": files} if files else {})

    def refusal_of(self, error: ArcherError) -> Refusal:
        """The refusal, without the place of the model's folder; what nobody foresaw goes to the log."""
        if isinstance(error, PassFailed):
            self._errors.failed(error.__cause__ or error)
        made = refusal(error)
        made.message = made.message.replace(self._path, self.name)
        return made

    def over(self, exchange: Exchange) -> None:
        """The client has its answer or is gone."""
        exchange.cancel()
        self.exchanges.discard(exchange)

    def close(self) -> None:
        """Both threads are told; each ends after what it is at, which may be never."""
        self._entrance.close()
        self.engine.close()
        self._entrance.join()

    async def update_weights(self, body: Mapping[str, Any]) -> int:
        """Change the weights to those of a folder below the operator's; returns the new version."""
        root = self.settings.allow_weight_updates
        if root is None:
            raise Refusal(403, "This server does not let clients change its weights.")
        path, running = body.get("model_path"), body.get("running", "finish")
        if not isinstance(path, str) or len(path) > limits.LABEL or set(body) - {*WEIGHT_FIELDS}:
            sentence = f"Give model_path, a folder; the fields are {', '.join(WEIGHT_FIELDS)}."
            raise Refusal(400, sentence, param="model_path")
        try:
            folder = (root / path).resolve()
            inside = folder.is_relative_to(root.resolve()) and folder.is_dir()
        except (OSError, ValueError):  # a name that no file can have
            inside = False
        if not inside:
            sentence = "There is no such folder below the one that new weights are read from."
            raise Refusal(400, sentence, param="model_path")
        try:
            async with self._changing:
                return await asyncio.to_thread(
                    self.model.update_weights,
                    folder,
                    running=running,
                    timeout=self.settings.timeout,
                )
        except TimeoutError as error:
            sentence = "Requests that run did not end in time; the weights are as they were."
            raise Refusal(503, sentence, kind="server_error", code="busy") from error
        except ArcherError as error:
            made = self.refusal_of(error)
            message = made.message.replace(str(folder), path).replace(str(root), "")
            if isinstance(error, BadModel):
                made = Refusal(400, message, param="model_path")
            made.message = message
            raise made from error

    def _check_room(self, prompts: int, owner: str) -> None:
        """All prompts of a request wait, or none does."""
        if prompts > self.settings.queue:
            raise Refusal(
                400,
                f"{prompts} prompts are more than the {self.settings.queue} that may wait at this server. "
                "Send them in several requests.",
                param="prompt",
            )
        waiting = Counter(self.engine.status().waiting_of) + self._prompts_entering
        if not may_wait(waiting, owner, prompts, self.settings.queue):
            raise refusal(Overloaded(waiting.total(), self.engine.seconds_queued))

    def _jobs(self, exchange: Exchange, owner: str) -> list[Job]:
        """What the engine is to do for it, with all that can be prepared and refused beforehand."""
        generation = exchange.generation
        options = Options(
            n=generation.n,
            stop=generation.stop,
            ends_early=not generation.provisional,
            priority=generation.extension.priority or "interactive",
            isolated=generation.extension.isolated is True,
            timeout=self.settings.timeout,
            queue_timeout=self.settings.queue_timeout,
            since=exchange.arrived,
            owner=owner,
        )
        jobs = []
        for place, request in enumerate(exchange.requests):
            together = samples_together(self.model.network, request)
            if generation.provisional and request.prompts[0].searched:
                together = generation.n  # its watcher is told of one beginning
            for first in range(0, generation.n, together):
                own = replace(options, n=min(together, generation.n - first), first=first)
                ticket = Ticket(
                    exchange, self.metrics, request, place * generation.n + first, own.n
                )
                jobs.append(self.engine.prepared(request, own, ticket))
        return jobs

    def _enqueue(self, exchange: Exchange, jobs: Sequence[Job]) -> None:
        """All of them or none."""
        try:
            for job in jobs:
                exchange.handles.append(self.engine.take(job))
                self.metrics.accepted(0 if job.options.first else job.form.prompt_tokens)
        except BaseException:
            exchange.cancel()
            raise
        self.exchanges.add(exchange)


def public_name(name: str) -> str:
    """A hub id as it is; of a folder the last part only, which tells nobody where it lies."""
    path = Path(name)
    return path.resolve().name if path.is_dir() else name
