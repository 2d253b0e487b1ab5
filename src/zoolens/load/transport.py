"""Making the transport that an address asks for: HTTP or gRPC."""

from __future__ import annotations

from zoolens.load.transport_base import Transport
from zoolens.protocol.address import Address


def make_transport(address: Address, token: str, *, binary: bool) -> Transport:
    """`binary`: the server has the extension for binary tensors (HTTP)."""
    if address.uses_grpc:
        from zoolens.load.grpc_transport import GrpcTransport

        return GrpcTransport(address, token)
    from zoolens.load.http_transport import HttpTransport

    return HttpTransport(address, token, binary=binary)
