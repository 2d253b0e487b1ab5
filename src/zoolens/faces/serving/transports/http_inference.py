"""One inference over HTTP, from the headers and the content of a request to the status, fields and parts of an answer.

Connections call it directly (`http_protocol`), and so does the ASGI application, which has everything else (`http`).
"""

from __future__ import annotations

import asyncio
import gzip
import re
import zlib
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import Final

from zoolens.base.protocol import documents
from zoolens.base.protocol.datatypes import Buffer, to_bytes
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.base.protocol.rest import (
    HEADER_LENGTH,
    Body,
    Caller,
    decode_request,
    encode_response,
    outputs_as_json,
    parse_header_length,
    raw_request,
)
from zoolens.faces.serving.contracts.data_plane import CallbackPlane, DataPlane
from zoolens.faces.serving.options import ServerOptions
from zoolens.faces.serving.transports.request_headers import answered_by, caller, unforeseen

INFER_PATH: Final = re.compile(r"/v2/models/(.+?)(?:/versions/([^/]+))?/infer", re.DOTALL)
_LENGTH_FIELD: Final = HEADER_LENGTH.lower()
DECODE_IN_THREAD: Final = 1 << 18  # bytes of JSON: milliseconds in which the event loop would answer nobody
_ENCODE_IN_THREAD: Final = 1 << 14  # values that are written as JSON
_KNOWN: Final = 512  # headers of answers that are kept
_BUSY: Final = frozenset({Refusal.OVERLOADED, Refusal.UNAVAILABLE})
_UNREAD: Final = frozenset({Refusal.TOO_LARGE, Refusal.TOO_SLOW, Refusal.UNAUTHENTICATED, Refusal.FORBIDDEN})
_COMPRESSORS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": lambda content: gzip.compress(content, 1),
    "deflate": lambda content: zlib.compress(content, 1),
}


@dataclass(frozen=True)
class Head:
    """What the path and the headers of an inference say. It may be shared by many requests."""

    model: str
    version: str
    header_length: int | None
    caller: Caller
    encoding: str  # in which the client wants the answer: gzip, deflate, or as it is

    @property
    def offset(self) -> int:
        """Where in the body its first binary tensor begins."""
        return self.header_length or 0


