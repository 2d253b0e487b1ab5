"""Opening a client of the protocol for an address: over HTTP or over gRPC."""

from __future__ import annotations

import os

from zoolens.protocol.address import Address
from zoolens.protocol.client_base import SECONDS, TOKEN, Client


def open_client(address: Address, *, token: str | None = None, seconds: float = SECONDS) -> Client:
    """A client for this address. `token`: by default what the environment variable ZOOLENS_TOKEN holds; `seconds`: how
    long an answer may take."""
    token = os.environ.get(TOKEN) if token is None else token
    if address.uses_grpc:
        from zoolens.protocol.grpc_client import GrpcClient

        return GrpcClient(address, token or "", seconds)
    from zoolens.protocol.rest_client import RestClient

    return RestClient(address, token or "", seconds)
