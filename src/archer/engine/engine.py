"""The engine: takes requests at any time, and makes turns in which those that run share a pass.

What a turn does is in `turns`; here are the doors and the thread.  Clocks are read to choose who is served;
what a request's next update is depends on nothing but the request.  Without a thread of its own whoever waits
for a result makes the turns; `start` gives it one.  It knows no HTTP.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self, get_args
from weakref import WeakSet

from archer.engine.batch import contained
from archer.engine.budget import DEFAULT_BUDGET, measured_budget
from archer.engine.footprint import default_limit, logits_bytes, pass_limit, readable
from archer.engine.handle import Handle, Listener, Observer
from archer.engine.job import Job, Options, Priority, as_stops, check_count
from archer.engine.schedule import may_wait
from archer.engine.turns import Running, Status, Turns, stopped_by
from archer.errors import ArcherError, BadRequest, Closing, Overloaded, PassFailed, quoted
from archer.machine.threads import computing

if TYPE_CHECKING:
    from typing import Unpack

    from archer.methods.build import MethodLike
    from archer.model import Model
    from archer.request.options import StreamOptions
    from archer.request.request import OnePrompt, Request

IDLE = 0.05
"""Seconds between two looks at requests whose readers are behind."""


class Engine:
    """Runs many requests on one model; see `submit`."""

    def __init__(
        self,
        model: Model,
        *,
        budget: int | None = None,
        memory: int | None = None,
        waiting: int | None = None,
        per_owner: int | None = None,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`budget`: columns of a pass; `memory`: bytes that requests may hold; `waiting`: most that queue.

        Owners have equal shares of all three, whatever others ask for, and what those leave.
        Without a budget one is measured when the engine gets a thread.  Without `memory` it is half of what
        is free now.  `per_owner` bounds the rows that run on one owner's behalf.
        """
        limits = {"budget": budget, "memory": memory, "waiting": waiting, "per_owner": per_owner}
        for name, limit in limits.items():
            check_count(name, limit)
        self.model = model
        self.budget = DEFAULT_BUDGET if budget is None else budget
        self._measures = budget is None
        self._ceiling = default_limit(model.network) if memory is None else memory
        self._most_logits = pass_limit(model.network)
        self._most_waiting = waiting
        self._per_owner = per_owner
        self._clock = clock
        self._inbox: deque[Job] = deque()
        self._turns = Turns(model, observer or Observer(), self._ceiling, per_owner)
        self._turning = threading.Lock()
        self._starting = threading.Lock()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._cutting = False
        self._lost: ArcherError | None = None
        self._when_lost: Callable[[ArcherError], None] | None = None
        model.engines.join(self)

    def __repr__(self) -> str:
        now = self.status()
        return f"<Engine of {self.model.name!r}, {now.running} running, {now.waiting} waiting>"

    def submit(
        self,
        prompt: OnePrompt,
        method: MethodLike | None = None,
        *,
        n: int = 1,
        stop: str | Sequence[str] = (),
        ends_early: bool = False,
        priority: Priority = "interactive",
        isolated: bool = False,
        timeout: float | None = None,
        queue_timeout: float | None = None,
        owner: Hashable = None,
        listener: Listener | None = None,
        **options: Unpack[StreamOptions],
    ) -> Handle:
        """Queue one prompt with its own method, settings, length and seed; options as for `Model.request`.

        `await engine.submit(...)` is the completion, on an event loop.  Whatever can be known to fail is
        refused here.  The text never depends on what else is running.
        """
        request = self.model.request(prompt, method, **options)
        return self.enqueue(
            request,
            Options(
                n=n,
                stop=as_stops(stop),
                ends_early=ends_early,
                priority=priority,
                isolated=isolated,
                timeout=timeout,
                queue_timeout=queue_timeout,
                owner=owner,
            ),
            listener,
        )

    def enqueue(
        self, request: Request, options: Options | None = None, listener: Listener | None = None
    ) -> Handle:
        """Queue a request that has been checked.  Never waits for a pass."""
        return self.take(self.prepared(request, options, listener))

    def take(self, job: Job) -> Handle:
        """Queue a prepared job."""
        with self._changed:
            if self._closing:
                raise Closing("The engine is closing and takes no more requests.")
            most, waiting = self._most_waiting, self.status().waiting_of
            further = job.options.first > 0  # of a request that was let in
            if (
                most is not None
                and not further
                and not may_wait(waiting, job.options.owner, 1, most)
            ):
                raise Overloaded(sum(waiting.values()), self.seconds_queued)
            self._inbox.append(job)
            self._changed.notify_all()
        return Handle(job, self._work_until, self.start)

    def prepared(
        self, request: Request, options: Options | None = None, listener: Listener | None = None
    ) -> Job:
        """Prepare whatever needs no device; refuse what this engine can never run."""
        if len(request.prompts) != 1:
            raise BadRequest(
                f"A request to the engine is one prompt, not {len(request.prompts)}. "
                "Submit each by itself."
            )
        options = options or Options()
        now = self._clock() if options.since is None else options.since
        with contained():
            job = Job.of(self.model, request, options, listener or Listener(), now)
        owned = self._per_owner is not None and options.owner is not None
        if owned and job.rows > (self._per_owner or 0):
            raise BadRequest(
                f"n = {options.n} asks for {job.rows} responses that are decoded together, and "
                f"{self._per_owner} may run at once on your behalf. Choose a smaller n."
            )
        if job.most_bytes > self._ceiling:
            raise BadRequest(
                f"This request needs {readable(job.most_bytes)} for keys and values, and requests may hold "
                f"{readable(self._ceiling)} in all. Shorten prompt or length, or ask for fewer samples."
            )
        made = logits_bytes(self.model.network, job.most_read)
        if made > self._most_logits:
            fits = job.rows * self._most_logits // made
            remedy = (
                f"Ask for at most {fits} samples at a time"
                if fits
                else "Shorten the response, or decode it in blocks by a method that takes no tokens back"
            )
            raise BadRequest(
                f"A pass of this request makes logits of {readable(made)}, and there is room for "
                f"{readable(self._most_logits)}. {remedy}."
            )
        return job

    def start(self) -> None:
        """Start a thread that makes the turns."""
        with self._starting:
            if self._thread is not None or self._closing:
                return
            if self._measures:
                with computing(self.model.threads):
                    self.budget = measured_budget(self.model.network)
            self._thread = threading.Thread(target=self._run, name="archer-engine", daemon=True)
            self._thread.start()

    @contextmanager
    def held(self, running: Running, timeout: float | None) -> Iterator[None]:
        """Nothing of any request is under way inside, and nothing begins; afterwards all goes on.

        What runs is decoded to its end first ("finish"), or begins anew afterwards ("restart"); but what
        somebody watches while it forms comes to its end in either case.
        """
        if threading.current_thread() is self._thread:
            raise BadRequest(
                "A listener cannot change the weights: it is called in the middle of a turn. Do it on "
                "another thread."
            )
        self._turns.holding = running
        try:
            if not self._work_until(lambda: not self._turns.begun, timeout):
                raise TimeoutError(
                    f"Requests that run have not ended within {timeout:g} s, and the weights are as they "
                    'were. Wait longer, or say running="restart".'
                )
            with self._turning:
                self._turns.forget_lengths()
                yield
        finally:
            self._turns.holding = None
            with self._changed:
                self._changed.notify_all()

    @property
    def alive(self) -> bool:
        """Whether the engine's thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def close(self, drain: float = 0.0) -> None:
        """Accept no more requests, finish what is running within `drain` seconds, and cancel the rest."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._work_until(lambda: not self._busy, drain)
        self._cutting = True  # also what no list holds at this moment, because a turn is moving it
        self._work_until(lambda: not self._busy, None)
        if self._thread is not None:
            with self._changed:
                self._changed.notify_all()
            self._thread.join()
            self._thread = None

    def when_lost(self, call: Callable[[ArcherError], None]) -> None:
        """Call this with the error by which the thread ends; on that thread, or at once if it has ended."""
        with self._changed:
            self._when_lost = call
            lost = self._lost
        if lost is not None:
            call(lost)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(drain=0.0 if kind is not None else float("inf"))

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await asyncio.to_thread(self.close, 0.0 if kind is not None else float("inf"))

    def status(self) -> Status:
        return self._turns.status(list(self._inbox))

    @property
    def seconds_queued(self) -> float:
        """Seconds that the present requests will take at the pace so far; at least 1."""
        now = self.status()
        rate = now.columns_per_second
        return max(1.0, now.queued_columns / rate) if rate else 1.0

    def turn(self) -> bool:
        """Make one turn; return whether there was anything to do."""
        with self._turning:
            now = self._clock()
            with self._changed:
                self._turns.waiting.extend(self._inbox)
                self._inbox.clear()
            progress = self._turns.make(
                now, self.budget, cutting=self._cutting, closing=self._closing
            )
        with self._changed:
            self._changed.notify_all()
        return progress

    @property
    def _busy(self) -> bool:
        """Asked on any thread: a job is in the next of these before it leaves the one before."""
        return bool(self._inbox) or self._turns.busy

    def _work_until(self, reached: Callable[[], bool], timeout: float | None) -> bool:
        """Make turns, or wait for the thread that does, until something is true."""
        end = None if timeout is None else time.monotonic() + timeout
        while not reached():
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            if self._thread is None:
                if not self.turn() and not reached():
                    time.sleep(IDLE)
            elif not self._thread.is_alive() and self._busy:
                self._end_all(PassFailed("The engine's thread has ended. Start another engine."))
            else:
                with self._changed:
                    self._changed.wait(IDLE if left is None else min(IDLE, left))
        return True

    @property
    def _goes_on(self) -> bool:
        """Once this is false nothing is taken any more: `take` looks at the same lock."""
        with self._changed:
            return self._busy or not self._closing

    def _run(self) -> None:
        while self._goes_on:
            try:
                turned = self.turn()
            except BaseException as error:  # noqa: BLE001 - whatever it is, clients wait for an answer
                self._end_all(stopped_by(error))
                return
            if not turned:
                with self._changed:
                    self._changed.wait_for(lambda: self._inbox or self._closing, IDLE)

    def _end_all(self, error: ArcherError) -> None:
        """Nothing is taken on any more, and all that runs has failed; a second caller finds it done."""
        with self._changed:
            if self._lost is not None:
                return
            self._closing = True
            self._lost = error
            tell = self._when_lost
            jobs = (*self._inbox, *self._turns.waiting, *self._turns.running)
            self._inbox.clear()
        for job in jobs:
            self._turns.end(job, error)
        with self._changed:
            self._changed.notify_all()
        if tell is not None:
            tell(error)


class Engines:
    """The engines of one model, which stand still together while its weights change."""

    def __init__(self) -> None:
        self._all: WeakSet[Engine] = WeakSet()
        self._changing = threading.RLock()

    def join(self, engine: Engine) -> None:
        """Waits while weights change: an engine that is made meanwhile begins with the new ones."""
        with self._changing:
            self._all.add(engine)

    @contextmanager
    def held(self, running: Running, timeout: float | None) -> Iterator[None]:
        """See `Engine.held`."""
        if running not in get_args(Running):
            raise BadRequest(
                f"What runs can finish or restart when the weights change, not {quoted(running)}."
            )
        with self._changing, ExitStack() as all_held:
            for engine in list(self._all):
                all_held.enter_context(engine.held(running, timeout))
            yield
