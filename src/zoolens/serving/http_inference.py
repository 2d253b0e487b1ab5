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
from zoolens.protocol.rest import HEADER_LENGTH, decode_request, encode_response, parse_header_length, raw_request
from zoolens.serving.call import answered_by, unforeseen, with_headers
from zoolens.serving.contract import DataPlane
from zoolens.serving.options import ServerOptions

INFER_PATH: Final = re.compile(r"/v2/models/(.+?)(?:/versions/([^/]+))?/infer", re.DOTALL)
_LENGTH_FIELD: Final = HEADER_LENGTH.lower()
_DECODE_IN_THREAD: Final = 1 << 18  # bytes of JSON: milliseconds in which the event loop would answer nobody
_BUSY: Final = frozenset({Refusal.OVERLOADED, Refusal.UNAVAILABLE})
_UNREAD: Final = frozenset({Refusal.TOO_LARGE, Refusal.TOO_SLOW, Refusal.UNAUTHENTICATED, Refusal.FORBIDDEN})
_COMPRESSORS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": lambda content: gzip.compress(content, 1),
    "deflate": lambda content: zlib.compress(content, 1),
}


@dataclass(frozen=True)
class Answer:
    """What goes back. `fields` are headers without the length; `parts` are sent one behind the other."""

    status: int
    fields: Mapping[str, str]
    parts: tuple[Buffer, ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))


class Inference:
    """Answers of one data plane. The names of headers are in small letters."""

    def __init__(self, plane: DataPlane, options: ServerOptions) -> None:
        self._plane, self._limits = plane, options.limits

    async def answer(self, model: str, version: str, headers: Mapping[str, str], content: Buffer) -> Answer:
        """The answer to a request whose body is here and unpacked. Whatever is wrong becomes an answer, too."""
        try:
            request = with_headers(await self._request(model, version, headers, content), headers)
            return await _answer(await self._plane.infer(request), request, headers)
        except Exception as error:
            return error_answer(error)

    async def _request(self, model: str, version: str, headers: Mapping[str, str], content: Buffer) -> InferRequest:
        header_length = parse_header_length(headers.get(_LENGTH_FIELD))
        if header_length == 0:
            return raw_request(self._plane.model_metadata(model, version), version, content, self._limits)
        if (len(content) if header_length is None else header_length) > _DECODE_IN_THREAD:
            return await asyncio.to_thread(decode_request, model, version, content, header_length, self._limits)
        return decode_request(model, version, content, header_length, self._limits)


async def _answer(response: InferResponse, request: InferRequest, headers: Mapping[str, str]) -> Answer:
    body = encode_response(response, request)
    parts: tuple[Buffer, ...] = body.parts
    fields = {**body.headers, **answered_by(response)}
    compress = _COMPRESSORS.get(headers.get("accept-encoding", ""))  # a list is what a client could take, not a wish
    if compress is not None:
        fields["Content-Encoding"] = headers["accept-encoding"]
        parts = (await asyncio.to_thread(compress, body.content()),)
    if request.traceparent is not None:
        fields["traceparent"] = request.traceparent
    return Answer(200, fields, parts)


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


def aligned_offset(headers: Mapping[str, str]) -> int:
    """Where in the body its first binary tensor begins; 0 where the header does not say."""
    length = headers.get(_LENGTH_FIELD, "")
    return int(length) if length.isdecimal() and len(length) < len(str(1 << 62)) else 0
