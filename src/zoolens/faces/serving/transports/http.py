"""Open Inference Protocol V2 over REST: an ASGI application before a data plane.

What is no inference is a table of routes for Starlette. Inference is answered by connections themselves where they can
(`http_protocol`), and here where they cannot. Both only convert: how a model answers is the data plane's business.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from zoolens.base.protocol import documents, json_text
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.limits import invalid
from zoolens.base.protocol.rest_header import no_shared_memory
from zoolens.faces.serving.contracts.data_plane import DataPlane
from zoolens.faces.serving.contracts.language import LanguageService
from zoolens.faces.serving.options import ServerOptions, check_access
from zoolens.faces.serving.transports.bodies import BodyReader, ClientLeft, Receive, Send
from zoolens.faces.serving.transports.http_inference import (
    Head,
    HttpAnswer,
    Inference,
    error_answer,
    http_answer,
    read_head,
)
from zoolens.faces.serving.transports.openai_http import PREFIX, OpenAiRoutes, openai_error
from zoolens.faces.serving.transports.openapi import document
from zoolens.faces.serving.transports.request_headers import traceparent

log = logging.getLogger("zoolens.serving")

Scope = MutableMapping[str, Any]
Metrics = Callable[[], tuple[bytes, str]]  # the text for Prometheus, and its content type
Result = TypeVar("Result")
Handler = Callable[["RouteRequest"], Awaitable[Any]]

_DISCARD_SECONDS: Final = 1.0
_MOST_ROUTE_BYTES: Final = 1 << 20  # of a body that is no inference: it is parsed on the event loop


class Application:
    """The ASGI application. `metrics` is what `/metrics` answers."""

    def __init__(
        self,
        plane: DataPlane,
        options: ServerOptions,
        bodies: BodyReader,
        metrics: Metrics | None = None,
        language: LanguageService | None = None,
    ) -> None:
        self.options, self.bodies = options, bodies
        self._openai = OpenAiRoutes(language, bodies)
        self.inference = Inference(plane, options)
        self._routes = _routes(plane, self.bodies, metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        began = read = False

        async def tracked(message: Any) -> None:
            nonlocal began
            began = True
            await send(message)

        async def body() -> Any:
            nonlocal read
            message = await receive()
            read = read or not message.get("more_body", False)
            return message

        try:
            check_access(self.options, scope["path"], headers)
            head = read_head(scope["path"], headers)
            if scope["path"].startswith(PREFIX):
                await self._write(scope, headers, body, tracked)
            elif head is None:
                # Where there is one, Starlette raises what it would otherwise answer in plain text.
                scope["app"] = self
                await self._routes(scope, body, tracked)
            else:
                _check_method(scope)
                await self._infer(head, headers, body, tracked)
        except ClientLeft:
            return
        except HTTPException as error:
            await _send(send, _no_route(scope, error))
        except Exception as error:
            if began:
                # Its reader has gone; uvicorn closes the connection.
                log.info("An answer was cut off: %s", error)
            else:
                if not read and "expect" not in headers:
                    await _discard(body)
                await _send(send, openai_error(error) if scope["path"].startswith(PREFIX) else error_answer(error))

    async def _infer(self, head: Head, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        with self.bodies.holding() as held:
            content = await self.bodies.read(held, headers, receive, head.offset)
            answer = self.inference.answer(head, content)
            await _send(send, await _unless_client_leaves(answer, receive))

    async def _write(self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        """Answer the API of OpenAI."""
        with self.bodies.holding() as held:
            asked = await self._openai.read(scope, headers, receive, held)
            if isinstance(asked, HttpAnswer):
                await _send(send, asked)
            elif (whole := await _unless_client_leaves(self._openai.answer(asked, send), receive)) is not None:
                await _send(send, whole)


async def _discard(receive: Receive) -> None:
    """Throw away what a client sends of a refused body: most send all of it before they read why it is refused."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_SECONDS):
            while (await receive()).get("more_body", False):
                pass


