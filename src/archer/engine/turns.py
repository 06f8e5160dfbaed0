"""What one turn does with an engine's requests: who is dropped, admitted and chosen, and what came of it.

It knows no thread and no lock: one caller at a time, who also says what time it is.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from archer.engine.batch import Batch, Turn, blaming, contained
from archer.engine.handle import Observer, PassRecord
from archer.engine.job import Job
from archer.engine.schedule import (
    Application,
    Offer,
    Room,
    Usage,
    admit,
    choose,
    columns_by_owner,
    shortage,
)
from archer.errors import ArcherError, Cancelled, Expired, OutOfMemory, PassFailed, kind_and_cause
from archer.machine.devices import out_of_memory
from archer.machine.threads import computing
from archer.results.step import Step

if TYPE_CHECKING:
    from archer.model import Model

Running = Literal["finish", "restart"]
"""What becomes of requests that run when the weights change."""
RECENT = 0.9
"""Weight of the past in the average of columns per second."""
RECOVERY = 1024
"""Turns in which a limit that a shortage of memory made smaller grows back, if nothing else happens."""


@dataclass(frozen=True)
class Status:
    """What an engine is doing."""

    waiting_of: Mapping[Hashable, int]
    """Requests of each owner."""
    running: int
    """Requests."""
    rows: int
    bytes_used: int
    bytes_limit: int
    queued_columns: float
    """Columns that waiting and running requests are still to compute, as far as one can tell."""
    columns_per_second: float

    @property
    def waiting(self) -> int:
        """Requests."""
        return sum(self.waiting_of.values())


class Turns:
    """The requests that wait for memory and those that have some."""

    def __init__(
        self, model: Model, observer: Observer, ceiling: int, per_owner: int | None = None
    ) -> None:
        """`ceiling`: bytes that requests may hold; `per_owner`: rows that run on one owner's behalf."""
        self.waiting: list[Job] = []
        self._searching: list[Job] = []
        """Those that look for the lengths of their gaps."""
        self._ceiling = ceiling
        self._limit = ceiling
        """The same, smaller for a while after a shortage of memory."""
        self._rate = 0.0
        self._model = model
        self._observer = observer
        self._per_owner = per_owner
        self.holding: Running | None = None
        """While set nothing begins: what runs is to come to its end, or to begin anew later."""
        self._batch: Batch[Job] = Batch(model.network)
        self._usage = Usage()

    @property
    def running(self) -> list[Job]:
        """Those that have memory."""
        return [*self._batch.walks, *self._searching]

    @property
    def busy(self) -> bool:
        """Asked on any thread: a job joins the one before it leaves the other."""
        return bool(self.waiting or self._searching or self._batch.walks)

    @property
    def begun(self) -> bool:
        """Whether some request has been decoded in part, swapped out or not."""
        waiting = any(job.walk is not None for job in self.waiting)
        return bool(self._batch.walks or self._searching) or waiting

    def status(self, submitted: Sequence[Job]) -> Status:
        """Asked on any thread; `submitted` are requests that no turn has seen yet."""
        waiting, running = [*submitted, *self.waiting], self.running
        return Status(
            waiting_of=Counter(job.options.owner for job in waiting),
            running=len(running),
            rows=sum(job.rows for job in running),
            bytes_used=sum(job.bytes for job in running),
            bytes_limit=self._limit,
            queued_columns=sum(job.left for job in (*waiting, *running)),
            columns_per_second=self._rate,
        )

    def make(self, now: float, budget: int, *, cutting: bool, closing: bool) -> bool:
        """One turn of `budget` columns; whether there was anything to do.

        `cutting` cancels everything; when `closing`, nobody waits for readers that are behind.
        """
        self._drop_ended(now, cutting)
        if self.holding == "restart":
            self._send_back()
        self._admit(now)
        offers = self._offers(now, closing or self.holding is not None)
        chosen = choose(offers, budget, self._usage.now(now))
        if chosen:
            self._observer.skipped(sum(o.tag.rows for o in offers) - sum(j.rows for j in chosen))
            for offer in offers:
                offer.tag.passed_over += 1
            for job in chosen:
                job.passed_over = 0
            if chosen[0] in self._searching:
                self._probe(chosen[0])
            else:
                self._usage.add(columns_by_owner(offers, chosen), self._update(chosen))
            while sum(job.bytes for job in self.running) > self._limit and self._swap_one_out():
                pass
        return bool(chosen)

    def forget_lengths(self) -> None:
        """Have requests that wait search again for the lengths of gaps that were found already."""
        for job in self.waiting:
            job.restart()

    def _send_back(self) -> None:
        """Have all requests of which nobody has heard yet wait again, as if they had never run."""
        for job in (*self.running, *self.waiting):
            if job in self._searching:
                self._wait_again(job)
            elif job.walk is None or not job.may_restart:
                continue
            elif self._batch.walks.pop(job, None) is not None:
                self.waiting.append(job)
            job.restart()

    def _update(self, chosen: Sequence[Job]) -> float:
        """One pass and what comes of it; the seconds of the pass.

        If that is broken off, updates may be half made or untold: nobody goes on from there.
        """
        try:
            with computing(self._model.threads):
                turn = self._batch.turn(chosen, self._make_room)
            return self._hand_out(turn)
        except BaseException as error:
            for job in chosen:
                self.end(job, stopped_by(error))
            raise

    def _drop_ended(self, now: float, cutting: bool) -> None:
        for job in (*self.waiting, *self.running):
            options, waited = job.options, now - job.submitted
            error: ArcherError | None = None
            if job.cancelled or cutting:
                error = Cancelled("The request was cancelled.")
            elif options.timeout is not None and waited > options.timeout:
                error = Expired("running", options.timeout)
            elif options.queue_timeout and waited > options.queue_timeout:
                queued = job.walk is None and job not in self._searching
                error = Expired("queue", options.queue_timeout) if queued else None
            if error is not None:
                self.end(job, error)

    def _admit(self, now: float) -> None:
        running = self.running
        used = sum(job.bytes for job in running)
        grown = self._limit + max(1, self._ceiling // RECOVERY)
        self._limit = min(self._ceiling, grown) if running else self._ceiling
        if not self.waiting:
            return
        rows, held = Counter[Hashable](), Counter[Hashable]()
        for job in running:
            rows[job.options.owner] += job.rows
            held[job.options.owner] += job.bytes
        applications = self._applications(now)
        room: Room[Job] = Room(self._limit - used, dict(rows), self._per_owner, held)
        if (missing := shortage(applications, room)) and self._take_back(
            missing, applications, room
        ):
            self._admit(now)
            return
        admitted = admit(applications, room)
        for job in self.waiting:
            job.passed_over += bool(admitted)
        for job in admitted:
            if job.form.searched:
                self._searching.append(job)
            elif not self._begin(job):
                return
            job.passed_over = 0
            if job in self.waiting:
                self.waiting.remove(job)

    def _applications(self, now: float) -> list[Application[Job]]:
        applications = []
        for job in list(self.waiting):
            if self.holding is not None and job.walk is None:
                continue
            with blaming(partial(self._fail, job)):  # one that was swapped out asks its decoder
                applications.append(job.application(now))
        return applications

    def _begin(self, job: Job) -> bool:
        """Give it memory; False where there is none and others run that will give theirs back."""
        begun = job.walk is not None
        try:
            with contained():
                job.walk = job.walk or job.begin(self._model.network)
                self._batch.walks[job] = job.walk
                if not begun:
                    job.listener.admitted(job.request)
        except Exception as error:  # noqa: BLE001 - one request's trouble is no other's
            if job.walk is None and self._no_room(error):
                return False
            self._fail(job, error)
        return True

    def _no_room(self, error: Exception) -> bool:
        """Memory ran out, and others hold some: nobody gets any until they have given it back."""
        if not (out_of_memory(error) and self._batch.walks):
            return False
        self._limit = sum(job.bytes for job in self._batch.walks)
        return True

    def _probe(self, job: Job) -> None:
        """A pass for a request that looks for the lengths of its gaps."""
        began = time.perf_counter()
        try:
            with contained(), computing(self._model.threads):
                columns = job.probe(self._model.network)
        except Exception as error:  # noqa: BLE001 - one request's trouble is no other's
            if self._no_room(error):
                job.search = None
                self._wait_again(job)
            else:
                self._fail(job, error)
            return
        except BaseException as error:
            self.end(job, stopped_by(error))
            raise
        seconds = time.perf_counter() - began
        self._usage.spent(job.options.owner, seconds)
        if columns is not None:
            self._observer.passed(PassRecord(seconds, columns, job.rows, {}))
        elif not self._begin(job):
            self._wait_again(job)
        elif job in self._searching:
            self._searching.remove(job)

    def _wait_again(self, job: Job) -> None:
        self.waiting.append(job)
        self._searching.remove(job)

    def _offers(self, now: float, closing: bool) -> list[Offer[Job]]:
        offers = []
        for job in self.running:
            if job.reader_is_behind and not closing:
                continue
            with blaming(partial(self._fail, job)):
                offers.append(job.offer(now))
        return offers

    def _take_back(
        self, missing: int, applications: Sequence[Application[Job]], room: Room[Job]
    ) -> bool:
        """Swap out requests of owners that keep their share without them; all that is missing, or nothing."""
        share, held, lent = room.share(applications), Counter(room.held), []
        for job in self._able_to_swap():
            owner = job.options.owner
            if missing > 0 and share is not None and held[owner] - job.bytes >= share:
                held[owner] -= job.bytes
                missing -= job.bytes
                lent.append(job)
        if missing > 0:
            return False
        for job in lent:
            self._swap_out(job)
        return True

    def _make_room(self) -> bool:
        """What else is done when memory runs out: others wait, and no more is given than there was."""
        swapped = self._swap_one_out()
        if swapped:
            self._limit = sum(job.bytes for job in self._batch.walks)
        return swapped

    def _swap_one_out(self) -> bool:
        """Swap out the youngest request that can be rebuilt; it waits for memory again."""
        able = self._able_to_swap()
        if len(self._batch.walks) < 2 or not able:
            return False
        self._swap_out(able[0])
        return True

    def _able_to_swap(self) -> list[Job]:
        """Requests that can be rebuilt, the youngest first."""
        able = [job for job, walk in self._batch.walks.items() if walk.can_swap_out]
        return sorted(able, key=lambda job: job.submitted, reverse=True)

    def _swap_out(self, job: Job) -> None:
        self.waiting.append(job)
        self._batch.walks.pop(job).swap_out()

    def _hand_out(self, turn: Turn[Job]) -> float:
        kinds = Counter(call.kind for _, step in turn.steps for call in step.calls)
        columns = sum(columns for _, columns in turn.intervals)
        seconds = sum(interval.seconds for interval, _ in turn.intervals)
        if seconds:
            rate = columns / seconds
            self._rate = rate if not self._rate else RECENT * self._rate + (1 - RECENT) * rate
        # before anybody hears of an end, so that whoever has an answer finds it counted
        self._observer.passed(PassRecord(seconds, columns, sum(kinds.values()), kinds))
        for job, deciding in turn.deciding.items():
            self._usage.spent(job.options.owner, deciding)
        steps: dict[Job, list[Step[Any]]] = {}
        for job, step in turn.steps:
            steps.setdefault(job, []).append(step)
        for job, own in steps.items():
            with blaming(partial(self._fail, job)):
                for step in own:
                    job.take(step)
                if job.over:
                    self._leave(job)
                    job.finish()
        for job, failure in turn.failed.items():
            self._fail(job, failure)
        return seconds

    def _fail(self, job: Job, error: Exception) -> None:
        self.end(job, _as_archer_error(error))

    def end(self, job: Job, error: ArcherError) -> None:
        """End a request by an error, wherever it is; one that has ended stays as it is."""
        self._batch.walks.pop(job, None)
        for place in (self.waiting, self._searching):
            if job in place:
                place.remove(job)
        if not job.ended.is_set():
            with (
                suppress(Exception),
                contained(),
            ):  # it has ended; a listener that raises has heard of it
                job.fail(error)

    def _leave(self, job: Job) -> None:
        """Out of the batch, or out of the queue if memory ran out in the very turn that ended it."""
        if self._batch.walks.pop(job, None) is None:
            self.waiting.remove(job)


def stopped_by(error: BaseException) -> ArcherError:
    """What requests are told of it: the place and not the message, which may hold anything."""
    if isinstance(error, ArcherError):
        return error
    if not isinstance(error, Exception):
        return Cancelled(
            f"The request was cancelled: its pass was broken off by {type(error).__name__}."
        )
    place = traceback.extract_tb(error.__traceback__)[-1]
    failure = PassFailed(
        f"The engine stopped by an error that nobody foresaw, {type(error).__name__} in "
        f"{Path(place.filename).name} line {place.lineno}. Start it again."
    )
    failure.__cause__ = error
    return failure


def _as_archer_error(error: Exception) -> ArcherError:
    if isinstance(error, ArcherError):
        return error
    if out_of_memory(error):
        return OutOfMemory(
            "There is not enough memory for this request. Shorten prompt or length, or ask for fewer samples."
        )
    failure = PassFailed(f"The request failed inside a pass: {kind_and_cause(error)}")
    traceback.clear_frames(error.__traceback__)  # they hold what the pass had computed
    failure.__cause__ = error
    return failure
