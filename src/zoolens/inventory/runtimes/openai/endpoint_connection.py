"""One exchange of JSON with a stranger's server: bounded in time and size, and never redirected."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.safety.untrusted import parse_json
from zoolens.inventory.runtimes.openai.endpoint_address import EndpointAddress

KEY: Final = "ZOOLENS_OPENAI_KEY"
OPENAI_KEY: Final = "OPENAI_API_KEY"
_OPENAI: Final = "api.openai.com"
SECONDS: Final = 60.0
_SMALL: Final = 1 << 20  # bytes of an answer without log-probabilities
_PIECE: Final = 1 << 16
_MESSAGE: Final = 300  # characters of what a server says of an error
_REFUSED: Final = (400, 422)
_LEAST_KEY: Final = 8  # characters; servers that want no key are given words such as EMPTY, which are no secret


class EndpointRefusal(ZoolensError):
    """The server answered with an error of its own. `status`: that of HTTP."""

    def __init__(self, message: str, status: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status

    @property
    def of_request(self) -> bool:
        """Whether the server does not take what was asked, rather than asking at all."""
        return self.status in _REFUSED


def key_for(address: EndpointAddress) -> str:
    """The key that the user has set for this address, or nothing.

    OPENAI_API_KEY is in many people's environment and goes to OpenAI alone: another server is a stranger.
    """
    key = os.environ.get(KEY, "").strip()
    if not key and address.host == _OPENAI:
        key = os.environ.get(OPENAI_KEY, "").strip()
    if not key:
        return ""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ZoolensError(f"What {KEY} holds cannot be a key: it has characters that no header may have.")
    if not address.secure and not address.is_local:
        raise ZoolensError(
            f"The key would travel to {address.host} unencrypted.", hint=f"Use https://, or unset {KEY}."
        )
    return key


class EndpointConnection:
    """Asks one server. It belongs to one thread; each exchange has a connection of its own."""

    def __init__(self, address: EndpointAddress, seconds: float = SECONDS) -> None:
        self.address = address
        self.seconds = seconds
        self._key = key_for(address)

    def get(self, path: str) -> Mapping[str, Any]:
        return self._document("GET", path, None, _SMALL)

    def post(self, path: str, body: Mapping[str, Any], most: int = _SMALL) -> Mapping[str, Any]:
        """`most`: bytes of the answer that are read; what was asked for bounds what an honest server sends."""
        return self._document("POST", path, json.dumps(body).encode(), most)

    def _document(self, method: str, path: str, body: bytes | None, most: int) -> Mapping[str, Any]:
        status, kind, content = self._exchange(method, path, body, most)
        if 300 <= status < 400:
            raise EndpointRefusal(
                f"{self.address} sends elsewhere (status {status}), which is not followed.",
                status,
                hint="Give the address that it sends to, if you trust it.",
            )
        if status != http.client.OK:
            raise EndpointRefusal(f"{self.address} answers with status {status}: {self._said(content)}.", status)
        if "event-stream" in kind:
            raise ZoolensError(f"{self.address} streams its answer, which it was not asked to do.")
        try:
            document = parse_json(content)
        except ValueError as error:
            raise ZoolensError(f"{self.address} answers with something that is no JSON: {error}.") from error
        if not isinstance(document, dict):
            raise ZoolensError(f"{self.address} answers with JSON that is no object.")
        if "error" in document and "choices" not in document:
            raise ZoolensError(f"{self.address} answers with an error: {self._said(content)}.")
        # Answers are shown and stored. To cut the key out of a token would make another token of it.
        if len(self._key) >= _LEAST_KEY and json.dumps(self._key)[1:-1] in json.dumps(document):
            raise ZoolensError(f"{self.address} repeats the key in its answer, which is therefore not used.")
        return document

    def _exchange(self, method: str, path: str, body: bytes | None, most: int) -> tuple[int, str, bytes]:
        deadline = time.monotonic() + self.seconds
        connection = self._connection()
        # A timeout of a socket is for one read: a server that sends a byte now and then would never be over.
        watch = threading.Timer(self.seconds, _shut, (connection, held := []))
        watch.daemon = True
        watch.start()
        try:
            connection.connect()
            held.append(connection.sock)
            connection.request(method, self.address.base + path, body, self._headers(body is not None))
            answer = connection.getresponse()
            content = _read(answer, most)
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() >= deadline or isinstance(error, TimeoutError):
                raise self._late() from error
            raise self._unreachable(error) from error
        finally:
            watch.cancel()
            connection.close()
        if time.monotonic() >= deadline:
            raise self._late()
        if len(content) > most:
            raise ZoolensError(f"{self.address} answers with more than the {most:,} bytes that were asked for.")
        return answer.status, answer.headers.get("Content-Type", ""), content

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self.address.host, self.address.port
        if not self.address.secure:
            return http.client.HTTPConnection(host, port, timeout=self.seconds)
        return http.client.HTTPSConnection(host, port, timeout=self.seconds, context=ssl.create_default_context())

    def _headers(self, sends: bool) -> dict[str, str]:
        content = {"Content-Type": "application/json"} if sends else {}
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return {"Accept": "application/json", "Connection": "close", **content, **key}

    def _said(self, content: bytes) -> str:
        """What a server says of an error, in one line and without the key, which it may repeat."""
        said: Any = content.decode(errors="replace")
        with suppress(ValueError, AttributeError):
            document = parse_json(content)
            error = document.get("error", document)
            said = error.get("message", said) if isinstance(error, dict) else error
        line = " ".join("".join(sign if sign.isprintable() else " " for sign in str(said)).split())
        if self._key:
            line = line.replace(self._key, "***")
        return (line[:_MESSAGE] or "it says nothing").rstrip(".")

    def _late(self) -> ZoolensError:
        return ZoolensError(f"{self.address} did not answer within {self.seconds:g} s.")

    def _unreachable(self, error: Exception) -> ZoolensError:
        if isinstance(error, ConnectionResetError | BrokenPipeError | http.client.RemoteDisconnected):
            reason = "the connection was closed before the answer"
        elif isinstance(error, http.client.IncompleteRead):
            reason = "the answer was cut off"
        elif isinstance(error, http.client.HTTPException):
            reason = f"what answers there does not speak HTTP ({type(error).__name__})"
        else:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ZoolensError(
            f"No answer from {self.address}: {reason}.", hint="Is the server running, and is the address right?"
        )


def _read(answer: http.client.HTTPResponse, most: int) -> bytes:
    """The answer's content, or a little more than `most` bytes of it."""
    content = bytearray()
    while len(content) <= most and (piece := answer.read(_PIECE)):
        content += piece
    return bytes(content)


def _shut(connection: http.client.HTTPConnection, held: list[socket.socket]) -> None:
    for one in [*held, connection.sock]:  # the connection lets go of its socket when an answer begins
        if one is not None:
            with suppress(OSError):
                socket.socket.shutdown(one, socket.SHUT_RDWR)