def _check_method(scope: Scope) -> None:
    if scope["method"] != "POST":
        raise HTTPException(405, headers={"Allow": "POST"})


async def _unless_client_leaves(work: Awaitable[Result], receive: Receive) -> Result:
    """Await the answer, but cancel it when the client closes its connection."""
    task = asyncio.current_task()
    assert task is not None
    done = False

    def left(_: object) -> None:
        if not done:
            task.cancel()

    watcher = asyncio.ensure_future(_disconnected(receive))
    watcher.add_done_callback(left)
    try:
        return await work
    except asyncio.CancelledError:
        if watcher.done() and not watcher.cancelled():
            task.uncancel()
            raise ClientLeft from None
        raise
    finally:
        done = True
        watcher.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _no_route(scope: Scope, error: HTTPException) -> HttpAnswer:
    sentence = f"There is nothing at {scope['path'][:200]!r} for {scope['method']}; /openapi.json lists what there is."
    fields = {"Content-Type": "application/json", **(error.headers or {})}
    return http_answer(error.status_code, fields, json_text.dump({"error": sentence}))


async def _send(send: Send, answer: HttpAnswer) -> None:
    fields = {**answer.fields, "content-length": str(len(answer))}
    headers = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    *parts, last = answer.parts
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": last})


# --- everything but inference


@dataclass(frozen=True)
class RouteRequest:
    """One request to a route. `data` is its JSON body; an absent one is empty."""

    plane: DataPlane
    model: str
    version: str
    data: Mapping[str, Any]


class _Status(Exception):
    """An answer whose status is not 200 although it is no error."""

    def __init__(self, status: int, data: Any) -> None:
        super().__init__(status)
        self.status, self.data = status, data


def _readiness(state: str, value: bool, **more: Any) -> dict[str, Any]:
    """The protocol says 200 for true and 4xx for false; the body is for clients that read it."""
    data = {**more, state: value}
    if not value:
        raise _Status(400, data)
    return data


async def _live(asked: RouteRequest) -> Any:
    return _readiness("live", asked.plane.live())


async def _ready(asked: RouteRequest) -> Any:
    return _readiness("ready", asked.plane.ready())


async def _model_ready(asked: RouteRequest) -> Any:
    return _readiness("ready", asked.plane.model_ready(asked.model, asked.version), name=asked.model)


async def _metadata(asked: RouteRequest) -> Any:
    return documents.server_to_data(asked.plane.metadata())


async def _model_metadata(asked: RouteRequest) -> Any:
    return documents.model_to_data(asked.plane.model_metadata(asked.model, asked.version))


async def _config(asked: RouteRequest) -> Any:
    return asked.plane.model_config(asked.model, asked.version)


async def _statistics(asked: RouteRequest) -> Any:
    return documents.statistics_to_data(asked.plane.statistics(asked.model, asked.version))


async def _index(asked: RouteRequest) -> Any:
    only_ready = asked.data.get("ready", False)
    if not isinstance(only_ready, bool):
        raise invalid("The field 'ready' must be true or false.")
    return documents.repository_to_data(asked.plane.repository(only_ready))


async def _load(asked: RouteRequest) -> Any:
    await asked.plane.load(asked.model, _object(asked.data, "parameters"))
    return {}


async def _unload(asked: RouteRequest) -> Any:
    await asked.plane.unload(asked.model)
    return {}


async def _feedback(asked: RouteRequest) -> Any:
    labels = _object(asked.data, "labels")
    return {"known": await asked.plane.feedback(asked.model, labels), "given": len(labels)}


async def _trace(asked: RouteRequest) -> Any:
    return dict(asked.plane.trace_settings(asked.model))


async def _change_trace(asked: RouteRequest) -> Any:
    return dict(asked.plane.change_trace_settings(asked.model, asked.data))


