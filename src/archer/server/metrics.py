"""What the server did, for Prometheus: vLLM's names where there is one, under `archer:`.

At rest accepted = finished + failed + cancelled + running + waiting; the tests check it.  While
requests move, one may be counted in two of these or in none for a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from archer.engine.handle import Observer, PassRecord
from archer.errors import ArcherError, Cancelled, Closing, Expired, NonFinite
from archer.server.refusals import RowFailed

if TYPE_CHECKING:
    from archer.engine.turns import Status
    from archer.results.completion import Completion

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
PASS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
COLUMNS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


class _Now(Collector):
    """Gauges that are read when somebody asks."""

    def __init__(self, status: Callable[[], Status | None]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        found = self._status()
        if found is None:
            return
        share = found.bytes_used / found.bytes_limit if found.bytes_limit else 0.0
        for name, words, value in (
            ("num_requests_running", "Requests that take part in passes.", found.running),
            ("num_requests_waiting", "Requests that wait for memory.", found.waiting),
            ("num_rows_running", "Responses that take part in passes.", found.rows),
            ("kv_cache_usage_perc", "Share of the memory for running requests; 1 is all.", share),
        ):
            yield GaugeMetricFamily(f"archer:{name}", words, value=value)

    def describe(self) -> Iterator[Metric]:
        return iter(())


class Metrics(Observer):
    """Counters of one server; its methods are called on the engine's thread and on the loop's."""

    def __init__(self, status: Callable[[], Status | None]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Now(status))
        ProcessCollector(registry=self.registry)
        self._accepted = self._counter("requests_accepted", "Requests handed to the engine.")
        self._success = self._counter(
            "request_success", "Requests that were answered.", ("finished_reason",)
        )
        self._failed = self._counter("requests_failed", "Requests that ended badly.", ("reason",))
        self._cancelled = self._counter("requests_cancelled", "Requests whose client left.")
        self._rejected = self._counter(
            "requests_rejected", "Requests that were refused before any work.", ("reason",)
        )
        self._corrupted = self._counter(
            "corrupted_requests", "Requests ended by logits that were not finite."
        )
        self._prompt = self._counter("prompt_tokens", "Tokens of prompts.")
        self._generation = self._counter("generation_tokens", "Tokens of responses, ends included.")
        self._steps = self._counter("diffusion_num_denoising_steps", "Updates of responses.")
        self._canvas = self._counter(
            "diffusion_num_canvas_positions", "Response positions computed, summed over updates."
        )
        self._committed = self._counter(
            "diffusion_num_committed_tokens", "Response positions of answered requests."
        )
        self._revised = self._counter("revised_positions", "Positions that were taken back.")
        self._passes = self._counter("passes", "Updates by how they got their logits.", ("kind",))
        self._skipped = self._counter("skipped_turns", "Rows that did not fit into a pass.")
        self._latency = self._histogram(
            "e2e_request_latency_seconds", "From arrival to the last token.", SECONDS
        )
        self._queued = self._histogram("request_queue_time_seconds", "Waiting.", SECONDS)
        self._first = self._histogram(
            "time_to_first_token_seconds", "From arrival to the first settled text.", SECONDS
        )
        self._columns = self._histogram("iteration_tokens_total", "Columns per pass.", COLUMNS)
        self._pass = self._histogram("pass_seconds", "Seconds per pass.", PASS_SECONDS)

    def text(self) -> bytes:
        """All of it, in the format of Prometheus."""
        return generate_latest(self.registry)

    def accepted(self, prompt_tokens: int) -> None:
        self._accepted.inc()
        self._prompt.inc(prompt_tokens)

    def rejected(self, reason: str) -> None:
        self._rejected.labels(reason).inc()

    def admitted(self, waited: float) -> None:
        self._queued.observe(waited)

    def first_text(self, waited: float) -> None:
        self._first.observe(waited)

    def stepped(self, rows: int, length: int) -> None:
        self._steps.inc(rows)
        self._canvas.inc(rows * length)

    def finished(self, done: Sequence[Completion], tokens: int, waited: float) -> None:
        reasons = {each.finish_reason for each in done}
        self._success.labels("length" if "length" in reasons else "stop").inc()
        self._generation.inc(tokens)
        self._committed.inc(sum(len(each.tokens) for each in done))
        self._revised.inc(sum(each.revised_positions for each in done))
        self._latency.observe(waited)

    def failed(self, error: ArcherError) -> None:
        if isinstance(error, Cancelled):
            self._cancelled.inc()
            return
        if isinstance(error, NonFinite | RowFailed):
            self._corrupted.inc()
        self._failed.labels(_reason(error)).inc()

    def passed(self, record: PassRecord) -> None:
        """One pass of the engine."""
        for kind, count in record.kinds.items():
            self._passes.labels(kind.value).inc(count)
        if record.columns:
            self._columns.observe(record.columns)
            self._pass.observe(record.seconds)

    def skipped(self, rows: int) -> None:
        self._skipped.inc(rows)

    def _counter(self, name: str, words: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"archer:{name}", words, labels, registry=self.registry)

    def _histogram(self, name: str, words: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"archer:{name}", words, buckets=buckets, registry=self.registry)


def _reason(error: ArcherError) -> str:
    match error:
        case Expired():
            return f"expired_{error.where}"
        case Closing():
            return "closing"
        case NonFinite() | RowFailed():
            return "not_finite"
        case _:
            return "error"
