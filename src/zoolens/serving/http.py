"""Open Inference Protocol V2 over REST: an ASGI application before a data plane.

Inference is plain ASGI, because it is what a server does all day; everything else is a table of routes for Starlette.
Both only convert: what a model is and how it answers is the data plane's business.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from zoolens.protocol import documents, json_text
from zoolens.protocol.datatypes import Buffer
from zoolens.protocol.errors import Refusal, ServingError
from zoolens.protocol.limits import invalid
from zoolens.protocol.messages import InferRequest, InferResponse
from zoolens.protocol.rest import HEADER_LENGTH, decode_request, encode_response, parse_header_length, raw_request
from zoolens.serving.bodies import BodyReader, ClientLeft, Receive
from zoolens.serving.call import answered_by, traceparent, unforeseen, with_headers
from zoolens.serving.contract import DataPlane
from zoolens.serving.openapi import document
from zoolens.serving.options import ServerOptions, check_token

Scope = MutableMapping[str, Any]
Send = Callable[[Any], Awaitable[None]]
Metrics = Callable[[], tuple[bytes, str]]  # the text for Prometheus, and its content type
Handler = Callable[["Asked"], Awaitable[Any]]

_INFER: Final = re.compile(r"/v2/models/(.+?)(?:/versions/([^/]+))?/infer", re.DOTALL)
_OPEN: Final = frozenset({"/v2/health/live", "/v2/health/ready"})  # probes have no token
_DECODE_IN_THREAD: Final = 1 << 18  # bytes of JSON: milliseconds in which the event loop would answer nobody
_JOIN: Final = 1 << 16  # parts of an answer below this are sent together
_BUSY: Final = frozenset({Refusal.OVERLOADED, Refusal.UNAVAILABLE})
_UNREAD: Final = frozenset({Refusal.TOO_LARGE, Refusal.TOO_SLOW, Refusal.UNAUTHENTICATED})
_COMPRESSORS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": lambda content: gzip.compress(content, 1),
    "deflate": lambda content: zlib.compress(content, 1),
}


class Application:
    """The ASGI application. `metrics` is what `/metrics` answers."""

    def __init__(self, plane: DataPlane, options: ServerOptions, metrics: Metrics | None = None) -> None:
        self._plane, self._options = plane, options
        self._bodies = BodyReader(options)
        self._routes = _routes(plane, self._bodies, metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            if scope["path"] not in _OPEN:
                check_token(self._options.token, headers.get("authorization"))
            match = _INFER.fullmatch(scope["path"])
            if match is None:
                scope["app"] = self  # where there is one, Starlette raises what it would otherwise answer in plain text
                await self._routes(scope, receive, send)
            else:
                _check_method(scope)
                await self._infer(match[1], match[2] or "", headers, receive, send)
        except ClientLeft:
            return
        except ServingError as error:
            await _send_error(send, error)
        except HTTPException as error:
            await _send_no_route(send, scope, error)
        except Exception as error:
            await _send_error(send, unforeseen(error))

    async def _infer(self, model: str, version: str, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        header_length = parse_header_length(headers.get(HEADER_LENGTH.lower()))
        with self._bodies.holding() as held:
            content = await self._bodies.read(held, headers, receive, header_length or 0)
            request = with_headers(await self._decode(model, version, content, header_length), headers)
            response = await _unless_client_leaves(self._plane.infer(request), receive)
            await _send_answer(send, response, request, headers)

    async def _decode(self, model: str, version: str, content: Buffer, header_length: int | None) -> InferRequest:
        limits = self._options.limits
        if header_length == 0:
            return raw_request(self._plane.model_metadata(model, version), version, content, limits)
        json_size = len(content) if header_length is None else header_length
        if json_size > _DECODE_IN_THREAD:
            return await asyncio.to_thread(decode_request, model, version, content, header_length, limits)
        return decode_request(model, version, content, header_length, limits)


def _check_method(scope: Scope) -> None:
    if scope["method"] != "POST":
        raise HTTPException(405, headers={"Allow": "POST"})


async def _unless_client_leaves(work: Awaitable[InferResponse], receive: Receive) -> InferResponse:
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


# --- answers


async def _send_answer(send: Send, response: InferResponse, request: InferRequest, headers: Mapping[str, str]) -> None:
    body = encode_response(response, request)
    parts: tuple[Buffer, ...] = body.parts
    fields = {**body.headers, **answered_by(response)}
    compress = _COMPRESSORS.get(headers.get("accept-encoding", ""))  # a list is what a client could take, not a wish
    if compress is not None:
        fields["Content-Encoding"] = headers["accept-encoding"]
        parts = (await asyncio.to_thread(compress, body.content()),)
    if request.traceparent is not None:
        fields["traceparent"] = request.traceparent
    await _send(send, 200, parts, fields)


async def _send_error(send: Send, error: ServingError) -> None:
    fields = {"Content-Type": "application/json"}
    if error.refusal in _BUSY:
        fields["Retry-After"] = "1"
    if error.refusal in _UNREAD:
        fields["Connection"] = "close"
    if error.refusal is Refusal.UNAUTHENTICATED:
        fields["WWW-Authenticate"] = "Bearer"
    await _send(send, error.refusal.http, (documents.error_body(error),), fields)


async def _send_no_route(send: Send, scope: Scope, error: HTTPException) -> None:
    sentence = f"There is nothing at {scope['path'][:200]!r} for {scope['method']}; /openapi.json lists what there is."
    fields = {"Content-Type": "application/json", **(error.headers or {})}
    await _send(send, error.status_code, (json_text.dump({"error": sentence}),), fields)


async def _send(send: Send, status: int, parts: tuple[Buffer, ...], fields: Mapping[str, str]) -> None:
    size = sum(map(len, parts))
    headers = [(name.encode(), value.encode()) for name, value in fields.items()]
    headers.append((b"content-length", str(size).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if len(parts) > 1 and size <= _JOIN:
        parts = (b"".join(parts),)
    for part in parts[:-1]:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": parts[-1]})


# --- everything but inference


@dataclass(frozen=True)
class Asked:
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


async def _live(asked: Asked) -> Any:
    return _readiness("live", asked.plane.live())


async def _ready(asked: Asked) -> Any:
    return _readiness("ready", asked.plane.ready())


async def _model_ready(asked: Asked) -> Any:
    return _readiness("ready", asked.plane.model_ready(asked.model, asked.version), name=asked.model)


async def _metadata(asked: Asked) -> Any:
    return documents.server_to_data(asked.plane.metadata())


async def _model_metadata(asked: Asked) -> Any:
    return documents.model_to_data(asked.plane.model_metadata(asked.model, asked.version))


async def _config(asked: Asked) -> Any:
    return asked.plane.model_config(asked.model, asked.version)


async def _statistics(asked: Asked) -> Any:
    return documents.statistics_to_data(asked.plane.statistics(asked.model, asked.version))


async def _index(asked: Asked) -> Any:
    only_ready = asked.data.get("ready", False)
    if not isinstance(only_ready, bool):
        raise invalid("The field 'ready' must be true or false.")
    return documents.repository_to_data(asked.plane.repository(only_ready))


async def _load(asked: Asked) -> Any:
    await asked.plane.load(asked.model, _object(asked.data, "parameters"))
    return {}


async def _unload(asked: Asked) -> Any:
    await asked.plane.unload(asked.model)
    return {}


async def _feedback(asked: Asked) -> Any:
    labels = _object(asked.data, "labels")
    return {"known": await asked.plane.feedback(asked.model, labels), "given": len(labels)}


async def _trace(asked: Asked) -> Any:
    return dict(asked.plane.trace_settings(asked.model))


async def _change_trace(asked: Asked) -> Any:
    return dict(asked.plane.change_trace_settings(asked.model, asked.data))


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
            content = await bodies.read(held, request.headers, request.receive)
            data = json_text.parse_object(content) if request.method == "POST" and len(content) else {}
            path = request.path_params
            asked = Asked(plane, _text(path.get("model", "")), _text(path.get("version", "")), data)
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
