"""The protocol over HTTP, as a client: one connection that is kept open, binary tensors where the server has them."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol import json_text
from zoolens.base.protocol.address import Address
from zoolens.base.protocol.client_base import ANSWER_LIMITS, BINARY, Client
from zoolens.base.protocol.documents import error_from, model_from_data, repository_from_data, server_from_data
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, InferResponse, ModelMetadata, RepositoryEntry, ServerMetadata
from zoolens.base.protocol.rest import HEADER_LENGTH, decode_response, encode_request, parse_header_length

_PIECE: Final = 1 << 20


class RestClient(Client):
    def __init__(self, address: Address, token: str, seconds: float) -> None:
        self.address = address
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._seconds = seconds
        self._connection: http.client.HTTPConnection | None = None

    def server(self) -> ServerMetadata:
        return self._server

    @cached_property
    def _server(self) -> ServerMetadata:
        return server_from_data(self._document("GET", self.address.path()))

    def model(self, model: str, version: str = "") -> ModelMetadata:
        return model_from_data(self._document("GET", self.address.at(model, version).model_path()))

    def config(self, model: str, version: str = "") -> Mapping[str, Any]:
        return self._document("GET", self.address.at(model, version).model_path("config"))

    def repository(self) -> list[RepositoryEntry]:
        content, _ = self._ask("POST", self.address.path("repository", "index"), [b"{}"], _JSON)
        # The index is a list, where all other documents are objects.
        return repository_from_data(json_text.parse_object(b'{"models": %b}' % content, ANSWER_LIMITS)["models"])

    def infer(self, request: InferRequest) -> InferResponse:
        binary = BINARY in self._server.extensions
        if binary:
            request = replace(request, parameters={**request.parameters, "binary_data_output": True})
        body = encode_request(request, binary=binary)
        path = self.address.at(request.model, request.version).model_path("infer")
        trace = {"traceparent": request.traceparent} if request.traceparent else {}
        content, headers = self._ask("POST", path, body.parts, {**body.headers, **trace})
        return decode_response(content, parse_header_length(headers.get(HEADER_LENGTH)), ANSWER_LIMITS)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # --- one exchange

    def _document(self, method: str, path: str) -> dict[str, Any]:
        content, _ = self._ask(method, path, (), {})
        return json_text.parse_object(content, ANSWER_LIMITS)

    def _ask(self, method: str, path: str, parts: Any, headers: dict[str, str]) -> tuple[bytes, Any]:
        kept_open = self._connection is not None
        try:
            try:
                return self._exchange(method, path, parts, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.close()
                if not kept_open:
                    raise
                # The server had closed the connection since the last answer, as it may: a new one is no second try.
                return self._exchange(method, path, parts, headers)
        except TimeoutError as error:
            self.close()
            raise ZoolensError(f"{self.address} did not answer within {self._seconds:g} s.") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise _unreachable(self.address, error) from error

    def _exchange(self, method: str, path: str, parts: Any, headers: dict[str, str]) -> tuple[bytes, Any]:
        connection = self._connection or self._connect()
        length = {"Content-Length": str(sum(map(len, parts)))} if method == "POST" else {}
        connection.request(method, path, iter(parts) if parts else None, {**self._headers, **headers, **length})
        answer = connection.getresponse()
        content = _read(answer, self.address)
        if answer.will_close:
            self.close()
        if answer.status != http.client.OK:
            raise error_from(answer.status, content)
        return content, answer.headers

    def _connect(self) -> http.client.HTTPConnection:
        if self.address.secure:
            context = ssl.create_default_context()
            self._connection = http.client.HTTPSConnection(
                self.address.host, self.address.port, timeout=self._seconds, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=self._seconds)
        self._connection.connect()
        # Head and tensors are sent one after the other: the second must not wait until the first is acknowledged.
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._connection


_JSON: Final = {"Content-Type": "application/json"}


def _read(answer: http.client.HTTPResponse, address: Address) -> bytes:
    content = bytearray()
    while piece := answer.read(_PIECE):
        content += piece
        if len(content) > ANSWER_LIMITS.body_bytes:
            raise ServingError(
                Refusal.TOO_LARGE, f"{address} answers with more than {ANSWER_LIMITS.body_bytes:,} bytes."
            )
    return bytes(content)


def _unreachable(address: Address, error: Exception) -> ZoolensError:
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        reason = "the connection was closed before the answer"
    elif isinstance(error, http.client.HTTPException):
        reason = f"what answers there does not speak HTTP ({type(error).__name__})"
    else:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return ZoolensError(f"No answer from {address}: {reason}.", hint="Is the server running, and is the address right?")
