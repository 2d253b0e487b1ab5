"""The web application: routes made of the declared endpoints, and the built pages of the explorer."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zoolens.base.errors import ZoolensError, first_line
from zoolens.base.present.text import clean
from zoolens.base.safety.untrusted import parse_json
from zoolens.faces.ui.assets import Asset, assets
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import PREFIX, Answer, Endpoint, Event, File, NotFound, Query, RequestError, status_of
from zoolens.faces.ui.openapi import document
from zoolens.faces.ui.resources import endpoints
from zoolens.faces.ui.security import COOKIE, HEADERS, TOKEN_PARAMETER, check_request, is_token
from zoolens.faces.ui.settings import Settings
from zoolens.inventory.fleet.fleet_metrics import CONTENT_TYPE, metrics_text

log = logging.getLogger("zoolens.ui")

_LEAST_COMPRESSED: Final = 1500  # bytes
_MOST_STREAMS: Final = 64  # each looks at its job several times a second; 300 of them left no thread for pages
_RAW_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})  # nothing in them is run


def create_app(context: Context) -> Starlette:
    """The application over one open context."""
    routes = [
        Route(PREFIX + endpoint.path, _answering(context, endpoint), methods=[endpoint.method])
        for resource in endpoints().values()
        for endpoint in resource
    ]
    routes += [Route(f"{PREFIX}/openapi.json", _description), Route("/metrics", _metrics(context))]
    routes += [Route("/", _asset), Route("/{name}", _asset)]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(_Guard, settings=context.settings),
            Middleware(GZipMiddleware, minimum_size=_LEAST_COMPRESSED, compresslevel=5),
        ],
        exception_handlers={HTTPException: _no_route, Exception: _unexpected},
    )


class _Guard:
    """Refuses what may not ask, and says to browsers what they may do with every answer."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        try:
            if (letting_in := self._let_in(scope)) is not None:
                await letting_in(scope, receive, guarded)
                return
            check_request(self._settings, scope["method"], scope["path"], Headers(scope=scope))
        except RequestError as error:
            await _error(error)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)

    def _let_in(self, scope: Scope) -> Response | None:
        """The answer to a browser that opens the page with the token in its address: a cookie, and a clean address."""
        request = Request(scope)
        offered = request.query_params.get(TOKEN_PARAMETER)
        token = self._settings.token
        if token is None or offered is None or scope["path"] != "/" or not is_token(token, offered):
            return None
        answer = RedirectResponse("./", HTTPStatus.SEE_OTHER)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return answer


# --- endpoints


def _answering(context: Context, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    streams = _Streams()
    lists = {name for name, field in endpoint.query.model_fields.items() if _is_list(field.annotation)}

    async def answer(request: Request) -> Response:
        try:
            content = await _body(request, endpoint.upload_bytes or context.settings.body_bytes)
            query = _query(endpoint, request, content, lists)
            if endpoint.needs_store:
                await run_in_threadpool(context.store_file.check)
            if endpoint.stream:
                return await streams.answer(endpoint.call(context, query))
            more = () if endpoint.upload_bytes is None else (content,)
            result = await run_in_threadpool(endpoint.call, context, query, *more)
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)
        except ZoolensError as error:
            return _error(error)
        return _file(result) if isinstance(result, File) else _json(request, endpoint, result)

    return answer


