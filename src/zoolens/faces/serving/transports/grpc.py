"""Open Inference Protocol V2 over gRPC before a data plane, with the health service of gRPC.

Messages are parsed here, so that nonsense is answered as an invalid argument.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.grpc_wire import decode_request, encode_streamed, parse, response_parts, split
from zoolens.base.protocol.limits import check_body
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.base.protocol.protobuf import HEALTH, INFERENCE, message, methods
from zoolens.base.protocol.rest import Caller
from zoolens.base.protocol.rest_header import no_shared_memory
from zoolens.faces.serving.contracts.data_plane import CallbackPlane, DataPlane
from zoolens.faces.serving.options import ServerOptions, check_token
from zoolens.faces.serving.transports.bodies import BodyReader, HeldBytes
from zoolens.faces.serving.transports.grpc_call import Call, CallHead, StreamCall, UnaryCall, read_head
from zoolens.faces.serving.transports.grpc_handlers import HANDLERS, Handler
from zoolens.faces.serving.transports.header_blocks import Header
from zoolens.faces.serving.transports.http2 import Connection
from zoolens.faces.serving.transports.http2_stream import Receiver, Stream
from zoolens.faces.serving.transports.request_headers import caller, unforeseen

Unary = Callable[[bytes], Awaitable[bytes]]
Streaming = Callable[[StreamCall], AsyncGenerator[bytes, None]]

_IN_FLIGHT: Final = 64  # requests of one stream that are answered at the same time
_OPEN: Final = frozenset(
    (f"/{INFERENCE}/ServerLive", f"/{INFERENCE}/ServerReady", f"/{HEALTH}/Check", f"/{HEALTH}/Watch")
)
_INFER: Final = f"/{INFERENCE}/ModelInfer"
_DECODE_IN_THREAD: Final = 1 << 18
_FINAL: Final = "triton_final_response"
_WATCH_SECONDS: Final = 1.0
_STOP_LOOK_SECONDS: Final = 0.01
_BACKLOG: Final = 2048
_CALLS: Final = 4  # at a time on all connections, for each connection that there may be


async def start(
    plane: DataPlane,
    options: ServerOptions,
    bodies: BodyReader,
    listening: socket.socket,
    tls: ssl.SSLContext | None = None,
) -> GrpcServer:
    """A server that answers what comes in at this socket."""
    service = _Service(plane, options, bodies)
    if tls is not None:
        tls.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    # Connections are counted when they are made, which with TLS is behind its handshake.
    patience = None if tls is None else options.header_seconds
    server = await loop.create_server(
        partial(Connection, service), sock=listening, ssl=tls, backlog=_BACKLOG,
        ssl_handshake_timeout=patience, ssl_shutdown_timeout=patience,
    )  # fmt: skip
    return GrpcServer(server, service, int(listening.getsockname()[1]))


class GrpcServer:
    """A running server and its port."""

    def __init__(self, server: asyncio.AbstractServer, service: _Service, port: int) -> None:
        self._server, self._service, self.port = server, service, port

    async def stop(self, seconds: float) -> None:
        """Take no more calls, end streams that wait for their client, and give the others this many seconds."""
        service = self._service
        service.closing.set()
        self._server.close()
        for connection in list(service.connections):
            connection.leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while service.connections:
                    await asyncio.sleep(_STOP_LOOK_SECONDS)
        for connection in list(service.connections):
            connection.abort()


class _Service:
    """Implements `zoolens.faces.serving.transports.http2.Application`."""

    def __init__(self, plane: DataPlane, options: ServerOptions, bodies: BodyReader) -> None:
        self._plane, self.options, self._bodies = plane, options, bodies
        self._submit = plane.submit if isinstance(plane, CallbackPlane) else None
        self.closing = asyncio.Event()
        self.heads: dict[bytes, CallHead] = {}
        self.connections: set[Connection] = set()
        self.waiting = self._calls = 0
        self._unary = self._unary_calls()
        self._streaming: dict[str, Streaming] = {
            f"/{INFERENCE}/ModelStreamInfer": self._stream,
            f"/{HEALTH}/Watch": self._watch,
        }

    def _unary_calls(self) -> dict[str, Unary]:
        calls: dict[str, Unary] = {}
        for name, method in methods(INFERENCE).items():
            if name in HANDLERS:
                calls[method.path] = partial(self._handled, method.request, HANDLERS[name])
        for kind in ("System", "Cuda"):
            calls[f"/{INFERENCE}/{kind}SharedMemoryStatus"] = _no_regions
            calls[f"/{INFERENCE}/{kind}SharedMemoryUnregister"] = _nothing
            calls[f"/{INFERENCE}/{kind}SharedMemoryRegister"] = _register
        calls[f"/{HEALTH}/Check"] = self._check
        return calls

    # --- calls

    def head(self, headers: Sequence[Header]) -> tuple[CallHead, bool]:
        """Headers without the token are refused before their message is read, and are not kept. Probes of health need
        none."""
        head = read_head(headers)
        if self.options.token is not None and head.path not in _OPEN:
            try:
                check_token(self.options.token, head.metadata.get("authorization"))
            except ServingError as error:
                head = replace(head, error=error)
        return head, head.error is None and head.http_status == 200

    def open(self, stream: Stream, head: CallHead) -> Receiver:
        self._calls += 1
        rest = (stream, head, self._bodies.hold(), self.options.limits, self._ended)
        if head.path == _INFER and head.error is None and self._calls <= _CALLS * self.options.connections:
            return UnaryCall(*rest, self._infer)
        call: Call
        if head.http_status != 200:
            call = Call(*rest)
            call.refuse_http()
        elif (error := self._problem(head)) is not None:
            call = Call(*rest)
            call.refuse(error)
        elif head.path in self._streaming:
            call = StreamCall(*rest)
            call.run(self._streaming[head.path](call))
        else:
            call = UnaryCall(*rest, self._begin)
        return call

    def _ended(self) -> None:
        self._calls -= 1

    def _problem(self, head: CallHead) -> ServingError | None:
        if head.error is not None:
            return head.error
        if self._calls > _CALLS * self.options.connections:
            return ServingError(Refusal.OVERLOADED, "The server answers as many calls as it may.")
        if head.path not in self._unary and head.path not in self._streaming:
            return ServingError(Refusal.UNSUPPORTED, f"There is no method {head.path[:200]} here.")
        return None

    def _begin(self, call: UnaryCall, compressed: bool, content: bytes) -> None:
        call.task = asyncio.get_running_loop().create_task(self._answer_unary(call, compressed, content))

    async def _answer_unary(self, call: UnaryCall, compressed: bool, content: bytes) -> None:
        try:
            whole = await call.unpacked(content, call.held) if compressed else content
            answer = await self._unary[call.head.path](whole)
        except Exception as error:
            call.refuse(error)
        else:
            call.finish([answer])

    # --- inference

    def _infer(self, call: UnaryCall, compressed: bool, content: bytes) -> None:
        """Without a task, which would take turns of the event loop, where the request and the data plane allow it."""
        if compressed or self._submit is None or _is_long(content):
            call.task = asyncio.get_running_loop().create_task(self._answer_infer(call, compressed, content))
            return
        request = decode_request(content, self.options.limits, call.head.caller)
        call.cancel = self._submit(request, partial(_finish, call))

    async def _answer_infer(self, call: UnaryCall, compressed: bool, content: bytes) -> None:
        try:
            whole = await call.unpacked(content, call.held) if compressed else content
            response = await self._plane.infer(await self._decoded(whole, call.head.caller, call.held))
        except Exception as error:
            call.refuse(error)
        else:
            _finish(call, response)

    async def _decoded(self, content: bytes, known: Caller, held: HeldBytes) -> InferRequest:
        limits = self.options.limits
        if _is_long(content):
            return await held.in_thread(decode_request, content, limits, known)
        return decode_request(content, limits, known)

    async def _stream(self, call: StreamCall) -> AsyncGenerator[bytes, None]:
        """Answers in the order of the requests, several of which are worked on at a time."""
        pending: deque[asyncio.Task[tuple[bytes, int]]] = deque()
        incoming = aiter(call.messages())
        following: asyncio.Task[Any] | None = asyncio.ensure_future(_next(incoming))
        closing = asyncio.ensure_future(self.closing.wait())
        try:
            while following is not None or pending:
                reading = following if len(pending) < _IN_FLIGHT else None
                waiting = {task for task in (reading, closing if reading else None, *list(pending)[:1]) if task}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if reading is not None and reading.done():
                    content = reading.result()
                    following = None if content is None else asyncio.ensure_future(_next(incoming))
                    if content is not None:
                        pending.append(asyncio.ensure_future(self._streamed(content, call)))
                elif closing.done() and following is not None:
                    following.cancel()
                    following = None
                while pending and pending[0].done():
                    answer, counted = pending.popleft().result()
                    if not call.over:
                        call.held.give_back(counted)
                    yield answer
        finally:
            for task in (*pending, closing, *([following] if following else [])):
                task.cancel()

    async def _streamed(self, content: bytes, call: StreamCall) -> tuple[bytes, int]:
        """An answer, which the call holds while the client does not take the one before it, and how much of it counts.
        An error ends its request and not the stream."""
        try:
            with self._bodies.holding() as held:
                held.add(len(content))
                request = await self._decoded(content, caller(call.head.metadata, call.time_left()), held)
                response = await self._plane.infer(request)
            serialised = encode_streamed(replace(response, parameters={**response.parameters, _FINAL: True}))
            if not call.over:
                call.held.add(len(serialised))
            return serialised, len(serialised)
        except Exception as error:
            refused = error if isinstance(error, ServingError) else unforeseen(error)
            answer = message("ModelStreamInferResponse")(error_message=str(refused))
            answer.infer_response.id = _id_of(content)
            answer.infer_response.parameters[_FINAL].bool_param = True
            return answer.SerializeToString(), 0

    # --- everything else

    async def _handled(self, kind: Any, handler: Handler, content: bytes) -> bytes:
        response = await handler(self._plane, self._read(kind, content))
        serialised: bytes = response.SerializeToString()
        return serialised

    async def _check(self, content: bytes) -> bytes:
        request = self._read(methods(HEALTH)["Check"].request, content)
        if request.service not in ("", INFERENCE):
            raise ServingError(Refusal.NOT_FOUND, "There is no such service.")
        return self._health()

    async def _watch(self, _: StreamCall) -> AsyncGenerator[bytes, None]:
        last = b""
        while not self.closing.is_set():
            state = self._health()
            if state != last:
                yield state
                last = state
            with suppress(TimeoutError):
                await asyncio.wait_for(self.closing.wait(), _WATCH_SECONDS)

    def _health(self) -> bytes:
        status = "SERVING" if self._plane.ready() else "NOT_SERVING"
        state: bytes = methods(HEALTH)["Check"].response(status=status).SerializeToString()
        return state

    def _read(self, kind: Any, content: bytes) -> Any:
        check_body(len(content), self.options.limits)
        return parse(kind, content)


def _is_long(content: bytes) -> bool:
    """Whether it has so many values, which are parsed one by one, that other clients would notice."""
    return len(content) > _DECODE_IN_THREAD and split(content) is None


def _finish(call: UnaryCall, result: InferResponse | ServingError) -> None:
    if isinstance(result, ServingError):
        call.refuse(result)
        return
    try:
        parts = response_parts(result)
    except Exception as error:
        call.refuse(error)
    else:
        call.finish(parts, call.head.caller.traceparent)


# Shared memory: there is none. Requests and answers stay bytes: an empty message is an empty answer of each kind.


async def _no_regions(content: bytes) -> bytes:
    if content:  # the name of a region
        raise ServingError(Refusal.INVALID, "There is no such region of shared memory here.")
    return b""


async def _nothing(_: bytes) -> bytes:
    return b""


async def _register(_: bytes) -> bytes:
    raise no_shared_memory()


async def _next(contents: AsyncIterator[bytes]) -> bytes | None:
    return await anext(contents, None)


def _id_of(content: bytes) -> str:
    from google.protobuf.message import DecodeError

    try:
        return str(message("ModelInferRequest").FromString(content).id)[:4096]
    except DecodeError:
        return ""
