"""The protocol's messages as protobuf classes, and its two services as gRPC sees them.

The descriptors live in a pool of their own. The default pool holds one message of a name only, and a program that uses
tritonclient or kserve has `inference.ModelInferRequest` in it already, from a file of another content.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from zoolens.base.errors import MissingDependency

INFERENCE: Final = "inference.GRPCInferenceService"
HEALTH: Final = "grpc.health.v1.Health"


@dataclass(frozen=True)
class Method:
    """One call of a service, with the classes of what goes in and out."""

    path: str
    request: Any
    response: Any
    client_streams: bool
    server_streams: bool


@cache
def pool() -> Any:
    """The descriptor pool that holds the protocol, and nothing else."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
    except ImportError as error:
        raise MissingDependency("The protocol over gRPC", "protobuf", "serve") from error
    descriptors = DescriptorPool()
    content = files("zoolens.base.protocol").joinpath("descriptors.binpb").read_bytes()
    for file in FileDescriptorSet.FromString(content).file:
        descriptors.Add(file)
    return descriptors


@cache
def message(name: str) -> Any:
    """The class of a message, for example `message("ModelInferRequest")`."""
    descriptor = pool().FindMessageTypeByName(f"inference.{name}")
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(descriptor)


@cache
def methods(service: str) -> dict[str, Method]:
    """The calls of a service by their names."""
    descriptor = pool().FindServiceByName(service)
    from google.protobuf.message_factory import GetMessageClass

    return {
        method.name: Method(
            f"/{service}/{method.name}",
            GetMessageClass(method.input_type),
            GetMessageClass(method.output_type),
            method.client_streaming,
            method.server_streaming,
        )
        for method in descriptor.methods
    }
