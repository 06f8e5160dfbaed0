"""The routes."""

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from archer import __version__
from archer.methods.settings import DECODERS, POLICIES, method_list
from archer.pages import embed, player
from archer.pages.page import POLICY, Player, Section
from archer.pages.page import page as report_page
from archer.server.access import IGNORED, owner_of, refused
from archer.server.body import read_object
from archer.server.error_log import ErrorLog
from archer.server.fair_turns import on_a_thread
from archer.server.infill import HINTS, InfillFields, infill_request
from archer.server.infill import NEUTRAL as NEUTRAL_IN_INFILL
from archer.server.metrics import Metrics
from archer.server.refusals import Refusal, unexpected
from archer.server.request_reading import chat_request, text_request, unsupported
from archer.server.request_schema import (
    NEUTRAL,
    ChatFields,
    Fields,
    GenerationRequest,
    TextFields,
    schema,
)
from archer.server.serving import Serving
from archer.server.streaming import (
    NOBODY_READS,
    EventStream,
    nothing_written,
    plain,
    unless_gone,
)

log = logging.getLogger("archer")

ERRORS = {
    400: "The request cannot be carried out; the sentence names the field.",
    401: "The key is missing or wrong.",
    403: "The server was asked by a name that is not its own.",
    404: "There is no such model.",
    408: "The request did not arrive in time.",
    413: "The request is too large.",
    415: "The request is not announced as JSON.",
    422: "The logits of this request were not finite.",
    429: "Too many requests wait.",
    500: "There was not enough memory, or the server made a mistake.",
    503: "The server is loading or stopping, or the request waited too long.",
    504: "The request took too long.",
}
ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}


class State:
    """What the server can do at this moment; `serving` is there once the model is loaded and has answered."""

    def __init__(self) -> None:
        self.serving: Serving | None = None
        self.stopping = False
        self.metrics = Metrics(self._status)

    def ready(self) -> Serving:
        """The served model; refuses while there is none."""
        if self.serving is None:
            sentence = "The model is being loaded; /ready tells when."
            raise Refusal(503, sentence, kind="server_error", code="loading", retry_after=5)
        return self.serving

    def _status(self) -> Any:
        return None if self.serving is None else self.serving.engine.status()


