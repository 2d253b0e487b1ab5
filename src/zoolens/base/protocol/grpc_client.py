"""The protocol over gRPC, as a client that waits for each answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zoolens.base.errors import MissingDependency, ZoolensError
from zoolens.base.protocol.address import Address
from zoolens.base.protocol.client_base import ANSWER_LIMITS, Client
from zoolens.base.protocol.documents import from_protobuf, model_from_data, repository_from_data, server_from_data
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.grpc_messages import request_to_protobuf, response_from_protobuf
from zoolens.base.protocol.messages import InferRequest, InferResponse, ModelMetadata, RepositoryEntry, ServerMetadata
from zoolens.base.protocol.protobuf import INFERENCE, message, methods

LARGEST: Final = (1 << 31) - 1  # bytes of a message
OPTIONS: Final = (
    ("grpc.max_send_message_length", LARGEST),
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.use_local_subchannel_pool", 1),  # a connection of our own, not one that another channel has broken
)


class GrpcClient(Client):
    def __init__(self, address: Address, token: str, seconds: float) -> None:
        grpc = library()
        self.address = address
        self._seconds = seconds
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        secure = (grpc.ssl_channel_credentials(),) if address.secure else ()
        open_channel = grpc.secure_channel if address.secure else grpc.insecure_channel
        self._channel = open_channel(address.authority, *secure, options=OPTIONS)
        self._calls: dict[str, Any] = {}

    def server(self) -> ServerMetadata:
        return server_from_data(from_protobuf(self._ask("ServerMetadata", message("ServerMetadataRequest")())))

    def model(self, model: str, version: str = "") -> ModelMetadata:
        request = message("ModelMetadataRequest")(name=model, version=version)
        return model_from_data(from_protobuf(self._ask("ModelMetadata", request)))

    def config(self, model: str, version: str = "") -> Mapping[str, Any]:
        request = message("ModelConfigRequest")(name=model, version=version)
        config: Mapping[str, Any] = from_protobuf(self._ask("ModelConfig", request))["config"]
        return config

    def repository(self) -> list[RepositoryEntry]:
        index = self._ask("RepositoryIndex", message("RepositoryIndexRequest")())
        return repository_from_data(from_protobuf(index)["models"])

    def infer(self, request: InferRequest) -> InferResponse:
        trace = (("traceparent", request.traceparent),) if request.traceparent else ()
        return response_from_protobuf(self._ask("ModelInfer", request_to_protobuf(request), trace), ANSWER_LIMITS)

    def close(self) -> None:
        self._channel.close()

    def _ask(self, name: str, request: Any, headers: tuple[tuple[str, str], ...] = ()) -> Any:
        if name not in self._calls:
            method = methods(INFERENCE)[name]
            self._calls[name] = self._channel.unary_unary(
                method.path, method.request.SerializeToString, method.response.FromString
            )
        grpc = library()
        try:
            return self._calls[name](request, timeout=self._seconds, metadata=(*self._metadata, *headers))
        except grpc.RpcError as error:
            raise error_of(self.address, error.code().name, error.details() or "", self._seconds) from error


def library() -> Any:
    try:
        import grpc
    except ImportError as error:
        raise MissingDependency("The protocol over gRPC", "grpcio", "serve") from error
    return grpc


def error_of(address: Address, code: str, details: str, seconds: float) -> ZoolensError:
    """The error for a gRPC status. UNAVAILABLE and DEADLINE_EXCEEDED also come from our own side of the connection."""
    if code == "UNAVAILABLE" and ("connect" in details.lower() or not details):
        return ZoolensError(f"No answer from {address}.", hint="Is the server running, and is the address right?")
    if code == "DEADLINE_EXCEEDED":
        return ZoolensError(f"{address} did not answer within {seconds:g} s.")
    kinds = {refusal.grpc: refusal for refusal in reversed(Refusal)}
    sentence = details[: ANSWER_LIMITS.text_bytes] or f"The server answered with {code}."
    return ServingError(kinds.get(code, Refusal.INTERNAL), sentence)
