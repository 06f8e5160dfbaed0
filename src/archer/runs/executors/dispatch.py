"""Deals problems out to workers that may be lost at any moment.

A problem is with one worker at a time, and it is done when its record is handed on. What a lost worker was
given and had not answered goes back to the front of the queue. Noise depends on the seed and the prompt
alone, so whoever completes it writes the same text.
"""

from collections import Counter, deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from archer.errors import ArcherError
from archer.files import replace_file
from archer.methods.own_files import own_parts
from archer.methods.spelling import plain
from archer.runs.decoding import Prompts, gap_of
from archer.runs.executors.executor import Completed, Tell
from archer.runs.executors.worker import Item, Order
from archer.runs.manifest import RunRequest, model_identity
from archer.runs.records import SampleLine
from archer.tasks.base import Sample

AHEAD = 1
"""Problems that wait at a worker, so that it never waits for the driver."""
LOSSES = 5
"""Workers that may be lost over one problem in turn; then the problem is to blame."""
FALSE_STARTS = 5
"""A worker that ends this many times in a row before it is ready is given up."""
PATIENCE = 60.0
"""Seconds without a single worker after which the user is told that none has started."""


class WorkersLost(ArcherError):
    """Workers end again and again; the run cannot go on like this."""


@dataclass(frozen=True)
class Ready:
    """A worker has its model."""

    worker: int


@dataclass(frozen=True)
class Done:
    """A worker has completed a problem."""

    worker: int
    key: str
    record: dict[str, Any]
    trace: str | None = None


@dataclass(frozen=True)
class Declined:
    """A worker cannot do what it was asked, and neither could another."""

    worker: int
    reason: str


@dataclass(frozen=True)
class Lost:
    """A worker is gone."""

    worker: int
    reason: str


News = Ready | Done | Declined | Lost


def answered(worker: int, key: str | None, message: Mapping[str, Any]) -> News:
    """What a worker sent: about a problem, or about its model where there is no key."""
    if "refused" in message:
        return Declined(worker, message["refused"])
    if key is None:
        return Ready(worker)
    return Done(worker, key, message["record"], message["trace"])


class WorkerPool(Protocol):
    """Workers of one kind: how they are started, given work, and heard."""

    kind: str
    checks_files: bool
    """Whether workers read the checkpoint's digests anew, because their machine may have another one."""

    def hire(self, worker: int, order: Order, threads: int) -> None:
        """Start a worker, which completes N problems at a time. A lost one's number is used again."""
        ...

    def give(self, worker: int, item: Item) -> None: ...

    def news(self, seconds: float) -> News | None:
        """The next that is heard of any worker; None after N seconds of silence."""
        ...

    def close(self) -> None:
        """End all workers at once."""
        ...


@dataclass
class _Hired:
    """What the driver knows of a worker."""

    ready: bool = False
    held: deque[Item] = field(default_factory=deque)
    false_starts: int = 0