def create_app(
    state: State, *, with_page: bool = True, ignored: frozenset[str] = frozenset()
) -> FastAPI:
    """The application over a state that others bring to life and to its end.

    `ignored`: fields that are not supported and are left out instead of refused.
    """
    app = FastAPI(
        title="Archer", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False
    )

    errors = ErrorLog(log)

    async def answer(
        request: Request,
        parse: Callable[[Mapping[str, Any]], GenerationRequest],
        declared: type[Fields],
        neutral: Mapping[str, Sequence[Any]] = NEUTRAL,
    ) -> Response:
        arrived = time.monotonic()
        try:
            body = await read_object(request)
            left_out = ignored.intersection(unsupported(body, neutral, declared))
            generation = parse({name: body[name] for name in body if name not in left_out})
            serving = state.ready()
            if generation.length == 0:
                return _telling(nothing_written(serving, generation), left_out)
            entering = serving.submit(generation, owner_of(request.scope), arrived)
            exchange = await unless_gone(request.receive, entering)
        except Refusal as error:
            state.metrics.rejected(error.code or str(error.status))
            raise
        if exchange is None:
            return Response(status_code=NOBODY_READS)
        response = (
            EventStream(serving, exchange)
            if generation.stream
            else await plain(serving, exchange, request)
        )
        return _telling(response, left_out)

    @app.post("/v1/chat/completions", **_described(ChatFields))
    async def chat_completions(request: Request) -> Response:
        """Answer a conversation."""
        return await answer(request, chat_request, ChatFields)

    @app.post("/v1/completions", **_described(TextFields))
    async def completions(request: Request) -> Response:
        """Continue texts as they stand, without the chat template."""
        return await answer(request, text_request, TextFields)

    @app.post("/infill", **_described(InfillFields, NEUTRAL_IN_INFILL, HINTS))
    async def infill(request: Request) -> Response:
        """Write what stands between two texts, in llama.cpp's words."""
        return await answer(request, infill_request, InfillFields, NEUTRAL_IN_INFILL)

    @app.post("/update_weights_from_disk", responses=_responses(400, 401, 403, 408, 413, 415, 503))
    async def update_weights(request: Request) -> Response:
        """Change the weights in place, where the operator allows it."""
        version = await state.ready().update_weights(await read_object(request))
        return JSONResponse({"success": True, "message": "", "weights_version": version})

    @app.get("/v1/models", responses=_responses(401, 403, 503))
    async def models(request: Request) -> Response:
        """The served model; with `?methods=true` also its name with every method."""
        serving = state.ready()
        ids = serving.terms.ids if request.query_params.get("methods") == "true" else [serving.name]
        return JSONResponse({"object": "list", "data": [_model(serving, id) for id in ids]})

    @app.get("/v1/models/{id:path}", responses=_responses(401, 403, 404, 503))
    async def model(id: str) -> Response:
        """One of them."""
        serving = state.ready()
        await serving.check_id(id)
        return JSONResponse(_model(serving, id))

    @app.get("/v1/archer/methods", responses=_responses(401, 403))
    async def methods() -> Response:
        """Methods, decoders and caches with their settings."""
        return JSONResponse(await on_a_thread(lambda: _method_list(errors)))

    @app.get("/health")
    async def health() -> Response:
        """The process is alive."""
        return JSONResponse({"status": "alive"})

    @app.get("/ready", responses=_responses(503))
    async def ready() -> Response:
        """The model has answered and takes requests."""
        serving = state.ready()
        if state.stopping or not serving.engine.alive:
            raise Refusal(503, "The server is stopping.", kind="server_error", code="stopping")
        return JSONResponse({"status": "ready", "model": serving.name})

    @app.get("/metrics", response_class=PlainTextResponse, responses=_responses(401, 403))
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(state.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    if with_page:

        @app.get("/", include_in_schema=False)
        async def root() -> Response:
            return HTMLResponse(page(), headers=dict(HEADERS))

    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(HTTPException, _other)
    app.add_exception_handler(Exception, _mistake)
    return app


def _telling(response: Response, ignored: Collection[str]) -> Response:
    """The reply, which says what of its request was ignored; also a stream, before its first chunk."""
    if ignored:
        response.headers[IGNORED] = ", ".join(sorted(ignored))
    return response


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refused(error)


async def _other(_: Request, error: Exception) -> Response:
    """What the framework refuses by itself: paths and methods that are not there."""
    assert isinstance(error, HTTPException)
    sentences = {404: "There is nothing at this address.", 405: "This address does not take that."}
    message = sentences.get(error.status_code, error.detail)
    reply = refused(Refusal(error.status_code, message))
    reply.headers.update(error.headers or {})
    return reply


async def _mistake(_: Request, __: Exception) -> Response:
    """The framework raises the error again for `Access` to log."""
    return refused(unexpected())


def _method_list(errors: ErrorLog) -> dict[str, Any]:
    """Not on the loop: packages of others are imported by the first who asks."""
    return method_list(*(dict(table.usable(errors.error)) for table in (DECODERS, POLICIES)))


def _model(serving: Serving, id: str) -> dict[str, Any]:
    return {
        "id": id,
        "object": "model",
        "created": serving.created,
        "owned_by": "archer",
        "max_model_len": serving.model.folder.shape.max_positions,
        **({"grids": serving.terms.grids} if serving.terms.grids else {}),
    }


def _described(
    kind: type[Fields],
    neutral: Mapping[str, Sequence[Any]] = NEUTRAL,
    hints: Collection[str] = (),
) -> dict[str, Any]:
    """What the machine-readable description says of a route whose body is read by hand."""
    own = json.loads(json.dumps(schema(kind, neutral)))
    own["properties"] |= {name: {} for name in sorted(hints)}
    body = {"required": True, "content": {"application/json": {"schema": own}}}
    answers = {"application/json": {"schema": {"type": "object"}}, "text/event-stream": {}}
    responses = _responses(*ERRORS) | {200: {"description": "The answer.", "content": answers}}
    return {"openapi_extra": {"requestBody": body}, "responses": responses}


def _responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    content = {"application/json": {"schema": ERROR_SCHEMA}}
    return {code: {"description": ERRORS[code], "content": content} for code in codes}


HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        f"{POLICY}; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-cache",
}
TITLE, SUMMARY, RUNS = "%title%", "%summary%", "%runs%"
"""What the page puts into the file that it saves."""


@cache
def page() -> str:
    """The player of `archer view`, fed by the API. It knows nothing of the model, so it needs no key."""
    script = f"{player.script().removesuffix('})();' + chr(10))}{_asset('live.js')}}})();\n"
    saved = report_page(TITLE, [Section("", [Player(SUMMARY, [{"runs": RUNS}], opened=True)])])
    return (
        _asset("live.html")
        .replace("/* style */", embed.asset("page.css") + player.style() + _asset("live.css"))
        .replace("/* file */", embed.data(saved))
        .replace("/* script */", script)
    )


def _asset(name: str) -> str:
    return files("archer.server").joinpath("assets", name).read_text(encoding="utf-8")
