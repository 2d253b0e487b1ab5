"""Making the transport that an address asks for: HTTP or gRPC."""

from __future__ import annotations

from zoolens.base.protocol.address import Address
from zoolens.faces.load.transport_base import Transport


def make_transport(address: Address, token: str, *, binary: bool) -> Transport:
    """`binary`: the server has the extension for binary tensors (HTTP)."""
    if address.uses_grpc:
        from zoolens.faces.load.grpc_transport import GrpcTransport

        return GrpcTransport(address, token)
    from zoolens.faces.load.http_transport import HttpTransport

    return HttpTransport(address, token, binary=binary)
