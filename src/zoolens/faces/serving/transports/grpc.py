"""Open Inference Protocol V2 over gRPC: a grpc.aio server before a data plane, with the health service of gRPC.

Messages are parsed here and not by grpc, so that nonsense is answered as an invalid argument.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import grpc
import grpc.aio

from zoolens.base.protocol import documents
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.grpc_wire import decode_request, encode_response, encode_streamed, parse, split
from zoolens.base.protocol.limits import check_body, invalid
from zoolens.base.protocol.messages import InferResponse
from zoolens.base.protocol.protobuf import HEALTH, INFERENCE, Method, message, methods
from zoolens.base.protocol.rest_header import no_shared_memory
from zoolens.faces.serving.contracts.data_plane import DataPlane
from zoolens.faces.serving.options import ServerOptions, check_token
from zoolens.faces.serving.transports.bodies import BodyReader
from zoolens.faces.serving.transports.request_headers import caller, traceparent, unforeseen

Context = Any  # grpc.aio.ServicerContext, which is generic in two types that nobody here knows
Handler = Callable[[DataPlane, Any], Awaitable[Any]]

_IN_FLIGHT: Final = 64  # requests of one stream that are answered at the same time
_OPEN: Final = frozenset(
    (f"/{INFERENCE}/ServerLive", f"/{INFERENCE}/ServerReady", f"/{HEALTH}/Check", f"/{HEALTH}/Watch")
)
_DECODE_IN_THREAD: Final = 1 << 18
_LONGEST_ERROR: Final = 1000  # gRPC sends it as metadata, which has a limit of its own
_FINAL: Final = "triton_final_response"
_WATCH_SECONDS: Final = 1.0
_OVERHEAD: Final = 1 << 16  # what names and shapes may add to the tensors' bytes


async def start(plane: DataPlane, options: ServerOptions, bodies: BodyReader) -> GrpcServer:
    """A server that answers. OSError where it cannot listen."""
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", options.limits.body_bytes + _OVERHEAD),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", 1 << 16),
            # Otherwise a second server would share the port instead of failing.
            ("grpc.so_reuseport", 0),
            ("grpc.max_connection_idle_ms", int(options.idle_seconds * 1000)),
            ("grpc.max_concurrent_streams", options.connections),
        ],
        maximum_concurrent_rpcs=options.connections * 4,
    )
    service = _Service(plane, options, bodies)
    server.add_generic_rpc_handlers((_Handlers(options.token, {**service.inference(), **service.health()}),))
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"{host}:{options.grpc_port}"
    try:
        if options.tls is None:
            port = server.add_insecure_port(address)
        else:
            certificate, key = options.tls.contents()
            port = server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
    except RuntimeError:
        port = 0
    if not port:
        raise OSError(f"{address} is in use, is not an address of this machine, or its certificate cannot be used")
    await server.start()
    return GrpcServer(server, service, port)


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the handler of a call, and refuses one without the token before its messages are read. Probes of health
    need none."""

    # An interceptor would do the same, and cost each call another turn of the event loop.

    def __init__(self, token: str | None, handlers: Mapping[str, Any]) -> None:
        self._token, self._handlers = token, handlers

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method
        if self._token is not None and method not in _OPEN:
            headers = dict(handler_call_details.invocation_metadata or ())
            try:
                check_token(self._token, headers.get("authorization"))
            except ServingError as error:
                return grpc.stream_stream_rpc_method_handler(_refusing(error))  # which reads nothing by itself
        return self._handlers.get(method)


def _refusing(error: ServingError) -> Callable[[Any, Context], Awaitable[None]]:
    async def refuse(_: Any, context: Context) -> None:
        await _refuse(context, error)

    return refuse


class GrpcServer:
    """A running server and its port."""

    def __init__(self, server: grpc.aio.Server, service: _Service, port: int) -> None:
        self._server, self._service, self.port = server, service, port

    async def stop(self, seconds: float) -> None:
        """Take no more calls, end streams that wait for their client, and give the others this many seconds."""
        self._service.closing.set()
        await self._server.stop(seconds)