def _is_list(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(map(_is_list, get_args(annotation)))
    return get_origin(annotation) in (list, tuple, set, frozenset)


async def _body(request: Request, most: int) -> bytes:
    """The body of a request. One that is too large is refused as soon as that is known."""
    too_large = RequestError(f"The body of this request may have at most {most:,} bytes.", status=413)
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise too_large
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > most:
            raise too_large
    return bytes(content)


def _query(endpoint: Endpoint, request: Request, content: bytes, lists: set[str]) -> Query:
    data: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in lists:
            data.setdefault(name, []).append(value)
        elif name in data:
            raise RequestError(f"{name} is given twice.")
        else:
            data[name] = value
    if endpoint.method == "POST" and endpoint.upload_bytes is None:
        data |= _json_object(request, content)
    elif endpoint.stream and "after" in endpoint.query.model_fields and "last-event-id" in request.headers:
        data["after"] = request.headers["last-event-id"]
    data |= request.path_params
    try:
        return endpoint.query.model_validate(data)
    except ValidationError as error:
        raise RequestError(_sentence(error)) from error


def _json_object(request: Request, content: bytes) -> dict[str, Any]:
    # A page of another site can send forms and plain text without asking first, but not this type.
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RequestError("The body must be JSON: send Content-Type: application/json.", status=415)
    try:
        data = parse_json(content)
    except ValueError as error:
        raise RequestError(f"The body is not JSON: {first_line(error)}.") from error
    if not isinstance(data, dict):
        raise RequestError("The body must be a JSON object.")
    return data


def _sentence(error: ValidationError) -> str:
    """What is wrong with a query, field by field."""
    wrong = [
        f"{'.'.join(map(str, problem['loc'])) or 'the query'}: {problem['msg'][:200]}" for problem in error.errors()[:3]
    ]
    return f"{'; '.join(wrong)}."


def _json(request: Request, endpoint: Endpoint, answer: Answer) -> Response:
    content = answer.model_dump_json().encode()
    headers = {"Cache-Control": "no-cache"}
    if request.method in ("GET", "HEAD"):
        headers["ETag"] = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, endpoint.status, headers, "application/json")


def _file(file: File) -> Response:
    headers = {"Cache-Control": "private, max-age=604800, immutable" if file.lasting else "no-cache"}
    if file.name or file.media_type not in _RAW_IMAGES:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", file.name)[:100]
        headers["Content-Disposition"] = f'attachment; filename="{name or "download"}"'
    return Response(file.content, headers=headers, media_type=file.media_type)


class _Streams:
    """The open event streams of one endpoint, of which there may be so many at a time."""

    def __init__(self) -> None:
        self._open = 0

    async def answer(self, events: AsyncIterator[Event]) -> Response:
        """The answer begins with the first event, so that what cannot be followed is an error like any other."""
        if self._open >= _MOST_STREAMS:
            raise RequestError(
                f"{_MOST_STREAMS} pages follow jobs already.",
                status=503,
                hint="Close some of them, or ask again later.",
            )
        self._open += 1
        try:
            first = await anext(events, None)
        except BaseException:
            self._open -= 1
            raise
        headers = {"Cache-Control": "no-store"}
        return _ClosingStream(self._lines(first, events), self._closed, headers)

    async def _lines(self, first: Event | None, events: AsyncIterator[Event]) -> AsyncIterator[str]:
        if first is not None:
            yield _lines(first)
        async for event in events:
            yield _lines(event)

    def _closed(self) -> None:
        self._open -= 1


class _ClosingStream(StreamingResponse):
    """Says when it has ended, also where the browser left before anything was sent."""

    def __init__(self, lines: AsyncIterator[str], closed: Callable[[], None], headers: dict[str, str]) -> None:
        super().__init__(lines, headers=headers, media_type="text/event-stream")
        self._when_closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._when_closed()


def _lines(event: Event) -> str:
    mark = f"id: {event.id}\n" if event.id else ""
    return f"{mark}event: {event.name}\ndata: {event.data.model_dump_json()}\n\n"


def _error(error: ZoolensError) -> Response:
    return Response(json.dumps({"error": clean(str(error))}), status_of(error), media_type="application/json")


# --- everything else


async def _description(_: Request) -> Response:
    return Response(json.dumps(document()), media_type="application/json")


def _metrics(context: Context) -> Callable[[Request], Awaitable[Response]]:
    """Figures of the fleet for Prometheus."""

    async def answer(_: Request) -> Response:
        try:
            text = await run_in_threadpool(metrics_text, context.store)
        except ZoolensError as error:
            return _error(error)
        return Response(text, media_type=CONTENT_TYPE)

    return answer


async def _asset(request: Request) -> Response:
    asset: Asset | None = assets().get(request.path_params.get("name", "index.html"))
    if asset is None:
        return _error(NotFound(f"There is nothing at {request.url.path[:200]!r}."))
    headers = {"ETag": asset.tag, "Cache-Control": asset.caching}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(asset.content, headers=headers, media_type=asset.media_type)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    sentence = f"There is nothing at {path!r} for {request.method}; {PREFIX}/openapi.json lists what there is."
    return Response(json.dumps({"error": sentence}), error.status_code, error.headers, "application/json")


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    sentence = "The explorer failed unexpectedly; what happened is in the log of its server."
    return Response(json.dumps({"error": sentence}), 500, media_type="application/json")
