"""Which machines a manifest may have a file fetched from: public ones, and those that the user names.

A manifest is written by a stranger, and an address in it is dialled from inside the user's network. So the name is
resolved first, every address is judged, and the connection is made to an address that was judged: a second look at the
name could be given another answer. Loopback, private, link-local and reserved addresses are refused unless the user
lists them in ZOOLENS_FETCH_FROM: host names, addresses or networks, each with a port if wanted, with commas between
them, such as "127.0.0.1:8000,10.1.0.0/16,models.example.internal".
"""

from __future__ import annotations

import http.client
import ipaddress
import os
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.errors import AssetError

VARIABLE: Final = "ZOOLENS_FETCH_FROM"
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
# Only these IPv6 addresses are routed in public. `is_global` of Python 3.11 is also true of site-local (fec0::/10) and
# IPv4-compatible (::/96) addresses and of translators inside a network (64:ff9b:1::/48).
_PUBLIC_IPV6: Final = (ipaddress.ip_network("2000::/3"), _NAT64)
# Reserved for documentation, protocol assignments and relays, which `is_global` of Python 3.11 does not know.
_RESERVED: Final = tuple(map(ipaddress.ip_network, ("3fff::/20", "192.0.0.0/24", "192.88.99.0/24")))
_ISATAP: Final = (0x00005EFE, 0x02005EFE)  # the 32 bits before an IPv4 address in an interface identifier

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class _Place:
    """One entry of the user's list: a host name or a network, on one port or on all."""

    name: str
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None
    port: int | None

    def covers(self, host: str, address: Address, port: int) -> bool:
        if self.port not in (None, port):
            return False
        if self.network is None:
            return host.lower().rstrip(".") == self.name
        return address.version == self.network.version and address in self.network


def judged_connection(place: tuple[str, int], timeout: Any = None, source_address: Any = None) -> socket.socket:
    """Connect like `socket.create_connection`, but only to addresses that a manifest may use."""
    host, port = place
    failure: OSError | None = None
    for family, kind, protocol, sockaddr in permitted(host, port):
        connection = socket.socket(family, kind, protocol)
        try:
            if isinstance(timeout, int | float):
                connection.settimeout(timeout)
            # The address that was judged, not the name: a second lookup might give another one.
            connection.connect(sockaddr)
        except OSError as error:
            connection.close()
            failure = error
        else:
            return connection
    raise failure or OSError(f"{host} has no address")


def permitted(host: str, port: int) -> list[tuple[Any, Any, int, Any]]:
    """What `socket.socket` and `connect` need, for each address of a host that may be used; AssetError: none may."""
    try:
        resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise AssetError(f"{host[:80]!r} is not the name of a host.") from error
    judged = [(info, _numeric(info[4][0])) for info in resolved]
    good = [(info[0], info[1], info[2], info[4]) for info, address in judged if _may_use(host, address, port)]
    if not good:
        address = judged[0][1]
        raise AssetError(
            f"{host} is {address}, an address of this machine or of a private network, which a manifest may not use.",
            hint=f"If you trust the manifest, set {VARIABLE}={host}:{port} and try again.",
        )
    return good


def _may_use(host: str, address: Address, port: int) -> bool:
    return all(_is_public(meaning) for meaning in _meanings(address)) or any(
        place.covers(host, address, port) for place in _listed()
    )


def _is_public(address: Address) -> bool:
    if any(address in network for network in _RESERVED):
        return False
    if address.version == 6 and not any(address in network for network in _PUBLIC_IPV6):
        return False
    return address.is_global and not address.is_multicast


def _meanings(address: Address) -> Iterator[Address]:
    """The address, and the IPv4 addresses that an IPv6 one may stand for."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            yield address.ipv4_mapped
        if address.sixtofour is not None:
            yield address.sixtofour
        if address.teredo is not None:
            yield from address.teredo
        if address in _NAT64 or (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
            yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _numeric(text: str | int) -> Address:
    return ipaddress.ip_address(str(text).partition("%")[0])


def _listed() -> list[_Place]:
    return [_place(item.strip()) for item in os.environ.get(VARIABLE, "").split(",") if item.strip()]


def _place(item: str) -> _Place:
    try:
        return _Place(item, ipaddress.ip_network(item, strict=False), None)
    except ValueError:
        pass
    try:
        parts = urllib.parse.urlsplit(f"//{item}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise AssetError(f"{VARIABLE} has {item!r}, which is not a host, address or network.") from error
    try:
        return _Place(host, ipaddress.ip_network(host, strict=False), port)
    except ValueError:
        return _Place(host, None, port)


# --- for urllib


class _Connection(http.client.HTTPConnection):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._create_connection = judged_connection


class _SecureConnection(http.client.HTTPSConnection):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._create_connection = judged_connection


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, req: Any) -> Any:
        return self.do_open(_Connection, req)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: Any) -> Any:
        return self.do_open(_SecureConnection, req)


# urllib would follow a redirect without having it judged.
class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def opener_for(url: str) -> urllib.request.OpenerDirector:
    """An opener for this address that follows no redirect.

    Where the user has set a proxy for it, the proxy resolves the name and makes the connection; the addresses that the
    name has here are judged all the same.
    """
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        # A name that only the proxy knows.
        with suppress(OSError):
            permitted(host, parts.port or 443)
        return urllib.request.build_opener(_NoRedirects)
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), _Handler, _SecureHandler, _NoRedirects)
