"""What the server did, for Prometheus: vLLM's names under `archer:`. At rest the counts add up."""

from collections.abc import Callable, Iterator, Mapping, Sequence

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
from archer.engine.turns import Status
from archer.errors import ArcherError, Cancelled, Closing, Expired, NonFinite
from archer.results.completion import Completion
from archer.server.refusals import RowFailed

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
PASS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
COLUMNS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
COUNTERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "requests_accepted": ("Requests handed to the engine.", ()),
    "request_success": ("Requests that were answered.", ("finished_reason",)),
    "requests_failed": ("Requests that ended badly.", ("reason",)),
    "requests_cancelled": ("Requests whose client left.", ()),
    "requests_rejected": ("Requests that were refused before any work.", ("reason",)),
    "corrupted_requests": ("Requests ended by logits that were not finite.", ()),
    "prompt_tokens": ("Tokens of prompts.", ()),
    "generation_tokens": ("Tokens of responses, ends included.", ()),
    "diffusion_num_denoising_steps": ("Updates of responses.", ()),
    "diffusion_num_canvas_positions": ("Response positions computed, summed over updates.", ()),
    "diffusion_num_committed_tokens": ("Response positions of answered requests.", ()),
    "revised_positions": ("Positions that were taken back.", ()),
    "passes": ("Updates by how they got their logits.", ("kind",)),
    "skipped_turns": ("Rows that did not fit into a pass.", ()),
}
"""Name -> what it counts, and its labels."""
HISTOGRAMS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "e2e_request_latency_seconds": ("From arrival to the last token.", SECONDS),
    "request_queue_time_seconds": ("Waiting.", SECONDS),
    "time_to_first_token_seconds": ("From arrival to the first settled text.", SECONDS),
    "iteration_tokens_total": ("Columns per pass.", COLUMNS),
    "pass_seconds": ("Seconds per pass.", PASS_SECONDS),
}
"""Name -> what it measures, and its buckets."""


class _Now(Collector):
    """Gauges that are read when somebody asks."""

    def __init__(self, status: Callable[[], Status | None]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        if status is None:
            return
        share = status.bytes_used / status.bytes_limit if status.bytes_limit else 0.0
        for name, words, value in (
            ("num_requests_running", "Requests that take part in passes.", status.running),
            ("num_requests_waiting", "Requests that wait for memory.", status.waiting),
            ("num_rows_running", "Responses that take part in passes.", status.rows),
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
        self._counters = {
            name: Counter(f"archer:{name}", words, labels, registry=self.registry)
            for name, (words, labels) in COUNTERS.items()
        }
        self._histograms = {
            name: Histogram(f"archer:{name}", words, buckets=buckets, registry=self.registry)
            for name, (words, buckets) in HISTOGRAMS.items()
        }

    def text(self) -> bytes:
        """All of it, in the format of Prometheus."""
        return generate_latest(self.registry)

    def accepted(self, prompt_tokens: int) -> None:
        self._count("requests_accepted")
        self._count("prompt_tokens", prompt_tokens)

    def rejected(self, reason: str) -> None:
        self._counters["requests_rejected"].labels(reason).inc()

    def admitted(self, waited: float) -> None:
        self._histograms["request_queue_time_seconds"].observe(waited)

    def first_text(self, waited: float) -> None:
        self._histograms["time_to_first_token_seconds"].observe(waited)

    def stepped(self, rows: int, positions: int) -> None:
        self._count("diffusion_num_denoising_steps", rows)
        self._count("diffusion_num_canvas_positions", positions)

    def finished(self, done: Sequence[Completion], tokens: int, waited: float) -> None:
        reasons = {each.finish_reason for each in done}
        reason = "length" if "length" in reasons else "stop"
        self._counters["request_success"].labels(reason).inc()
        self._count("generation_tokens", tokens)
        self._count("diffusion_num_committed_tokens", sum(len(each.tokens) for each in done))
        self._count("revised_positions", sum(each.revised_positions for each in done))
        self._histograms["e2e_request_latency_seconds"].observe(waited)

    def failed(self, error: ArcherError) -> None:
        if isinstance(error, Cancelled):
            self._count("requests_cancelled")
            return
        if isinstance(error, NonFinite | RowFailed):
            self._count("corrupted_requests")
        self._counters["requests_failed"].labels(_reason(error)).inc()

    def passed(self, record: PassRecord) -> None:
        for kind, count in record.kinds.items():
            self._counters["passes"].labels(kind.value).inc(count)
        if record.columns:
            self._histograms["iteration_tokens_total"].observe(record.columns)
            self._histograms["pass_seconds"].observe(record.seconds)

    def skipped(self, rows: int) -> None:
        self._count("skipped_turns", rows)

    def _count(self, name: str, amount: float = 1) -> None:
        self._counters[name].inc(amount)


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