def read_head(path: str, headers: Mapping[str, str]) -> Head | None:
    """The head of an inference; None where the path is another. The names of headers are in small letters."""
    match = INFER_PATH.fullmatch(path)
    if match is None:
        return None
    # A list is what a client could take, not what it wishes.
    encoding = headers.get("accept-encoding", "")
    length = parse_header_length(headers.get(_LENGTH_FIELD))
    return Head(match[1], match[2] or "", length, caller(headers), encoding if encoding in _COMPRESSORS else "")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What goes back. `fields` are headers without the length; `parts` are sent one behind the other. `lines` are the
    headers, with the length, as they are sent; `http_answer` makes them."""

    status: int
    fields: Mapping[str, str]
    parts: tuple[Buffer, ...]
    lines: bytes

    def __len__(self) -> int:
        return sum(map(len, self.parts))


def http_answer(status: int, fields: Mapping[str, str], *parts: Buffer) -> HttpAnswer:
    length = sum(map(len, parts))
    sent = {**fields, "content-length": length}
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return HttpAnswer(status, fields, parts, lines.encode("latin-1"))


Done = Callable[[HttpAnswer], object]


class Inference:
    """Answers of one data plane."""

    def __init__(self, plane: DataPlane, options: ServerOptions) -> None:
        self._plane, self._limits = plane, options.limits
        self._submit = plane.submit if isinstance(plane, CallbackPlane) else None
        self._tasks: set[asyncio.Task[None]] = set()
        self._known: dict[tuple[object, ...], tuple[Mapping[str, str], bytes, Buffer]] = {}  # see `_binary_answer`

    async def answer(self, head: Head, content: Buffer) -> HttpAnswer:
        """The answer to a request whose body is here and unpacked. Whatever is wrong becomes an answer, too."""
        try:
            if _is_long(head, content):
                request = await asyncio.to_thread(self._request, head, content)
            else:
                request = self._request(head, content)
            return await _answer(await self._plane.infer(request), request, head)
        except Exception as error:
            return error_answer(error)

    def begin(self, head: Head, content: Buffer, done: Done) -> Callable[[], None] | None:
        """Answers like `answer`, but without a task: `done` gets the answer, perhaps before this returns. What is
        returned cancels it. None: this request or this data plane needs a task, and nothing was done."""
        if self._submit is None or head.encoding or _is_long(head, content):
            return None
        try:
            request = self._request(head, content)
            return self._submit(request, partial(self._finish, request, head, done))
        except Exception as error:
            done(error_answer(error))
            return _nothing

    def _finish(self, request: InferRequest, head: Head, done: Done, result: InferResponse | ServingError) -> None:
        if isinstance(result, ServingError):
            done(error_answer(result))
            return
        as_json = outputs_as_json(result, request)
        if as_json and _values(result, as_json) > _ENCODE_IN_THREAD:
            task = asyncio.ensure_future(_answer_later(result, request, head, done))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            try:
                if as_json or request.traceparent is not None or request.id:
                    answer = _encoded(encode_response(result, request, as_json), result, request)
                else:
                    answer = self._binary_answer(result, request)
            except Exception as error:
                answer = error_answer(error)
            done(answer)

    def _binary_answer(self, response: InferResponse, request: InferRequest) -> HttpAnswer:
        """An answer whose tensors all lie behind the JSON, to a request without an id and a trace. Its headers and its
        JSON are the same in most answers of a model, and are then those of an answer before it."""
        outputs, parameters = response.outputs, response.parameters
        blobs = [to_bytes(tensor) for tensor in outputs.values()]
        key = (
            response.model,
            response.version,
            *parameters.items(),
            # True and 1 are equal, but written differently.
            *map(type, parameters.values()),
            *[(name, tensor.dtype, tensor.shape) for name, tensor in outputs.items()],
            *map(len, blobs),
        )
        known = self._known.get(key)
        if known is None:
            answer = _encoded(encode_response(response, request, frozenset()), response, request)
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = answer.fields, answer.lines, answer.parts[0]
            return answer
        fields, lines, header = known
        return HttpAnswer(200, fields, (header, *blobs), lines)

    def _request(self, head: Head, content: Buffer) -> InferRequest:
        if head.header_length == 0:
            metadata = self._plane.model_metadata(head.model, head.version)
            return raw_request(metadata, head.version, content, self._limits, head.caller)
        return decode_request(head.model, head.version, content, head.header_length, self._limits, head.caller)


def _nothing() -> None:
    """There is nothing to cancel: the request was answered at once."""


def _is_long(head: Head, content: Buffer) -> bool:
    """Whether the JSON is so long that other clients would notice if it were read on the event loop."""
    return (len(content) if head.header_length is None else head.header_length) > DECODE_IN_THREAD


def _values(response: InferResponse, names: Set[str]) -> int:
    return sum(response.outputs[name].size for name in names)


async def _answer_later(response: InferResponse, request: InferRequest, head: Head, done: Done) -> None:
    try:
        answer = await _answer(response, request, head)
    except Exception as error:
        answer = error_answer(error)
    done(answer)


async def _answer(response: InferResponse, request: InferRequest, head: Head) -> HttpAnswer:
    as_json = outputs_as_json(response, request)
    if _values(response, as_json) > _ENCODE_IN_THREAD:
        body = await asyncio.to_thread(encode_response, response, request, as_json)
    else:
        body = encode_response(response, request, as_json)
    answer = _encoded(body, response, request)
    if not head.encoding:
        return answer
    fields = {**answer.fields, "Content-Encoding": head.encoding}
    return http_answer(200, fields, await asyncio.to_thread(_COMPRESSORS[head.encoding], body.content()))


def _encoded(body: Body, response: InferResponse, request: InferRequest) -> HttpAnswer:
    fields = {**body.headers, **answered_by(response.parameters)}
    if request.traceparent is not None:
        fields["traceparent"] = request.traceparent
    return http_answer(200, fields, *body.parts)


def error_answer(error: Exception) -> HttpAnswer:
    """An error as clients of the protocol read it: a status, and one sentence."""
    refused = error if isinstance(error, ServingError) else unforeseen(error)
    fields = {"Content-Type": "application/json"}
    if refused.refusal in _BUSY:
        fields["Retry-After"] = "1"
    if refused.refusal in _UNREAD:
        fields["Connection"] = "close"
    if refused.refusal is Refusal.UNAUTHENTICATED:
        fields["WWW-Authenticate"] = "Bearer"
    return http_answer(refused.refusal.http, fields, documents.error_body(refused))
