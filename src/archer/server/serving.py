"""One model behind the API: which requests get to its engine, and how each of them is decoded."""

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
    TooLong,
)
from archer.methods.build import Choice, resolve
from archer.methods.catalogue import ALIASES, DEFAULT_METHOD, LENGTHS, METHODS
from archer.methods.compatibility import check_attention
from archer.methods.spelling import settings_taken, spelled_out
from archer.network.shape import Blocks
from archer.pocket import grids
from archer.request.fill import AUTO, Fill
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
from archer.server.request_schema import GenerationRequest, Prompt, texts_of
from archer.server.settings import ServerSettings

if TYPE_CHECKING:
    from archer.engine.engine import Engine
    from archer.model import Model
    from archer.request.request import Request

log = logging.getLogger("archer")
WEIGHT_FIELDS = ("model_path", "running")
"""What a request for new weights may hold."""
NOT_SETTINGS = frozenset({"prompts", "method", "seed", "chat", "allow_special", "preset", "self"})
"""Options of `Model.request` itself, which have fields of their own or none."""
REACHED_BY = {"length", "canvas", "block"}
"""Settings that say how a length is reached."""


class Serving:
    """The model, its engine and its encoder, and the rules by which requests get to them."""

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
        self.created = int(time.time())
        self.stopping = False
        self.exchanges: set[Exchange] = set()
        self._entering = 0
        self._prompts_entering: Counter[str] = Counter()
        self._preset = settings.decoding
        if self._preset is not None:
            chosen = self._preset.under({}).build(model.folder.recommended)
            check_attention(chosen, model.folder.shape.attention)
        self._entrance = Entrance(model.text)
        self._changing = asyncio.Lock()
        self._errors = ErrorLog(log)
        self._path = str(model.folder.path)
        tokens = model.text.tokenizer.get_vocab(with_added_tokens=True)
        self.grids = grids.known(tokens)
        """Sizes of Sudoku grids that the model fills; for most models none."""
        self._most_bytes = model.folder.shape.max_positions * max(map(len, tokens))

    @property
    def busy(self) -> int:
        """Clients that wait for an answer."""
        return len(self.exchanges) + self._entering

    @property
    def ids(self) -> list[str]:
        """Names by which the model can be asked for: its own, and one with each method."""
        return [self.name, *(f"{self.name}@{method}" for method in METHODS)]

    def method(self, name: str) -> str | None:
        """The method that a model id names, None where it names none; refuses other models."""
        if name in ("", self.name):
            return None
        own, at, method = name.rpartition("@")
        if own == self.name and at and method:
            return method
        raise self.no_model(name)

    async def check_id(self, name: str) -> None:
        """Refuse an id that names another model, or a method that is none with any settings."""
        method = self.method(name)
        try:
            await on_a_thread(lambda: resolve(method, {}))
        except Incompatible:
            pass  # settings such as a block may change that
        except BadRequest as error:
            raise self.no_model(name) from error
        except ArcherError as error:
            raise self.refusal_of(error) from error

    def no_model(self, name: str) -> Refusal:
        return Refusal(
            404,
            f"There is no model {name[:100]!r} here. The model is {self.name!r}, "
            f"and {self.name + '@METHOD'!r} decodes it by another method.",
            param="model",
            code="model_not_found",
        )

    async def submit(self, generation: GenerationRequest, owner: str, arrived: float) -> Exchange:
        """Check, encode and enqueue; refuses all that can be refused. Cancelled, it leaves nothing."""
        if self.stopping:
            raise refusal(Closing(STOPPING))
        try:
            with contained():
                choice = self._choice(generation)
            for prompt in generation.prompts:
                self._check_size(prompt)
                if generation.extension.grid and isinstance(prompt, Fill):
                    self._check_grid(prompt)
            self._check_room(len(generation.prompts), owner)
            outbox, waited = Outbox(limits.BACKLOG), time.monotonic() - arrived

            def prepared(prompts: Encoded) -> tuple[Exchange, list[Job]]:
                """On a thread beside the loop."""
                requests = self._requests(generation, choice, prompts)
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

    def _choice(self, generation: GenerationRequest) -> Choice:
        """The method, and its settings from wherever they stand in the request."""
        named, own = self.method(generation.model), generation.extension.method
        if named is not None and own is not None:
            sentence = "The method is given twice, in the model's name and as archer.method."
            raise Refusal(400, sentence, param="archer.method")
        own_settings = generation.extension.settings or {}
        settings = dict(own_settings) if generation.gapped else spelled_out(own_settings)
        for name in settings.keys() & NOT_SETTINGS:
            raise refusal(BadRequest(f"{name!r} is not a setting of a method."))
        for field in ("length", "temperature", "top_p", "top_k"):
            value = getattr(generation, field)
            if value is None:
                continue
            if _says_how_long(settings, generation) if field == "length" else field in settings:
                sentence = f"The {field} is given twice, as a field and in archer.settings."
                raise Refusal(400, sentence, param=f"archer.settings.{field}")
            settings["max_length" if field == "length" and generation.gapped else field] = value
        preset = generation.extension.preset
        choice = Choice(named or own or "", settings, preset)
        if self._preset is not None and named is None and own is None and preset is None:
            choice = self._preset.under(settings)
        method = choice.named(self.model.folder.recommended)
        if generation.top_p == 1 and not _takes(method, "top_p"):
            kept = {name: value for name, value in choice.settings.items() if name != "top_p"}
            choice = replace(choice, settings=kept)
        for name in LENGTHS & choice.settings.keys():
            self._check_length(choice.settings[name])
        if self._follows(choice, generation):
            choice = replace(choice, settings={**choice.settings, "canvas": AUTO})
        return choice

    def _follows(self, choice: Choice, generation: GenerationRequest) -> bool:
        """Whether the length is a limit: the default decodes, and nobody has said how a length is reached."""
        folder = self.model.folder
        default = not choice.method and choice.named(folder.recommended) == DEFAULT_METHOD
        names = {ALIASES.get(name, name) for name in generation.extension.settings or {}}
        fixed = generation.gapped or generation.extension.grid is True
        sees_ends = not fixed and not isinstance(folder.shape.attention, Blocks)
        return default and sees_ends and not names & REACHED_BY

    def _requests(
        self, generation: GenerationRequest, choice: Choice, prompts: Sequence[list[int] | Fill]
    ) -> list[Request]:
        """One for each prompt."""
        made = []
        structure = generation.structure
        has_to_be: dict[str, Any] = {} if structure is None else {structure.kind: structure.value}
        for prompt in prompts:
            request = self.model.request(
                prompt,
                choice.method,
                seed=generation.seed,
                preset=choice.preset,
                settings=choice.settings,
                healing=generation.extension.healing is not False,
                curve=generation.extension.curve,
                **has_to_be,
            )
            self._check_length(request.method.length)
            made.append(request)
        if generation.extension.return_states:
            self._check_states(made, generation.n)
        if (
            generation.provisional
            and len(made) > 1
            and any(each.prompts[0].searched for each in made)
        ):
            raise Refusal(
                400,
                "Provisional events begin when the lengths of all gaps are known, and those of several "
                "prompts are found one after the other. Send one prompt, or say the length.",
                param="archer.stream_mode",
            )
        return made

    def _check_states(self, requests: Sequence[Request], n: int) -> None:
        """Refuse states that would make a reply too large."""
        lengths = [(each.method.length, each.method.decoder) for each in requests]
        tokens = n * sum(length * (decoder.limit(length) + 1) for length, decoder in lengths)
        if tokens > limits.STATES:
            raise Refusal(
                400,
                f"All states of the responses may be {tokens} tokens, and at most {limits.STATES} are sent. "
                "Ask for fewer tokens or responses, or for return_tokens, which tells the update that wrote "
                "each of them.",
                param="archer.return_states",
            )

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

    def _check_size(self, prompt: Prompt) -> None:
        """Refuse a text that cannot fit however few tokens it makes: encoding it would cost memory."""
        if sum(len(text.encode()) for text in texts_of(prompt)) > self._most_bytes:
            raise refusal(
                TooLong(
                    f"The prompt is longer than {self._most_bytes} bytes, which is more than the "
                    f"{self.model.folder.shape.max_positions} positions of the model can hold. Shorten it."
                )
            )

    def _check_grid(self, grid: Fill) -> None:
        """Refuse a grid that the model was not made for: it would write anything at all."""
        (message,) = grid.prompt
        if message["content"] not in map(grids.message, self.grids):
            raise Refusal(
                400,
                f"{self.name!r} does not fill grids of this size: it has no word for {message['content']!r}. "
                "Ask a model that does, such as the bundled pocket-sudoku.",
                param="archer.grid",
            )

    def _check_length(self, length: Any) -> None:
        """Before anything is laid out for it; a setting may say it as 300.0 or "300", or for each gap."""
        if isinstance(length, list):
            length = sum(each for each in length if isinstance(each, int))
        try:
            longer = float(length) > self.settings.max_length
        except (TypeError, ValueError):
            return  # refused as a setting, with what it may be
        if longer:
            raise Refusal(
                400,
                f"A response of {length} tokens is longer than this server allows, "
                f"which is {self.settings.max_length}.",
                param="max_tokens",
                code="context_length_exceeded",
            )

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


def _says_how_long(settings: dict[str, Any], generation: GenerationRequest) -> bool:
    """Whether the settings say what `max_tokens` says; how a gap's length is found is another thing."""
    lengths = [settings[name] for name in LENGTHS if settings.get(name) is not None]
    return any(not generation.gapped or not isinstance(each, str) for each in lengths)


def _takes(method: str, setting: str) -> bool:
    """Whether a method has a setting; one that does not exist is refused by its name elsewhere."""
    try:
        return setting in settings_taken(method)
    except BadRequest:
        return True


def public_name(name: str) -> str:
    """A hub id as it is; of a folder the last part only, which tells nobody where it lies."""
    path = Path(name)
    return path.resolve().name if path.is_dir() else name
