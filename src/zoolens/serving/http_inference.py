"""One inference over HTTP, from the headers and the content of a request to the status, fields and parts of an answer.

Connections call it directly (`http_protocol`), and so does the ASGI application, which has everything else (`http`).
"""

from __future__ import annotations

import asyncio
import gzip
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from zoolens.protocol import documents
from zoolens.protocol.datatypes import Buffer
from zoolens.protocol.errors import Refusal, ServingError
from zoolens.protocol.messages import InferRequest, InferResponse
from zoolens.protocol.rest import (
    HEADER_LENGTH,
    Caller,
    decode_request,
    encode_response,
    outputs_as_json,
    parse_header_length,
    raw_request,
)
from zoolens.serving.call import answered_by, caller, unforeseen
from zoolens.serving.contract import DataPlane
from zoolens.serving.options import ServerOptions

INFER_PATH: Final = re.compile(r"/v2/models/(.+?)(?:/versions/([^/]+))?/infer", re.DOTALL)
_LENGTH_FIELD: Final = HEADER_LENGTH.lower()
_DECODE_IN_THREAD: Final = 1 << 18  # bytes of JSON: milliseconds in which the event loop would answer nobody
_ENCODE_IN_THREAD: Final = 1 << 14  # values that are written as JSON
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
    encoding = headers.get("accept-encoding", "")  # a list is what a client could take, not what it wishes
    length = parse_header_length(headers.get(_LENGTH_FIELD))
    return Head(match[1], match[2] or "", length, caller(headers), encoding if encoding in _COMPRESSORS else "")


@dataclass(frozen=True)
class Answer:
    """What goes back. `fields` are headers without the length; `parts` are sent one behind the other."""

    status: int
    fields: Mapping[str, str]
    parts: tuple[Buffer, ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))


class Inference:
    """Answers of one data plane."""

    def __init__(self, plane: DataPlane, options: ServerOptions) -> None:
        self._plane, self._limits = plane, options.limits

    async def answer(self, head: Head, content: Buffer) -> Answer:
        """The answer to a request whose body is here and unpacked. Whatever is wrong becomes an answer, too."""
        try:
            request = await self._request(head, content)
            return await _answer(await self._plane.infer(request), request, head)
        except Exception as error:
            return error_answer(error)

    async def _request(self, head: Head, content: Buffer) -> InferRequest:
        limits, length = self._limits, head.header_length
        if length == 0:
            metadata = self._plane.model_metadata(head.model, head.version)
            return raw_request(metadata, head.version, content, limits, head.caller)
        arguments = (head.model, head.version, content, length, limits, head.caller)
        if (len(content) if length is None else length) > _DECODE_IN_THREAD:
            return await asyncio.to_thread(decode_request, *arguments)
        return decode_request(*arguments)


async def _answer(response: InferResponse, request: InferRequest, head: Head) -> Answer:
    values = sum(response.outputs[name].size for name in outputs_as_json(response, request))
    if values > _ENCODE_IN_THREAD:
        body = await asyncio.to_thread(encode_response, response, request)
    else:
        body = encode_response(response, request)
    fields = {**body.headers, **answered_by(response.parameters)}
    if request.traceparent is not None:
        fields["traceparent"] = request.traceparent
    if not head.encoding:
        return Answer(200, fields, body.parts)
    fields["Content-Encoding"] = head.encoding
    return Answer(200, fields, (await asyncio.to_thread(_COMPRESSORS[head.encoding], body.content()),))


def error_answer(error: Exception) -> Answer:
    """An error as clients of the protocol read it: a status, and one sentence."""
    refused = error if isinstance(error, ServingError) else unforeseen(error)
    fields = {"Content-Type": "application/json"}
    if refused.refusal in _BUSY:
        fields["Retry-After"] = "1"
    if refused.refusal in _UNREAD:
        fields["Connection"] = "close"
    if refused.refusal is Refusal.UNAUTHENTICATED:
        fields["WWW-Authenticate"] = "Bearer"
    return Answer(refused.refusal.http, fields, (documents.error_body(refused),))