class Dispatcher:
    """An executor over a pool; workers are hired when the first run needs them, and stay for the next."""

    def __init__(self, pool: WorkerPool, order: Order, workers: int) -> None:
        """`order` without expectations, which each run has of its own."""
        self._pool, self._order, self.workers = pool, order, workers
        self._hired: dict[int, _Hired] = {}
        self._batch = 0

    @property
    def description(self) -> Mapping[str, Any]:
        return {"kind": self._pool.kind, "workers": self.workers}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._hired.clear()
        self._pool.close()

    def completions(
        self,
        request: RunRequest,
        samples: Sequence[Sample],
        prompts: Prompts,
        traces: Mapping[str, Path],
        tell: Tell,
    ) -> Generator[Completed, None, None]:
        if not samples:
            return
        by_key = {str(sample.id): sample for sample in samples}
        waiting = deque(_item(request, each, prompts, traces) for each in samples)
        losses: Counter[str] = Counter()
        whole = False
        try:
            self._begin(request, len(samples))
            while by_key:
                self._deal(waiting)
                news = self._pool.news(PATIENCE)
                if news is None:
                    self._say_if_idle(tell)
                elif isinstance(news, Ready):
                    self._hired[news.worker].ready = True
                    self._hired[news.worker].false_starts = 0
                elif isinstance(news, Declined):
                    raise ArcherError(news.reason)
                elif isinstance(news, Lost):
                    self._replace(news, waiting, losses, tell)
                else:
                    yield self._taken(news, by_key, traces)
            whole = True
        finally:
            if not whole:
                self.close()

    def _begin(self, request: RunRequest, problems: int) -> None:
        """Hire whoever is missing; other expectations or another batch need other workers."""
        expected = model_identity(
            request.model, device=request.device, files=self._pool.checks_files
        )
        order = replace(self._order, expected=expected)
        if self._hired and (order != self._order or request.batch != self._batch):
            self.close()
        self._order, self._batch = order, request.batch
        useful = min(self.workers, -(-problems // request.batch))
        for worker in range(1, useful + 1):
            if worker not in self._hired:
                self._hired[worker] = _Hired()
                self._pool.hire(worker, order, request.batch)

    def _deal(self, waiting: deque[Item]) -> None:
        """Everybody gets what it can work on; only with plenty left does anything wait at a worker."""
        for ahead in range(self._batch + AHEAD):
            for worker, hired in self._hired.items():
                plenty = ahead < self._batch or len(waiting) > len(self._hired)
                if hired.ready and waiting and plenty and len(hired.held) == ahead:
                    item = waiting.popleft()
                    hired.held.append(item)
                    self._pool.give(worker, item)

    def _taken(
        self, news: Done, by_key: dict[str, Sample], traces: Mapping[str, Path]
    ) -> Completed:
        held = self._hired[news.worker].held
        held.remove(next(item for item in held if item.key == news.key))
        if news.trace is not None:
            replace_file(traces[news.key], news.trace.encode())
        record = SampleLine.model_validate(news.record)
        return Completed(by_key.pop(news.key), record, news.worker)

    def _replace(self, lost: Lost, waiting: deque[Item], losses: Counter[str], tell: Tell) -> None:
        """Take back what a lost worker held, and hire another in its place."""
        hired = self._hired[lost.worker]
        held = list(hired.held)
        waiting.extendleft(reversed(held))
        started = held[: self._batch]
        for item in started:
            losses[item.key] += 1
            if losses[item.key] >= LOSSES:
                raise WorkersLost(
                    f"{LOSSES} workers were lost over problem {item.key} (the last: {lost.reason}). If "
                    "memory is short, use fewer workers; the same command resumes from what is recorded."
                )
        false_starts = hired.false_starts + (not hired.ready)
        if false_starts < FALSE_STARTS:
            tell(f"Worker {lost.worker} was lost ({lost.reason}); {_done_again(started)}.")
            self._hired[lost.worker] = _Hired(false_starts=false_starts)
            self._pool.hire(lost.worker, self._order, self._batch)
            return
        del self._hired[lost.worker]
        cause = f"it ended {FALSE_STARTS} times before it was ready, the last time: {lost.reason}"
        if not self._hired:
            raise WorkersLost(
                f"No worker is left. Worker {lost.worker} was lost because {cause}. The same command "
                "resumes from what is recorded."
            )
        tell(f"Worker {lost.worker} is not started again: {cause}.")

    def _say_if_idle(self, tell: Tell) -> None:
        if not any(hired.ready for hired in self._hired.values()):
            tell(f"None of {len(self._hired)} workers has started yet; they wait for room or load.")


def _item(
    request: RunRequest, sample: Sample, prompts: Prompts, traces: Mapping[str, Path]
) -> Item:
    key = str(sample.id)
    return Item(
        key=key,
        id=sample.id,
        prompt=tuple(prompts[key]),
        choice=replace(request.choice, settings=plain(request.choice.settings)),
        seed=request.seed,
        gap=gap_of(request, sample, prompts[key]),
        traced=key in traces,
        own=tuple(own_parts(request.choice.method)),
    )


def _done_again(items: Sequence[Item]) -> str:
    if not items:
        return "it had no problem, and another one takes its place"
    keys = ", ".join(item.key for item in items)
    return f"problem {keys} is done again" if len(items) == 1 else f"problems {keys} are done again"
