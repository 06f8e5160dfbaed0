"""A local server under load: latencies, what HTTP costs over the loop, and how soon a slot is free again.

The server is a process of its own on this machine and on one thread; nothing else is ever asked.  Arrivals
are drawn beforehand and bounded in number and time.  CPU seconds are read from the system, so they hold on a
machine that does other things as well; the other times want a quiet one.
"""

import itertools
import json
import os
import queue
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, Any

from archer.bench.facts import Result
from archer.bench.passes import Mixes, passes
from archer.bench.traffic import Load
from archer.costs.pass_times import Timed
from archer.costs.recording import MeasuredLoad, Recording, plain
from archer.costs.service import ServiceOutcome, figures
from archer.costs.workload import Workload, recorded
from archer.engine.budget import measured_budget
from archer.engine.generate import Stream
from archer.errors import ArcherError
from archer.model import Model
from archer.pages.figures import Labels, Series, lines
from archer.pages.tables import Field, Table, table_of
from archer.request.request import Request

ROUTE = "/v1/completions"
ENTRY = "from archer.cli import main; raise SystemExit(main())"
READY = re.compile(r"is ready at http://127\.0\.0\.1:(\d+) ")
START_SECONDS = 600.0
ANSWER_SECONDS = 600.0
LEFT_SECONDS = 60.0
"""For a request to be begun with, and for its slot to be free again."""
ENDLESS = "random"
"""A method that makes one update per token, for a request that is to be left."""
WATCHED = "archer"
"""A method that may take anything back: no text is final early, so it makes all updates, watched or not."""


@dataclass(frozen=True, kw_only=True)
class ServedLoad(ServiceOutcome):
    """Requests answered under one load; `over_alone` is the throughput over one at a time."""

    load: str
    over_alone: float
    cpu: float
    """Of the server, per request."""


@dataclass(frozen=True)
class ServeResult:
    """All that was measured."""

    start_seconds: float
    direct_cpu: float
    """Of the loop without a server, per request."""
    server_cpu: float
    overhead: float
    """The server's over the loop's, one request at a time; 0.03 is 3 %."""
    event_ms: float
    """CPU of one provisional event."""
    cancel_seconds: float
    """From hanging up to a free slot."""
    rows: Sequence[ServedLoad]
    recording: Recording
    """All that a simulation of the same needs."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"recording": plain(self.recording)}


@dataclass(frozen=True)
class ServeLoads:
    """How much is asked."""

    load: Load
    loads: Sequence[float] = (0.8,)
    """Of what one at a time can serve; arrivals do not wait for answers."""
    clients: Sequence[int] = (1, 4, 16)
    """Each asks again as soon as it is answered."""
    seconds: float = 120.0
    """No request begins later than so long after the first one of its kind of load."""
    mixes: Mixes = field(default_factory=Mixes)
    """Turns that are timed before each load, for the recording."""


def serve_bench(
    model: Model, source: str, plan: ServeLoads, options: Sequence[str] = ()
) -> ServeResult:
    """`source` is what `archer serve --model` is given; `model` the same, loaded here."""
    requests = plan.load.draw(model)
    bodies = [_body(request) for request in requests]
    timed, budget = list[Timed](), measured_budget(model.network)
    with _server(source, ("--budget", str(budget), *options)) as (server, started):
        alone, trajectories, direct, serial = _in_turn(model, requests, bodies, server)
        rate = len(alone) / sum(alone)
        event = _event_cpu(server, bodies)
        arms = [
            (MeasuredLoad(_clients(count), clients=count, seconds=plan.seconds), _closed)
            for count in plan.clients
        ]
        for load in plan.loads:
            arrivals = tuple(each.at for each in plan.load.arrivals(requests, load * rate))
            arms.append((MeasuredLoad(f"arrivals {load:g}", arrivals, seconds=plan.seconds), _open))
        rows, runs = [], []
        for number, (run, way) in enumerate(arms):
            timed += passes(model, replace(plan.mixes, seed=plan.mixes.seed + number))
            row, ran = _measured(run, way, server, bodies, alone, rate)
            rows.append(row)
            runs.append(ran)
        cancel = statistics.median(_left(server, bodies[0]) for _ in range(5))
    recording = Recording(budget, tuple(timed), tuple(trajectories), tuple(runs))
    return ServeResult(
        started, direct, serial, serial / direct - 1, 1e3 * event, cancel, rows, recording
    )


def _clients(count: int) -> str:
    return "1 client" if count == 1 else f"{count} clients"


class _Server:
    """A running server: its port and its CPU time."""

    def __init__(self, port: int, process: int) -> None:
        self.port, self._process = port, process

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self._process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def ask(self, body: Mapping[str, Any]) -> bytes:
        connection = self.opened(body)
        try:
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise ArcherError(f"The server answered {answer.status}: {content[:300]!r}")
        return content

    def opened(self, body: Mapping[str, Any]) -> HTTPConnection:
        """A request that was sent; nothing is read yet."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        content = json.dumps(body).encode()
        connection.request("POST", ROUTE, content, {"content-type": "application/json"})
        return connection

    def running(self) -> int:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        match = re.search(r"^archer:num_requests_running (\S+)$", text, re.MULTILINE)
        return int(float(match[1])) if match else 0