async def _no_regions(asked: RouteRequest) -> Any:
    if asked.model:
        raise ServingError(Refusal.INVALID, f"There is no region {asked.model[:100]!r} of shared memory here.")
    return []


async def _nothing_registered(_: RouteRequest) -> Any:
    """Programs that use Triton's clients unregister everything before they begin."""
    return {}


async def _register(_: RouteRequest) -> Any:
    raise no_shared_memory()


def _object(data: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = data.get(field, {})
    if not isinstance(value, dict):
        raise invalid(f"The field {field!r} must be a JSON object.")
    return value


_MODEL: Final = "/v2/models/{model:path}"
_TABLE: Final[tuple[tuple[str, str, Handler], ...]] = (
    ("GET", "/v2", _metadata),
    ("GET", "/v2/health/live", _live),
    ("GET", "/v2/health/ready", _ready),
    ("GET", "/v2/models/stats", _statistics),
    ("GET", f"{_MODEL}/versions/{{version}}/ready", _model_ready),
    ("GET", f"{_MODEL}/ready", _model_ready),
    ("GET", f"{_MODEL}/versions/{{version}}/config", _config),
    ("GET", f"{_MODEL}/config", _config),
    ("GET", f"{_MODEL}/versions/{{version}}/stats", _statistics),
    ("GET", f"{_MODEL}/stats", _statistics),
    ("GET", f"{_MODEL}/trace/setting", _trace),
    ("POST", f"{_MODEL}/trace/setting", _change_trace),
    ("POST", f"{_MODEL}/feedback", _feedback),
    ("GET", f"{_MODEL}/versions/{{version}}", _model_metadata),
    ("GET", _MODEL, _model_metadata),
    ("POST", "/v2/repository/index", _index),
    ("POST", "/v2/repository/models/{model:path}/load", _load),
    ("POST", "/v2/repository/models/{model:path}/unload", _unload),
    ("GET", "/v2/trace/setting", _trace),
    ("POST", "/v2/trace/setting", _change_trace),
    *(
        (method, f"/v2/{kind}sharedmemory{region}/{call}", handler)
        for kind in ("system", "cuda")
        for region in ("", "/region/{model:path}")
        for method, call, handler in (
            ("GET", "status", _no_regions),
            ("POST", "unregister", _nothing_registered),
            ("POST", "register", _register),
        )
    ),
)


def _routes(plane: DataPlane, bodies: BodyReader, metrics: Metrics | None) -> Router:
    async def openapi(_: Request) -> Response:
        return _json(200, document())

    async def prometheus(_: Request) -> Response:
        if metrics is None:
            raise ServingError(Refusal.NOT_FOUND, "This server publishes no metrics.")
        content, content_type = metrics()
        return Response(content, headers={"Content-Type": content_type})

    routes = [Route(path, _endpoint(plane, bodies, handler), methods=[method]) for method, path, handler in _TABLE]
    routes += [Route("/openapi.json", openapi), Route("/metrics", prometheus)]
    return Router(routes, redirect_slashes=False)


def _endpoint(plane: DataPlane, bodies: BodyReader, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        with bodies.holding() as held:
            content = await bodies.read(held, request.headers, request.receive, most=_MOST_ROUTE_BYTES)
            data = json_text.parse_object(content) if request.method == "POST" and len(content) else {}
            path = request.path_params
            asked = RouteRequest(plane, _text(path.get("model", "")), _text(path.get("version", "")), data)
            try:
                response = _json(200, await handler(asked))
            except _Status as answer:
                response = _json(answer.status, answer.data)
        if (trace := traceparent(request.headers)) is not None:
            response.headers["traceparent"] = trace
        return response

    return endpoint


def _text(value: str) -> str:
    return json_text.text(value, "The name of a model or version") if value else ""


def _json(status: int, data: Any) -> Response:
    return Response(json_text.dump(data), status, media_type="application/json")
