"""The engine: takes requests at any time, and makes turns in which those that run share a pass.

One turn: take what was submitted, drop what was cancelled or is late, admit by memory, choose by response
ratio, make one pass, hand out what came of it.  Clocks are read for these choices alone; what a request's
next update is depends on nothing but the request.  Without a thread of its own whoever waits for a result
makes the turns; `start` gives it one.  It knows no HTTP.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from archer.engine.batch import Batch, Turn, out_of_memory
from archer.engine.footprint import default_limit, readable
from archer.engine.knee import DEFAULT_BUDGET, measured_budget
from archer.engine.schedule import Offer, Room, admit, choose
from archer.engine.step import Step
from archer.errors import (
    ArcherError,
    BadRequest,
    Cancelled,
    Closing,
    Expired,
    OutOfMemory,
    Overloaded,
    PassFailed,
    ShardLost,
)
from archer.service.handle import Handle
from archer.service.job import Job, Options, Priority
from archer.service.listener import Listener, Observer, PassRecord
from archer.settled_text import as_stops
from archer.threads import computing

if TYPE_CHECKING:
    from archer.model import Model, Request

IDLE = 0.05
"""Seconds between two looks at requests whose readers are behind."""
RECENT = 0.9
"""Weight of the past in the average of columns per second."""
RECOVERY = 1024
"""Turns in which a limit that a shortage of memory made smaller grows back, if nothing else happens."""


@dataclass(frozen=True)
class Status:
    """What an engine is doing."""

    waiting: int
    """Requests."""
    running: int
    """Requests."""
    rows: int
    bytes_used: int
    bytes_limit: int
    queued_columns: float
    """Columns that waiting and running requests are still to compute."""
    columns_per_second: float


class Engine:
    """Many requests on one model; see `submit`."""

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

        Without a budget one is measured when the engine gets a thread.  Without `memory` it is half of what
        is free now.  `per_owner` bounds the rows that run on one owner's behalf.
        """
        self.model = model
        self.budget = DEFAULT_BUDGET if budget is None else _positive("budget", budget)
        self._measures = budget is None
        self._ceiling = default_limit(model.network) if memory is None else memory
        self._limit = self._ceiling
        self._most_waiting = waiting
        self._per_owner = per_owner
        self._observer = observer or Observer()
        self._clock = clock
        self._batch: Batch[Job] = Batch(model.network, model.pieces)
        self._inbox: deque[Job] = deque()
        self._waiting: list[Job] = []
        self._rate = 0.0
        self._turning = threading.Lock()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._cutting = False
        self._lost: ArcherError | None = None
        self._when_lost: Callable[[ArcherError], None] | None = None

    def submit(
        self,
        prompt: Any,
        method: Any = "archer",
        *,
        n: int = 1,
        stop: str | tuple[str, ...] | list[str] = (),
        ends_early: bool = False,
        priority: Priority = "interactive",
        isolated: bool = False,
        timeout: float | None = None,
        queue_timeout: float | None = None,
        owner: Hashable = None,
        listener: Listener | None = None,
        **options: Any,
    ) -> Handle:
        """One prompt with its own method, settings, length and seed; options as for `Model.request`.

        Everything that can be known is refused here.  The text never depends on what else is running.
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

    def check(self, request: Request, options: Options | None = None) -> None:
        """Refuse what `enqueue` would, whatever is running."""
        self._job(request, options or Options(), Listener())

    def enqueue(
        self, request: Request, options: Options | None = None, listener: Listener | None = None
    ) -> Handle:
        """The same for a request that is checked already.  Never waits for a pass."""
        job = self._job(request, options or Options(), listener or Listener())
        with self._changed:
            if self._closing:
                raise Closing("The engine is closing and takes no more requests.")
            queued = len(self._inbox) + len(self._waiting)
            if self._most_waiting is not None and queued >= self._most_waiting:
                raise Overloaded(queued, self.seconds_queued)
            self._inbox.append(job)
            self._changed.notify_all()
        return Handle(job, self._work_until)

    def _job(self, request: Request, options: Options, listener: Listener) -> Job:
        if len(request.prompts) != 1:
            raise BadRequest(
                f"A request to the engine is one prompt, not {len(request.prompts)}. "
                "Submit each by itself."
            )
        now = self._clock() if options.since is None else options.since
        job = Job.of(self.model, request, options, listener, now)
        owned = self._per_owner is not None and options.owner is not None
        if owned and job.rows > (self._per_owner or 0):
            raise BadRequest(
                f"n = {options.n} asks for {job.rows} responses that are decoded together, and "
                f"{self._per_owner} may run at once on your behalf. Choose a smaller n."
            )
        if job.bytes > self._ceiling:
            raise BadRequest(
                f"This request needs {readable(job.bytes)} for keys and values, and requests may hold "
                f"{readable(self._ceiling)} in all. Shorten prompt or length, or ask for fewer samples."
            )
        return job

    def start(self) -> None:
        """Make turns on a thread of its own from now on."""
        if self._thread is not None:
            return
        if self._measures:
            with computing(self.model.threads):
                self.budget = measured_budget(self.model.network)
        self._thread = threading.Thread(target=self._run, name="archer-engine", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def close(self, drain: float = 0.0) -> None:
        """Take nothing new, finish what runs within `drain` seconds, cancel the rest."""
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

    def status(self) -> Status:
        waiting, running = [*self._inbox, *self._waiting], list(self._batch.walks)
        return Status(
            waiting=len(waiting),
            running=len(running),
            rows=sum(job.rows for job in running),
            bytes_used=sum(job.bytes for job in running),
            bytes_limit=self._limit,
            queued_columns=sum(job.estimate for job in (*waiting, *running)),
            columns_per_second=self._rate,
        )

    @property
    def seconds_queued(self) -> float:
        """How long what there is will take, at the pace so far; at least 1."""
        return max(1.0, self.status().queued_columns / self._rate) if self._rate else 1.0

    def turn(self) -> bool:
        """One turn; whether there was anything to do."""
        with self._turning:
            now = self._clock()
            with self._changed:
                self._waiting.extend(self._inbox)
                self._inbox.clear()
            self._drop_ended(now)
            self._admit(now)
            offers = self._offers(now)
            chosen = choose(offers, self.budget)
            if chosen:
                self._observer.skipped(
                    sum(o.tag.rows for o in offers) - sum(j.rows for j in chosen)
                )
                for offer in offers:
                    offer.tag.passed_over += 1
                for job in chosen:
                    job.passed_over = 0
                with computing(self.model.threads):
                    turns = self._batch.turn(chosen, self._make_room)
                self._hand_out(turns)
        with self._changed:
            self._changed.notify_all()
        return bool(chosen)

    def _drop_ended(self, now: float) -> None:
        for job in self._jobs():
            options, waited = job.options, now - job.submitted
            error: ArcherError | None = None
            if job.cancelled or self._cutting:
                error = Cancelled("The request was cancelled.")
            elif options.timeout is not None and waited > options.timeout:
                error = Expired("running", options.timeout)
            elif job.walk is None and options.queue_timeout and waited > options.queue_timeout:
                error = Expired("queue", options.queue_timeout)
            if error is not None:
                self._end(job, error)

    def _admit(self, now: float) -> None:
        running = self._batch.walks
        used = sum(job.bytes for job in running)
        grown = self._limit + max(1, self._ceiling // RECOVERY)
        self._limit = min(self._ceiling, grown) if running else self._ceiling
        owners: Counter[Hashable] = Counter()
        for job in running:
            owners[job.options.owner] += job.rows
        free = self._limit - used
        if not running and self._waiting:
            free = max(free, max(job.bytes for job in self._waiting))
        applications = [job.application(now) for job in self._waiting]
        admitted = admit(applications, Room(free, dict(owners), self._per_owner))
        for job in self._waiting:
            job.passed_over += bool(admitted)
        for job in admitted:
            job.passed_over = 0
            self._begin(job)
            if job in self._waiting:
                self._waiting.remove(job)

    def _begin(self, job: Job) -> None:
        try:
            begun = job.walk is not None
            job.walk = job.walk or job.loop.walk(job.start)
            self._batch.add(job, job.walk)
            if not begun:
                job.listener.admitted()
        except Exception as error:  # noqa: BLE001 - one request's trouble is no other's
            self._end(job, _as_archer_error(error))

    def _offers(self, now: float) -> list[Offer[Job]]:
        offers = []
        for job in list(self._batch.walks):
            if job.reader_is_behind and not self._closing:
                continue
            try:
                offers.append(job.offer(now))
            except Exception as error:  # noqa: BLE001 - a decoder from anywhere may raise anything
                self._end(job, _as_archer_error(error))
        return offers

    def _make_room(self) -> bool:
        """Swap out the youngest request that can be rebuilt; it waits for memory again."""
        running = self._batch.walks
        able = [job for job, walk in running.items() if walk.can_swap_out]
        if len(running) < 2 or not able:
            return False
        youngest = max(able, key=lambda job: job.submitted)
        self._waiting.append(youngest)
        self._batch.drop(youngest).swap_out()
        self._limit = sum(job.bytes for job in running)
        return True

    def _hand_out(self, made: Turn[Job]) -> None:
        kinds = Counter(call.kind for _, step in made.steps for call in step.calls)
        columns = sum(columns for _, columns in made.intervals)
        seconds = sum(interval.seconds for interval, _ in made.intervals)
        if seconds:
            rate = columns / seconds
            self._rate = rate if not self._rate else RECENT * self._rate + (1 - RECENT) * rate
        # before anybody hears of an end, so that whoever has an answer finds it counted
        self._observer.passed(PassRecord(seconds, columns, sum(kinds.values()), kinds))
        steps: dict[Job, list[Step[Any]]] = {}
        for job, step in made.steps:
            steps.setdefault(job, []).append(step)
        for job, own in steps.items():
            try:
                for step in own:
                    job.take(step)
                if job.over:
                    self._leave(job)
                    job.finish()
            except Exception as error:  # noqa: BLE001 - a listener must not end other requests
                self._end(job, _as_archer_error(error))
        for job, failure in made.failed.items():
            self._end(job, _as_archer_error(failure))

    def _end(self, job: Job, error: ArcherError) -> None:
        if job in self._batch.walks:
            self._batch.drop(job)
        if job in self._waiting:
            self._waiting.remove(job)
        if not job.ended.is_set():
            with suppress(Exception):  # it has ended; a listener that raises has heard of it
                job.fail(error)

    def _leave(self, job: Job) -> None:
        """Out of the batch, or out of the queue if memory ran out in the very turn that ended it."""
        if job in self._batch.walks:
            self._batch.drop(job)
        else:
            self._waiting.remove(job)

    def _jobs(self) -> list[Job]:
        return [*self._waiting, *self._batch.walks]

    @property
    def _busy(self) -> bool:
        """Asked on any thread: a job is in the next of these before it leaves the one before."""
        return bool(self._inbox or self._waiting or self._batch.walks)

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
            else:
                with self._changed:
                    self._changed.wait(IDLE if left is None else min(IDLE, left))
        return True

    def _run(self) -> None:
        while self._busy or not self._closing:
            try:
                turned = self.turn()
            except ShardLost as error:
                self._end_all(error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, clients wait for an answer
                self._end_all(_stopped_by(error))
                return
            if not turned:
                with self._changed:
                    self._changed.wait_for(lambda: self._inbox or self._closing, IDLE)

    def _end_all(self, error: ArcherError) -> None:
        """Nothing can be computed any more: nothing is taken on, and everything that runs has failed."""
        with self._changed:
            self._closing = True
            self._lost = error
            tell = self._when_lost
        for job in (*self._inbox, *self._jobs()):
            self._end(job, error)
        self._inbox.clear()
        with self._changed:
            self._changed.notify_all()
        if tell is not None:
            tell(error)


def _stopped_by(error: Exception) -> ArcherError:
    """Names the place and not the message, which may hold anything."""
    if isinstance(error, ArcherError):
        return error
    place = traceback.extract_tb(error.__traceback__)[-1]
    made = PassFailed(
        f"The engine stopped by an error that nobody foresaw, {type(error).__name__} in "
        f"{Path(place.filename).name} line {place.lineno}. Start it again."
    )
    made.__cause__ = error
    return made


def _as_archer_error(error: Exception) -> ArcherError:
    if isinstance(error, ArcherError):
        return error
    if out_of_memory(error):
        return OutOfMemory(
            "There is not enough memory for this request. Shorten prompt or length, or ask for fewer samples."
        )
    return PassFailed(f"The request failed inside a pass: {type(error).__name__}: {error}")


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise BadRequest(f"{name} must be at least 1, not {value}.")
    return value
