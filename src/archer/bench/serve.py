"""A local server under load: latencies, what HTTP costs over the loop, and how soon a slot is free again.

The server is a process of its own on this machine and on one thread; nothing else is ever asked.  Arrivals
are drawn beforehand and bounded in number and time.  CPU seconds are read from the system, so they hold on a
machine that does other things as well; the other times want a quiet one.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, Any

from archer.bench.traffic import PATIENCE, Load, percentile
from archer.errors import ArcherError
from archer.model import Model, Request, Stream

ROUTE = "/v1/completions"
ENTRY = "from archer.cli import main; raise SystemExit(main())"
READY = re.compile(r"is ready at http://127\.0\.0\.1:(\d+) ")
START_SECONDS = 600.0
ANSWER_SECONDS = 600.0
ENDLESS = "random"
"""A method that makes one update per token, for a request that is to be left."""


@dataclass(frozen=True)
class Row:
    """Requests answered under one load; `over_alone` is the throughput over one at a time."""

    load: str
    requests: int
    p50: float
    p99: float
    throughput: float
    goodput: float
    over_alone: float
    cpu: float
    """Of the server, per request."""


@dataclass(frozen=True)
class Found:
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
    rows: Sequence[Row]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """How much is asked."""

    load: Load
    loads: Sequence[float] = (0.8,)
    """Of what one at a time can serve; arrivals do not wait for answers."""
    clients: Sequence[int] = (1, 4, 16)
    """Each asks again as soon as it is answered."""
    seconds: float = 120.0
    """No request begins later than so long after the first one of its kind of load."""


def serve_bench(model: Model, source: str, plan: Plan, options: Sequence[str] = ()) -> Found:
    """`source` is what `archer serve --model` is given; `model` the same, loaded here."""
    requests = plan.load.draw(model)
    bodies = [_body(request) for request in requests]
    with _server(source, options) as (server, started):
        alone, direct, serial = _in_turn(model, requests, bodies, server)
        rate = len(alone) / sum(alone)
        event = _event_cpu(server, bodies)
        rows = [
            _measured(f"{count} clients", server, bodies, alone, rate, _closed(count, plan.seconds))
            for count in plan.clients
        ]
        for load in plan.loads:
            arrivals = [each.at for each in plan.load.arrivals(requests, load * rate)]
            run = _open(arrivals, plan.seconds)
            rows.append(_measured(f"arrivals {load:g}", server, bodies, alone, rate, run))
        cancel = statistics.median(_left(server, bodies[0]) for _ in range(5))
    return Found(started, direct, serial, serial / direct - 1, 1e3 * event, cancel, rows)


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
        found = re.search(r"^archer:num_requests_running (\S+)$", text, re.MULTILINE)
        return int(float(found[1])) if found else 0


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
        port = _port(process.stderr)
        started = time.monotonic() - began
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()
        yield _Server(port, process.pid), started
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _port(said: IO[str]) -> int:
    lines = []
    for line in said:
        lines.append(line)
        if found := READY.search(line):
            return int(found[1])
    raise ArcherError(f"The server did not start: {' '.join(''.join(lines).split())}")


def _body(request: Request) -> dict[str, Any]:
    (prompt,) = request.prompts
    return {
        "model": "",
        "prompt": list(prompt),
        "max_tokens": request.method.length,
        "archer": {"method": request.method.name},
    }


Seconds = float
Ran = tuple[list[tuple[int, Seconds]], Seconds]
"""Which requests were answered after how long, and how long it took in all."""
Run = Callable[[_Server, Sequence[Mapping[str, Any]]], Ran]


def _in_turn(
    model: Model, requests: Sequence[Request], bodies: Sequence[dict[str, Any]], server: _Server
) -> tuple[list[Seconds], Seconds, Seconds]:
    """Each request by the loop and by the server: seconds alone, CPU of the loop and of the server."""
    from archer.server.serving import public_name

    for body in bodies:
        body["model"] = public_name(model.name)
    alone, direct, served = [], 0.0, 0.0
    for number, (request, body) in enumerate(zip(requests, bodies, strict=True)):
        for _ in range(2 if number == 0 else 1):  # the first one once more, to warm up
            began, here, there = time.monotonic(), time.process_time(), server.cpu
            Stream(model, request).finish()
            middle, spent = time.monotonic(), time.process_time() - here
            server.ask(body)
        alone.append(middle - began)
        direct += spent
        served += server.cpu - there
    return alone, direct / len(alone), served / len(alone)


def _event_cpu(server: _Server, bodies: Sequence[Mapping[str, Any]]) -> Seconds:
    """CPU of a provisional event: watched streams against streams that nobody watches, in turn."""
    watched = plain = 0.0
    events = 0
    for body in bodies:
        for mode in ("final", "provisional"):
            before = server.cpu
            asked = {**body, "stream": True, "archer": {**body["archer"], "stream_mode": mode}}
            content = server.ask(asked)
            if mode == "final":
                plain += server.cpu - before
            else:
                watched += server.cpu - before
                events += content.count(b'"event":"update"')
    return max(0.0, watched - plain) / max(1, events)


def _closed(clients: int, seconds: float) -> Run:
    def run(server: _Server, bodies: Sequence[Mapping[str, Any]]) -> Ran:
        began = time.monotonic()

        def ask(number: int) -> tuple[int, Seconds] | None:
            at = time.monotonic()
            if at - began > seconds:
                return None
            server.ask(bodies[number])
            return number, time.monotonic() - at

        with ThreadPoolExecutor(clients) as pool:
            done = [each for each in pool.map(ask, range(len(bodies))) if each is not None]
        return done, time.monotonic() - began

    return run


def _open(arrivals: Sequence[float], seconds: float) -> Run:
    def run(server: _Server, bodies: Sequence[Mapping[str, Any]]) -> Ran:
        began = time.monotonic()

        def ask(number: int) -> tuple[int, Seconds]:
            server.ask(bodies[number])
            return number, time.monotonic() - began - arrivals[number]

        with ThreadPoolExecutor(len(arrivals)) as pool:
            asked = []
            for number, at in enumerate(arrivals):
                if at > seconds:
                    break
                time.sleep(max(0.0, began + at - time.monotonic()))
                asked.append(pool.submit(ask, number))
            done = [each.result() for each in asked]
        return done, time.monotonic() - began

    return run


def _measured(
    name: str,
    server: _Server,
    bodies: Sequence[Mapping[str, Any]],
    alone: Sequence[Seconds],
    rate: float,
    run: Run,
) -> Row:
    before = server.cpu
    done, whole = run(server, bodies)
    waits = [seconds for _, seconds in done]
    well = sum(seconds <= PATIENCE * alone[number] for number, seconds in done)
    return Row(
        load=name,
        requests=len(done),
        p50=percentile(waits, 50),
        p99=percentile(waits, 99),
        throughput=len(done) / whole,
        goodput=well / whole,
        over_alone=len(done) / whole / rate,
        cpu=(server.cpu - before) / len(done),
    )


def _left(server: _Server, body: Mapping[str, Any]) -> Seconds:
    """From hanging up on a request that would take long to the moment at which nothing runs."""
    connection = server.opened({**body, "max_tokens": 512, "archer": {"method": ENDLESS}})
    while not server.running():
        time.sleep(0.001)
    began = time.monotonic()
    connection.close()
    while server.running():
        time.sleep(0.001)
    return time.monotonic() - began
