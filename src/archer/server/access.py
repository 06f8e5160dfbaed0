"""Who may ask, as plain ASGI around all routes: keys, hosts of this machine, errors that tell nothing."""

import hmac
import ipaddress
import logging
import time
from collections.abc import Mapping, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from archer.errors import BadRequest
from archer.server.error_log import ErrorLog
from archer.server.refusals import Refusal, unexpected
from archer.server.settings import ServerSettings

PUBLIC = frozenset({"/", "/health", "/ready"})
"""Without a key: the page, which knows nothing by itself, and the signs of life."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}
IGNORED = "archer-ignored"
"""The header of a reply that names the fields of its request that were ignored."""
VERBS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"})
ALLOWED: Mapping[str, str] = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "600",
}
"""What a page of an allowed origin may send."""

log = logging.getLogger("archer")
visits = logging.getLogger("archer.access")
"""One line per request at the level INFO: nothing in it was written by the client."""


def check_binding(host: str, settings: ServerSettings) -> None:
    """Refuse to be open to others by mistake."""
    if host not in LOOPBACK and not settings.keys and not settings.without_key:
        raise BadRequest(
            f"The address {host!r} can be reached from other machines, and no key protects the server. "
            "Give a file of keys, or say that everybody may use it without a key."
        )


def key_of(scope: Scope) -> str | None:
    """Which key asked; None where there are no keys."""
    key = scope.get("archer.key")
    return key if isinstance(key, str) else None


def owner_of(scope: Scope) -> str:
    """With whom a request is counted: its key, or the address that it came from."""
    return key_of(scope) or network_of((scope.get("client") or ("an unknown address", 0))[0])


def network_of(address: str) -> str:
    """What one stranger has: an address of version 4, of version 6 a network of 56 bits."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        mapped = ip.ipv4_mapped
        return str(mapped or ipaddress.IPv6Network((ip, 56), strict=False))
    return str(ip)


class Access:
    """Around the application: refuses strangers, and catches what nobody foresaw."""

    def __init__(
        self, app: ASGIApp, keys: Sequence[str], local: bool, origins: Sequence[str] = ()
    ) -> None:
        """`local`: only requests that name this machine are answered, which no page elsewhere can send.

        `origins`: those whose pages may read answers.
        """
        self._app = app
        self._origins = frozenset(origins)
        self._keys = [key.encode() for key in keys]
        self._local = local
        self._errors = ErrorLog(log)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status: int | None = None
        arrived = time.monotonic()
        shared = self._shared(scope)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in {**HEADERS, **shared}.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._admit(scope)
            if "access-control-allow-origin" in shared and _asks_first(scope):
                await Response(status_code=204, headers=dict(ALLOWED))(scope, receive, answer)
            else:
                await self._app(scope, receive, answer)
        except Refusal as error:
            await refused(error)(scope, receive, answer)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets one sentence
            self._errors.failed(error)
            if status is None:
                await refused(unexpected())(scope, receive, answer)
        finally:
            seconds = time.monotonic() - arrived
            visits.info("%s %s after %.2f s.", _visit(scope), status or "no answer", seconds)

    def _shared(self, scope: Scope) -> Mapping[str, str]:
        """Headers that let the page that asks read the answer, where its origin is allowed."""
        if not self._origins:
            return {}
        origin, vary = Headers(scope=scope).get("origin"), {"vary": "origin"}
        if origin is None or origin not in self._origins:
            return vary
        exposed = {"access-control-expose-headers": f"retry-after, {IGNORED}"}
        return vary | exposed | {"access-control-allow-origin": origin}

    def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if self._local and _host(headers.get("host", "")) not in LOOPBACK:
            raise Refusal(
                403,
                "This server answers only to the names of its own machine, such as localhost. "
                "To be reached by another name, it must be started with that host and a key.",
            )
        if not self._keys or scope["path"] in PUBLIC:
            return
        if _asks_first(scope) and Headers(scope=scope).get("origin") in self._origins:
            return  # browsers send no key with the question whether they may
        kind, _, given = headers.get("authorization", "").partition(" ")
        presented = given.strip().encode()
        matches = [hmac.compare_digest(presented, key) for key in self._keys]
        if kind.lower() != "bearer" or not any(matches):
            raise Refusal(
                401,
                "The API key is missing or wrong. Send `Authorization: Bearer KEY`.",
                kind="authentication_error",
                code="invalid_api_key",
            )
        scope["archer.key"] = f"key {matches.index(True)}"


def refused(error: Refusal) -> JSONResponse:
    """The refusal as a response.  A body that was not read to its end closes the connection."""
    headers = dict(error.headers)
    if error.status in (408, 413):
        headers["connection"] = "close"
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(error.body, status_code=error.status, headers=headers)


def _asks_first(scope: Scope) -> bool:
    """Whether a browser asks what a page may send, before it sends it."""
    return bool(
        scope["method"] == "OPTIONS"
        and Headers(scope=scope).get("access-control-request-method") is not None
    )


def _visit(scope: Scope) -> str:
    """Who asked for what: the route's own path, because a client may write anything into an address."""
    verb = scope["method"] if scope["method"] in VERBS else "Another method"
    path = getattr(scope.get("route"), "path", "at no known address")
    address = (scope.get("client") or ("an unknown address", 0))[0]
    key = key_of(scope)
    return f"{verb} {path} from {address}{f' with {key}' if key else ''}:"


def _host(header: str) -> str:
    """The name without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()
