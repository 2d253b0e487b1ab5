"""Calls of gRPC on streams of HTTP/2: their headers, the messages in their data, and the status behind an answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from zoolens.base.protocol.datatypes import Buffer
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.limits import Limits, check_body, invalid
from zoolens.base.protocol.rest import NOBODY, Caller
from zoolens.faces.serving.transports.bodies import UNPACK_IN_THREAD, HeldBytes, unpack
from zoolens.faces.serving.transports.grpc_framing import PREFIX, Messages
from zoolens.faces.serving.transports.header_blocks import Header, encode_headers
from zoolens.faces.serving.transports.http2_stream import Stream
from zoolens.faces.serving.transports.request_headers import caller, traceparent, unforeseen

_STATUSES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
_LONGEST_ERROR: Final = 1000  # characters: it is a header, and clients limit those
_PRINTABLE: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_TIMEOUT: Final = re.compile(r"(\d{1,8})([HMSmun])", re.ASCII)
_NAME: Final = re.compile(r":?[!#$%&'*+.^_`|~0-9a-z-]+")
_UNSPEAKABLE: Final = re.compile(r"[\0\r\n]")
_CONTENT_TYPE: Final = re.compile(r"application/grpc([+;].*)?")  # not grpc-web, which is framed in another way
_UNITS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_ENCODINGS: Final = frozenset({"gzip", "deflate"})
_OF_TRANSPORT: Final = ("te", "content-type")
_BEGINNING: Final = (
    (":status", "200"), ("content-type", "application/grpc"), ("grpc-accept-encoding", "identity,deflate,gzip"),
)  # fmt: skip
_BEGIN: Final = encode_headers(_BEGINNING)
_DONE: Final = encode_headers([("grpc-status", "0")])
_MOST_BUFFERED: Final = 1 << 20  # bytes of complete messages of a stream that nobody has taken


@dataclass(frozen=True)
class CallHead:
    """What the headers of a call say. It may be shared by many calls. `timeout` is in seconds; `caller` has it, too.
    `http_status`: this is no call of gRPC, and is answered with this status. `error` answers any other."""

    path: str
    metadata: Mapping[str, str]
    timeout: float | None = None
    encoding: str = ""
    caller: Caller = NOBODY
    http_status: int = 200
    error: ServingError | None = None


def read_head(headers: Sequence[Header]) -> CallHead:
    """Metadata in bytes (names that end with -bin) is left out; of values of the same name the last counts."""
    fields = dict(headers)
    path = fields.get(":path", "")
    if not _well_formed(headers):
        return CallHead(path, {}, http_status=400)
    if fields.get(":method") != "POST":
        return CallHead(path, {}, http_status=405)
    if not _CONTENT_TYPE.fullmatch(fields.get("content-type", "")):
        return CallHead(path, {}, http_status=415)
    metadata = {name: value for name, value in fields.items() if _is_metadata(name)}
    try:
        timeout = _seconds(fields.get("grpc-timeout"))
        said = caller(metadata, timeout)
    except ServingError as error:
        return CallHead(path, metadata, error=error)
    return CallHead(path, metadata, timeout, fields.get("grpc-encoding", "identity"), said)


def _well_formed(headers: Sequence[Header]) -> bool:
    """Whether everybody who reads them reads the same (RFC 9113, 8.2 and 8.3)."""
    own = [name for name, _ in headers if name.startswith(":")]
    return (
        len(set(own)) == len(own)
        and own == [name for name, _ in headers[: len(own)]]
        and all(_NAME.fullmatch(name) and not _UNSPEAKABLE.search(value) for name, value in headers)
    )


def _is_metadata(name: str) -> bool:
    return not (name.startswith((":", "grpc-")) or name.endswith("-bin") or name in _OF_TRANSPORT)


def _seconds(timeout: str | None) -> float | None:
    if timeout is None:
        return None
    match = _TIMEOUT.fullmatch(timeout)
    if match is None:
        raise invalid("The timeout of the call is not one of gRPC.")
    return int(match[1]) * _UNITS[match[2]]


class Call:
    """One call and how it is answered: with messages and a status, or an error. `held` are the bytes that it holds;
    `ended` is called once when the call has."""

    # Attributes of the class are what most calls leave as it is: to set them for each would take longer.
    _begun = over = False
    cancel: Callable[[], object] | None = None
    task: asyncio.Task[None] | None = None

    def __init__(
        self, stream: Stream, head: CallHead, held: HeldBytes, limits: Limits, ended: Callable[[], None]
    ) -> None:
        self.stream, self.head, self.held, self.limits = stream, head, held, limits
        self._ended = ended

    # --- its answer

    def write(self, parts: Sequence[Buffer]) -> None:
        """Send a message; others may follow."""
        if not self.over:
            prefix = PREFIX.pack(0, sum(map(len, parts)))
            self.stream.send(None if self._begun else _BEGIN, [prefix, *parts], None)
            self._begun = True

    def finish(self, parts: Sequence[Buffer] | None = None, trace: str | None = None) -> None:
        """Send the last message, if there is one, and that all is well."""
        if self.over:
            return
        self._release()
        sent = () if parts is None else (PREFIX.pack(0, sum(map(len, parts))), *parts)
        trailers = _DONE if trace is None else encode_headers([("grpc-status", "0"), ("traceparent", trace)])
        self.stream.send(None if self._begun else _BEGIN, sent, trailers)

    def refuse(self, error: Exception) -> None:
        """Say why there is no answer, or no more of it."""
        if self.over:
            return
        self._release()
        refused = error if isinstance(error, ServingError) else unforeseen(error)
        trailers = status_headers(refused.refusal.grpc, str(refused)[:_LONGEST_ERROR])
        self.stream.send(None, (), encode_headers(trailers if self._begun else (*_BEGINNING, *trailers)))

    def refuse_http(self) -> None:
        """Answer what is no call of gRPC."""
        self._release()
        self.stream.send(None, (), encode_headers([(":status", str(self.head.http_status))]))

    @property
    def trace(self) -> str | None:
        return traceparent(self.head.metadata)

    def _release(self) -> None:
        self.over = True
        self.held.release()
        self._ended()

    # --- what its stream tells it

    def received(self, chunk: memoryview, ended: bool) -> None:
        raise NotImplementedError

    def lost(self) -> None:
        if self.over:
            return
        self._release()
        if self.cancel is not None:
            self.cancel()
        if self.task is not None:
            self.task.cancel()

    def too_slow(self) -> None:
        self.refuse(ServingError(Refusal.TOO_SLOW, "The message of the call did not arrive in time."))

    # --- compression

    def check_compression(self) -> None:
        encoding = self.head.encoding
        if encoding not in _ENCODINGS:
            raise ServingError(
                Refusal.UNSUPPORTED,
                f"Messages with the encoding {encoding[:40]!r} are not unpacked; gzip and deflate are.",
            )

    async def unpacked(self, content: bytes, held: HeldBytes) -> bytes:
        self.check_compression()
        encoding, most = self.head.encoding, self.limits.body_bytes
        if len(content) > UNPACK_IN_THREAD:
            whole = await held.in_thread(unpack, content, encoding, most)
        else:
            whole = unpack(content, encoding, most)
        held.add(len(whole))
        return whole


class UnaryCall(Call):
    """A call with one message, which `begin` is given when it is here: whether it is compressed, and its content."""

    _messages: Messages | None = None

    def __init__(
        self,
        stream: Stream,
        head: CallHead,
        held: HeldBytes,
        limits: Limits,
        ended: Callable[[], None],
        begin: Callable[[UnaryCall, bool, bytes], None],
    ) -> None:
        super().__init__(stream, head, held, limits, ended)
        self._begin = begin
        self._since = stream.reading_since = asyncio.get_running_loop().time()

    def received(self, chunk: memoryview, ended: bool) -> None:
        if self.over or self.cancel is not None or self.task is not None:
            return
        try:
            self.held.add(len(chunk))
            if ended and self._messages is None and len(chunk) >= PREFIX.size:
                compressed, length = PREFIX.unpack_from(chunk)
                # Most messages arrive in one piece.
                if not compressed and length == len(chunk) - PREFIX.size:
                    check_body(length, self.limits)
                    self.stream.reading_since = None
                    self._begin(self, False, bytes(chunk[PREFIX.size :]))
                    return
            self._collect(chunk, ended)
        except Exception as error:
            self.refuse(error)

    def _collect(self, chunk: memoryview, ended: bool) -> None:
        messages = self._messages
        if messages is None:
            messages = self._messages = Messages(self.limits)
        messages.add(chunk)
        complete = messages.complete()
        if not ended:
            return
        if not complete:
            raise invalid("The call ended before its message was complete.")
        compressed, content = messages.take()
        if messages.buffered:
            raise invalid("There is more than one message in a call that takes one.")
        self.stream.reading_since = None
        waited = asyncio.get_running_loop().time() - self._since
        if self.head.timeout is not None:
            said = caller(self.head.metadata, self.head.timeout - waited)
            self.head = replace(self.head, caller=said)
        self._begin(self, compressed, content)


class StreamCall(Call):
    """A call with messages on both sides. `messages` gives those of the client; whoever takes them slowly holds the
    client back."""

    def __init__(
        self, stream: Stream, head: CallHead, held: HeldBytes, limits: Limits, ended: Callable[[], None]
    ) -> None:
        super().__init__(stream, head, held, limits, ended)
        self._messages = Messages(limits)
        self._all_here = False
        self._arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._now = loop.time
        self._deadline = None if head.timeout is None else loop.time() + head.timeout
        self._timer = None if head.timeout is None else loop.call_later(head.timeout, self._expire)

    def run(self, answers: AsyncGenerator[bytes, None]) -> None:
        """Send these messages, and the status when they end."""
        self.task = asyncio.get_running_loop().create_task(self._run(answers))

    async def _run(self, answers: AsyncGenerator[bytes, None]) -> None:
        try:
            async with aclosing(answers):
                async for content in answers:
                    self.write([content])
                    await self.stream.drained()
        except Exception as error:
            self.refuse(error)
        else:
            self.finish()

    def _expire(self) -> None:
        self._give_up(ServingError(Refusal.TOO_LATE, "The deadline of the call has passed."))

    def too_slow(self) -> None:
        super().too_slow()
        self._stop()

    def _give_up(self, error: Exception) -> None:
        self.refuse(error)
        self._stop()

    def _stop(self) -> None:
        """Nobody waits for its answers any more, and its task may wait for messages that never come."""
        if self.task is not None:
            self.task.cancel()

    def _release(self) -> None:
        super()._release()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None  # it knows this call

    def time_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - self._now()

    def received(self, chunk: memoryview, ended: bool) -> None:
        if self.over:
            return
        try:
            self.held.add(len(chunk))
            self._messages.add(chunk)
            complete = self._messages.complete()
        except Exception as error:
            self._give_up(error)
            return
        self._all_here = ended
        incomplete = self._messages.incomplete and not complete
        if not incomplete:
            self.stream.reading_since = None
        elif self.stream.reading_since is None:
            self.stream.reading_since = self._now()
        self.stream.held_back = complete and self._messages.buffered > _MOST_BUFFERED
        self._arrived.set()

    async def messages(self) -> AsyncIterator[bytes]:
        while True:
            if self._messages.complete():
                compressed, content = self._messages.take()
                self._let_more_come(PREFIX.size + len(content))
                yield await self._unpacked(content) if compressed else content
            elif not self._all_here:
                self._arrived.clear()
                await self._arrived.wait()
            elif self._messages.incomplete:
                raise invalid("The call ended before its message was complete.")
            else:
                return

    async def _unpacked(self, content: bytes) -> bytes:
        """Whoever answers it counts what it holds."""
        held = self.held.another()
        try:
            held.add(len(content))
            return await self.unpacked(content, held)
        finally:
            held.release()

    def _let_more_come(self, taken: int) -> None:
        if self.over:
            return
        self.held.give_back(taken)
        complete = self._messages.complete()
        if self._messages.incomplete and not complete and self.stream.reading_since is None:
            self.stream.reading_since = self._now()
        if self.stream.held_back and self._messages.buffered <= _MOST_BUFFERED:
            self.stream.held_back = False
            self.stream.give_room()


@lru_cache(256)
def status_headers(status: str, message: str) -> tuple[Header, ...]:
    return ("grpc-status", str(_STATUSES.index(status))), ("grpc-message", quote(message, safe=_PRINTABLE))
