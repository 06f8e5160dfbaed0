"""A hub of one repository on this machine, as far as the hub client asks.

It answers the questions about the repository, lists its files and hands them out, and keeps a record
of what it was asked for.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

COMMIT = "6059b30" + "0123456789abcdef" * 2 + "0"


class FakeHub(ThreadingHTTPServer):
    """Serves the files of `folder` as the repository `name` at one commit."""

    daemon_threads = True

    def __init__(
        self, name: str, folder: Path, *, gated: bool = False, broken: bool = False
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name = name
        self.folder = folder
        self.gated = gated
        self.broken = broken
        self.asked: list[str] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def fetched(self) -> set[str]:
        """Files asked for, whether or not they were handed out."""
        return {path.rsplit("/", 1)[1] for path in self.asked if "/resolve/" in path}

    def files(self) -> dict[str, Path]:
        paths = (path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path for path in paths}

    @contextmanager
    def running(self) -> Iterator["FakeHub"]:
        thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet: the record is `asked`."""

    def _answer(self, *, with_body: bool) -> None:
        hub = self.server
        path = unquote(urlsplit(self.path).path)
        hub.asked.append(path)
        api, resolve = f"/api/models/{hub.name}", f"/{hub.name}/resolve/"
        if hub.broken:
            self._send(500, b"", with_body)
        elif not path.startswith((api, resolve)):
            self._send(404, b"", with_body, {"X-Error-Code": "RepoNotFound"})
        elif hub.gated:
            self._send(403, b"", with_body, {"X-Error-Code": "GatedRepo"})
        elif path.startswith(resolve):
            self._file(path.removeprefix(resolve), with_body)
        else:
            self._about(path.removeprefix(api), with_body)

    def _about(self, question: str, with_body: bool) -> None:
        kind, _, revision = question.lstrip("/").partition("/")
        if revision not in ("", "main", COMMIT, COMMIT[:7]):
            self._send(404, b"", with_body, {"X-Error-Code": "RevisionNotFound"})
        elif kind == "tree":
            self._json([_entry(n, p) for n, p in self.server.files().items()], with_body)
        else:
            about = {"id": self.server.name, "sha": COMMIT, "siblings": [], "tags": []}
            self._json(about, with_body)

    def _file(self, wanted: str, with_body: bool) -> None:
        commit, _, name = wanted.partition("/")
        path = self.server.files().get(name)
        if path is None or commit != COMMIT:
            self._send(404, b"", with_body, {"X-Error-Code": "EntryNotFound"})
            return
        headers = {"ETag": f'"{_digest(path)}"', "X-Repo-Commit": COMMIT}
        self._send(200, path.read_bytes(), with_body, headers)

    def _json(self, value: object, with_body: bool) -> None:
        headers = {"Content-Type": "application/json"}
        self._send(200, json.dumps(value).encode(), with_body, headers)

    def _send(
        self, status: int, body: bytes, with_body: bool, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


def _entry(name: str, path: Path) -> dict[str, object]:
    return {"type": "file", "path": name, "size": path.stat().st_size, "oid": _digest(path)}


def _digest(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()
