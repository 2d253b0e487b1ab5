"""Opening a client of the protocol for an address: over HTTP or over gRPC."""

from __future__ import annotations

import os

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.address import Address
from zoolens.base.protocol.client_base import SECONDS, TOKEN, Client
from zoolens.base.protocol.errors import ServingError


def token_for_servers() -> str:
    """The token that the user has set for servers that ask for one, or nothing."""
    return os.environ.get(TOKEN, "").strip()


def open_client(address: Address, *, token: str | None = None, seconds: float = SECONDS) -> Client:
    """A client for this address. `token`: by default what the environment variable ZOOLENS_TOKEN holds; `seconds`: how
    long an answer may take."""
    token = token_for_servers() if token is None else token
    if address.uses_grpc:
        from zoolens.base.protocol.grpc_client import GrpcClient

        return GrpcClient(address, token, seconds)
    from zoolens.base.protocol.rest_client import RestClient

    return RestClient(address, token, seconds)


def locate_model(client: Client) -> Address:
    """The client's address with a model: the one that it names, or the only one that the server has."""
    address = client.address
    if address.model:
        return address
    try:
        names = sorted({entry.name for entry in client.repository()})
    except ServingError:
        # Not every server has an index.
        names = []
    if len(names) != 1:
        listed = f"has the models {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
        raise ZoolensError(
            f"{address} {listed if names else 'does not list its models'}.",
            hint=f"Name one: {address.at('NAME')}.",
        )
    return address.at(names[0])
