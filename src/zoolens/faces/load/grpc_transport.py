"""The load driver's gRPC: calls of grpc.aio, multiplexed over a few channels."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from zoolens.base.protocol.address import Address
from zoolens.base.protocol.client_base import ANSWER_LIMITS
from zoolens.base.protocol.grpc_client import OPTIONS, library
from zoolens.base.protocol.grpc_messages import request_to_protobuf, response_from_protobuf
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.base.protocol.protobuf import INFERENCE, methods
from zoolens.faces.load.exchanges import Outcome, outcome_of_code
from zoolens.faces.load.transport_base import Reply, Transport

_CHANNELS: Final = 4  # one connection carries about a hundred calls at a time


class GrpcTransport(Transport):
    def __init__(self, address: Address, token: str) -> None:
        library()
        self.address = address
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._channels: list[Any] = []
        self._calls: Any = None

    def encode(self, request: InferRequest) -> bytes:
        content: bytes = request_to_protobuf(request).SerializeToString()
        return content

    async def open(self, connections: int) -> None:
        aio = _library()
        method = methods(INFERENCE)["ModelInfer"]
        for _ in range(min(_CHANNELS, max(connections, 1))):
            if self.address.secure:
                channel = aio.secure_channel(
                    self.address.authority, library().ssl_channel_credentials(), options=OPTIONS
                )
            else:
                channel = aio.insecure_channel(self.address.authority, options=OPTIONS)
            self._channels.append(channel)
        # Requests are bytes already, and answers stay bytes until the run is over.
        self._calls = itertools.cycle([channel.unary_unary(method.path) for channel in self._channels])

    async def send(self, encoded: bytes, seconds: float) -> Reply:
        grpc, sent = library(), time.perf_counter()
        try:
            content = await next(self._calls)(encoded, timeout=seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            at = time.perf_counter()
            code, details = error.code().name, error.details() or ""
            # Our own timer; the server's comes earlier.
            if code == "DEADLINE_EXCEEDED" and at - sent >= seconds:
                return Reply(at, Outcome.TIMED_OUT, f"There was no answer within {seconds:g} s.")
            if code == "UNAVAILABLE" and ("connect" in details.lower() or "socket" in details.lower()):
                return Reply(at, Outcome.DISCONNECTED, details)
            return Reply(at, outcome_of_code(code), details or code)
        return Reply(time.perf_counter(), Outcome.ANSWERED, read=_reader(content), size=len(content))

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()
        self._channels.clear()


def _library() -> Any:
    library()
    import grpc.aio

    return grpc.aio


def _reader(content: bytes) -> Callable[[], InferResponse]:
    return partial(_read, content)


def _read(content: bytes) -> InferResponse:
    protobuf = methods(INFERENCE)["ModelInfer"].response.FromString(content)
    return response_from_protobuf(protobuf, ANSWER_LIMITS)