@contextmanager
def _server(source: str, options: Sequence[str]) -> Iterator[tuple[_Server, float]]:
    """A server of its own, and the seconds until it was ready."""
    command = [sys.executable, "-c", ENTRY, "serve", "--port", "0", "--model", source]
    began = time.monotonic()
    process = subprocess.Popen(
        [*command, "--threads", "1", "--queue", "4096", *options], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        reader = threading.Thread(target=_read, args=(process.stderr, lines), daemon=True)
        reader.start()
        port = _port(lines, began + START_SECONDS)
        started = time.monotonic() - began
        yield _Server(port, process.pid), started
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            reader.join()
            process.stderr.close()


def _read(stream: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    """All lines to their end, and None behind them; the server never waits for a reader."""
    for line in stream:
        lines.put(line)
    lines.put(None)


def _port(lines: queue.SimpleQueue[str | None], last: float) -> int:
    """The port that the server says it is ready at, before the clock reads `last`."""
    report = []
    try:
        while (line := lines.get(timeout=max(0.0, last - time.monotonic()))) is not None:
            report.append(line)
            if match := READY.search(line):
                return int(match[1])
    except queue.Empty:
        raise ArcherError(f"The server was not ready within {START_SECONDS:g} s.") from None
    raise ArcherError(f"The server did not start: {' '.join(''.join(report).split())}")


def _body(request: Request) -> dict[str, Any]:
    (prompt,) = request.prompts
    return {
        "model": "",
        "prompt": list(prompt.prefix),
        "max_tokens": request.method.length,
        "archer": {"method": request.method.name},
    }


Seconds = float
Ran = tuple[list[tuple[int, Seconds]], Seconds]
"""Which requests were answered after how long, and how long it took in all."""
Asking = Callable[[MeasuredLoad, _Server, Sequence[Mapping[str, Any]]], Ran]


def _in_turn(
    model: Model, requests: Sequence[Request], bodies: Sequence[dict[str, Any]], server: _Server
) -> tuple[list[Seconds], list[Workload], Seconds, Seconds]:
    """Each request by server and loop, with equal updates: seconds alone, what it did, CPU of both."""
    from archer.server.serving import public_name

    for body in bodies:
        body["model"] = public_name(model.name)
    alone, trajectories, direct, served = [], [], 0.0, 0.0
    for number, (request, body) in enumerate(zip(requests, bodies, strict=True)):
        for _ in range(2 if number == 0 else 1):  # the first one once more, to warm up
            there = server.cpu
            updates = json.loads(server.ask(body))["usage"]["archer"]["updates"]
            spent_there = server.cpu - there
            began, here = time.monotonic(), time.process_time()
            steps = itertools.islice(Stream(model, request), updates)
            trajectory = recorded(request.prompts[0].prompt_tokens, request.method.length, steps)
            ended, spent_here = time.monotonic(), time.process_time() - here
        alone.append(ended - began)
        trajectories.append(trajectory)
        direct += spent_here
        served += spent_there
    return alone, trajectories, direct / len(alone), served / len(alone)


def _event_cpu(server: _Server, bodies: Sequence[Mapping[str, Any]]) -> Seconds:
    """CPU of a provisional event: watched streams against the same that nobody watches, in turn."""
    watched = plain = 0.0
    events = 0
    for body in bodies:
        for mode in ("final", "provisional"):
            before = server.cpu
            request = {**body, "stream": True, "archer": {"method": WATCHED, "stream_mode": mode}}
            content = server.ask(request)
            if mode == "final":
                plain += server.cpu - before
            else:
                watched += server.cpu - before
                events += content.count(b'"event":"update"')
    return max(0.0, watched - plain) / max(1, events)


def _closed(run: MeasuredLoad, server: _Server, bodies: Sequence[Mapping[str, Any]]) -> Ran:
    began = time.monotonic()

    def ask(number: int) -> tuple[int, Seconds] | None:
        at = time.monotonic()
        if at - began > run.seconds:
            return None
        server.ask(bodies[number])
        return number, time.monotonic() - at

    with ThreadPoolExecutor(run.clients) as pool:
        done = [each for each in pool.map(ask, range(len(bodies))) if each is not None]
    return done, time.monotonic() - began


def _open(run: MeasuredLoad, server: _Server, bodies: Sequence[Mapping[str, Any]]) -> Ran:
    began = time.monotonic()

    def ask(number: int) -> tuple[int, Seconds]:
        server.ask(bodies[number])
        return number, time.monotonic() - began - run.arrivals[number]

    with ThreadPoolExecutor(len(run.arrivals)) as pool:
        futures = []
        for number, at in enumerate(run.arrivals):
            if at > run.seconds:
                break
            time.sleep(max(0.0, began + at - time.monotonic()))
            futures.append(pool.submit(ask, number))
        done = [each.result() for each in futures]
    return done, time.monotonic() - began


def _measured(
    run: MeasuredLoad,
    asking: Asking,
    server: _Server,
    bodies: Sequence[Mapping[str, Any]],
    alone: Sequence[Seconds],
    rate: float,
) -> tuple[ServedLoad, MeasuredLoad]:
    before = server.cpu
    done, whole = asking(run, server, bodies)
    spent = server.cpu - before
    if not done:
        raise ArcherError(
            f"No request was answered under the load {run.load!r}: none began within "
            f"{run.seconds:g} s. Allow more time."
        )
    own = [alone[number] for number, _ in done]
    row = ServedLoad(
        **figures([seconds for _, seconds in done], own, whole),
        load=run.load,
        over_alone=len(done) / whole / rate,
        cpu=spent / len(done),
    )
    return row, replace(run, waits=tuple(done), cpu=spent)


def _left(server: _Server, body: Mapping[str, Any]) -> Seconds:
    """From hanging up on a request that would take long to the moment at which nothing runs."""
    connection = server.opened({**body, "max_tokens": 512, "archer": {"method": ENDLESS}})
    try:
        _wait_for(lambda: server.running() > 0, "A request that is to be left was not seen running")
    finally:
        connection.close()
    began = time.monotonic()
    _wait_for(lambda: server.running() == 0, "A request whose client had left was still running")
    return time.monotonic() - began


def _wait_for(true: Callable[[], bool], otherwise: str) -> None:
    last = time.monotonic() + LEFT_SECONDS
    while not true():
        if time.monotonic() > last:
            raise ArcherError(f"{otherwise} within {LEFT_SECONDS:g} s.")
        time.sleep(0.001)


def tables(result: Result) -> list[Table]:
    """Every load, and what serving adds to decoding."""
    heads = {
        "load": "load",
        "requests": "requests",
        "p50": "p50 s",
        "p99": "p99 s",
        "throughput": "per s",
        "goodput": "in time per s",
        "over_alone": "over alone",
        "cpu": "CPU s",
    }
    costs = {
        "start to ready": f"{result['start_seconds']:.1f} s",
        "CPU per request by the loop": f"{result['direct_cpu']:.3f} s",
        "CPU per request served": f"{result['server_cpu']:.3f} s ({100 * result['overhead']:+.1f} %)",
        "CPU of a provisional event": f"{result['event_ms']:.2f} ms",
        "from hanging up to a free slot": f"{result['cancel_seconds']:.2f} s",
    }
    fields = [Field(name, head) for name, head in heads.items()]
    rows = [{"what": what, "measured": measured} for what, measured in costs.items()]
    return [
        table_of("A server under load", fields, result["rows"]),
        table_of("What serving costs", [Field("what"), Field("measured")], rows),
    ]


def latency_figure(result: Result) -> str:
    """Latency by load, as an SVG."""
    rows = result["rows"]
    names = [row["load"] for row in rows]
    series = [
        Series("half are answered within", names, [row["p50"] for row in rows]),
        Series("99 of 100 are answered within", names, [row["p99"] for row in rows]),
    ]
    return lines(series, Labels("Latency by load", "load", "seconds")).svg