class _Service:
    def __init__(self, plane: DataPlane, options: ServerOptions, bodies: BodyReader) -> None:
        self._plane, self._options, self._bodies = plane, options, bodies
        self.closing = asyncio.Event()

    def inference(self) -> dict[str, Any]:
        handlers = {}
        for name, method in methods(INFERENCE).items():
            if name == "ModelStreamInfer":
                handlers[method.path] = grpc.stream_stream_rpc_method_handler(self._stream)
            elif name == "ModelInfer":
                handlers[method.path] = grpc.unary_unary_rpc_method_handler(self._infer)
            else:
                handlers[method.path] = grpc.unary_unary_rpc_method_handler(self._unary(method, _HANDLERS[name]))
        for kind in ("System", "Cuda"):
            for call, answer in (("Status", _no_regions), ("Unregister", _nothing), ("Register", _register)):
                path = f"/{INFERENCE}/{kind}SharedMemory{call}"
                handlers[path] = grpc.unary_unary_rpc_method_handler(answer)
        return handlers

    def health(self) -> dict[str, Any]:
        return {
            f"/{HEALTH}/Check": grpc.unary_unary_rpc_method_handler(self._check),
            f"/{HEALTH}/Watch": grpc.unary_stream_rpc_method_handler(self._watch),
        }

    # --- inference

    async def _infer(self, content: bytes, context: Context) -> bytes:
        headers = _headers(context)
        try:
            serialised = encode_response(await self._answer(content, headers, context.time_remaining()))
        except Exception as error:
            return await _refuse(context, error)
        if (trace := traceparent(headers)) is not None:
            context.set_trailing_metadata((("traceparent", trace),))
        return serialised

    async def _answer(self, content: bytes, headers: Mapping[str, str], remaining: float | None) -> InferResponse:
        limits = self._options.limits
        check_body(len(content), limits)
        with self._bodies.holding() as held:
            held.add(len(content))
            known = caller(headers, remaining)
            if len(content) > _DECODE_IN_THREAD and split(content) is None:  # its values are parsed one by one
                request = await asyncio.to_thread(decode_request, content, limits, known)
            else:
                request = decode_request(content, limits, known)
            return await self._plane.infer(request)

    async def _stream(self, contents: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        """Answers in the order of the requests, several of which are worked on at a time."""
        headers = _headers(context)
        pending: deque[asyncio.Task[bytes]] = deque()
        incoming = aiter(contents)
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
                        pending.append(asyncio.ensure_future(self._streamed(content, headers, context)))
                elif closing.done() and following is not None:
                    following.cancel()
                    following = None
                while pending and pending[0].done():
                    yield pending.popleft().result()
        finally:
            for task in (*pending, closing, *([following] if following else [])):
                task.cancel()

    async def _streamed(self, content: bytes, headers: Mapping[str, str], context: Context) -> bytes:
        """An error ends its request and not the stream."""
        try:
            response = await self._answer(content, headers, context.time_remaining())
            return encode_streamed(replace(response, parameters={**response.parameters, _FINAL: True}))
        except Exception as error:
            refused = error if isinstance(error, ServingError) else unforeseen(error)
            answer = message("ModelStreamInferResponse")(error_message=str(refused))
            answer.infer_response.id = _id_of(content)
            answer.infer_response.parameters[_FINAL].bool_param = True
            serialised: bytes = answer.SerializeToString()
            return serialised

    # --- everything else

    def _unary(self, method: Method, handler: Handler) -> Callable[[bytes, Context], Awaitable[bytes]]:
        async def answer(content: bytes, context: Context) -> bytes:
            try:
                response = await handler(self._plane, self._read(method.request, content))
                serialised: bytes = response.SerializeToString()
            except Exception as error:
                return await _refuse(context, error)
            return serialised

        return answer

    async def _check(self, content: bytes, context: Context) -> bytes:
        method = methods(HEALTH)["Check"]
        try:
            request = self._read(method.request, content)
        except ServingError as error:
            return await _refuse(context, error)
        if request.service not in ("", INFERENCE):
            await context.abort(grpc.StatusCode.NOT_FOUND, "There is no such service.")
        return self._health(method)

    async def _watch(self, _: bytes, context: Context) -> AsyncIterator[bytes]:
        method = methods(HEALTH)["Watch"]
        last = b""
        while not context.cancelled() and not self.closing.is_set():
            state = self._health(method)
            if state != last:
                yield state
                last = state
            with suppress(TimeoutError):
                await asyncio.wait_for(self.closing.wait(), _WATCH_SECONDS)

    def _health(self, method: Method) -> bytes:
        state: bytes = method.response(status="SERVING" if self._plane.ready() else "NOT_SERVING").SerializeToString()
        return state

    def _read(self, kind: Any, content: bytes) -> Any:
        check_body(len(content), self._options.limits)
        return parse(kind, content)


# Shared memory: there is none. Requests and answers stay bytes: an empty message is an empty answer of each kind.


async def _no_regions(content: bytes, context: Context) -> bytes:
    if content:  # the name of a region
        await _refuse(context, ServingError(Refusal.INVALID, "There is no such region of shared memory here."))
    return b""


async def _nothing(_: bytes, __: Context) -> bytes:
    return b""


async def _register(_: bytes, context: Context) -> bytes:
    return await _refuse(context, no_shared_memory())


async def _next(contents: AsyncIterator[bytes]) -> bytes | None:
    return await anext(contents, None)


def _headers(context: Context) -> dict[str, str]:
    return {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}


def _id_of(content: bytes) -> str:
    from google.protobuf.message import DecodeError

    try:
        return str(message("ModelInferRequest").FromString(content).id)[:4096]
    except DecodeError:
        return ""


async def _refuse(context: Context, error: Exception) -> bytes:
    refused = error if isinstance(error, ServingError) else unforeseen(error)
    await context.abort(getattr(grpc.StatusCode, refused.refusal.grpc), str(refused)[:_LONGEST_ERROR])
    raise AssertionError("abort raises")


# --- one function for each call that is no inference


async def _live(plane: DataPlane, _: Any) -> Any:
    return message("ServerLiveResponse")(live=plane.live())


async def _ready(plane: DataPlane, _: Any) -> Any:
    return message("ServerReadyResponse")(ready=plane.ready())


async def _model_ready(plane: DataPlane, request: Any) -> Any:
    try:
        ready = plane.model_ready(request.name, request.version)
    except ServingError as error:
        if error.refusal is not Refusal.NOT_FOUND:
            raise
        # As Triton answers for a model that it does not have.
        ready = False
    return message("ModelReadyResponse")(ready=ready)


async def _metadata(plane: DataPlane, _: Any) -> Any:
    return documents.to_protobuf("ServerMetadataResponse", documents.server_to_data(plane.metadata()))


async def _model_metadata(plane: DataPlane, request: Any) -> Any:
    metadata = plane.model_metadata(request.name, request.version)
    return documents.to_protobuf("ModelMetadataResponse", documents.model_to_data(metadata))


async def _config(plane: DataPlane, request: Any) -> Any:
    config = dict(plane.model_config(request.name, request.version))
    versions = config.get("version_policy", {}).get("specific", {}).get("versions", ())
    if not all(str(version).isdecimal() for version in versions):
        # Protobuf has whole numbers only there.
        del config["version_policy"]
    return documents.to_protobuf("ModelConfigResponse", {"config": config})


async def _statistics(plane: DataPlane, request: Any) -> Any:
    statistics = documents.statistics_to_data(plane.statistics(request.name, request.version))
    return documents.to_protobuf("ModelStatisticsResponse", statistics)


async def _index(plane: DataPlane, request: Any) -> Any:
    entries = documents.repository_to_data(plane.repository(request.ready))
    return documents.to_protobuf("RepositoryIndexResponse", {"models": entries})


async def _load(plane: DataPlane, request: Any) -> Any:
    parameters = {}
    for name, value in request.parameters.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is None:
            raise invalid(f"Parameter {name[:100]!r} has no value.")
        parameters[name] = getattr(value, choice)
    await plane.load(request.model_name, parameters)
    return message("RepositoryModelLoadResponse")()


async def _unload(plane: DataPlane, request: Any) -> Any:
    await plane.unload(request.model_name)
    return message("RepositoryModelUnloadResponse")()


async def _trace(plane: DataPlane, request: Any) -> Any:
    if request.settings:
        wanted = {name: _setting(list(value.value)) for name, value in request.settings.items()}
        settings = plane.change_trace_settings(request.model_name, wanted)
    else:
        settings = plane.trace_settings(request.model_name)
    response = message("TraceSettingResponse")()
    for name, value in settings.items():
        response.settings[name].value.extend(map(str, value if isinstance(value, list | tuple) else [value]))
    return response


def _setting(values: list[str]) -> Any:
    """Returns a setting as REST has it: nothing is null, one value stands alone."""
    return None if not values else values[0] if len(values) == 1 else values


_HANDLERS: Final[Mapping[str, Handler]] = {
    "ServerLive": _live,
    "ServerReady": _ready,
    "ModelReady": _model_ready,
    "ServerMetadata": _metadata,
    "ModelMetadata": _model_metadata,
    "ModelConfig": _config,
    "ModelStatistics": _statistics,
    "RepositoryIndex": _index,
    "RepositoryModelLoad": _load,
    "RepositoryModelUnload": _unload,
    "TraceSetting": _trace,
}
