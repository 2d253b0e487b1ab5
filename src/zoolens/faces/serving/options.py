"""How a server listens: addresses, who may ask, and what one client may take of it."""

from __future__ import annotations

import ipaddress
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.limits import Limits
from zoolens.base.safety import untrusted

TOKEN_VARIABLE = "ZOOLENS_SERVE_TOKEN"  # noqa: S105 - the name of a variable
_SHORTEST_TOKEN = 16
_LONGEST_TOKEN = 4096
_SCHEME = "bearer "
_OPEN = frozenset({"/v2/health/live", "/v2/health/ready"})


@dataclass(frozen=True)
class Tls:
    """Files in PEM form: the certificate with its chain, and its key."""

    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        for path in (self.certificate, self.key):
            self._read(path)

    def contents(self) -> tuple[bytes, bytes]:
        return self._read(self.certificate), self._read(self.key)

    @staticmethod
    def _read(path: Path) -> bytes:
        try:
            return untrusted.read_bytes(path, 1 << 20)
        except OSError as error:
            raise ZoolensError(f"The TLS file {path} cannot be read: {error.strerror or error}.") from error


@dataclass(frozen=True)
class ServerOptions:
    """How a server listens, and what one client may take of it. Port 0: the system chooses; None: not opened."""

    host: str = "127.0.0.1"
    http_port: int | None = 8000
    grpc_port: int | None = 8001
    token: str | None = field(default=None, repr=False)
    insecure: bool = False
    tls: Tls | None = None
    limits: Limits = field(default_factory=Limits)
    header_seconds: float = 10.0  # that a client may take to send the headers of a request
    body_seconds: float = 60.0  # that a client may take to send the body
    idle_seconds: float = 75.0  # that a connection may stay open without a request
    write_seconds: float = 60.0  # that a client may take nothing of an answer
    held_bytes: int = 1 << 30  # of all bodies that are being read or answered; more is refused as overload
    connections: int = 1000  # open at a time
    drain_seconds: float = 30.0  # that the server waits at its end for answers to accepted requests

    def __post_init__(self) -> None:
        if self.http_port is None and self.grpc_port is None:
            raise ZoolensError("The server has no port to listen on.", hint="Give a port for --http or --grpc.")
        if self.http_port and self.http_port == self.grpc_port:
            raise ZoolensError(
                f"REST and gRPC cannot both listen on port {self.http_port}.", hint="Give each a port of its own."
            )
        if not is_loopback(self.host) and self.token is None and not self.insecure:
            raise ZoolensError(
                f"Anybody who reaches {self.host} could use this server, because no token is set.",
                hint=f"Set a token (--token-file or {TOKEN_VARIABLE}), or say --insecure.",
            )


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach that address. A name other than localhost counts as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_access(options: ServerOptions, path: str, headers: Mapping[str, str]) -> None:
    """Refuse a request without the token or, where there is none, one that a page in somebody's browser has made.

    Such a page can reach this machine's own addresses. Its requests carry `Origin`; if it lets its own name point to
    this machine, they carry that name as `Host`. Programs send neither. Probes of health need no token.
    """
    if options.token is not None:
        if path not in _OPEN:
            check_token(options.token, headers.get("authorization"))
    elif not options.insecure and ("origin" in headers or not names_this_machine(headers.get("host", ""))):
        raise ServingError(
            Refusal.FORBIDDEN,
            "Web pages may not use this server, because it has no token.",
            hint="Set a token, or use an address instead of a name.",
        )


@lru_cache(64)
def names_this_machine(host: str) -> bool:
    """Whether a `Host` header has an address, localhost or nothing; other names may lead here by anybody's will."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        # Any other name may be made to point to this machine by a page that wants to read our answers (DNS rebinding).
        return name.lower().rstrip(".") in ("", "localhost")
    return True


def read_token(file: Path | None, variable: str = TOKEN_VARIABLE) -> str | None:
    """The token in a file or, without one, in this environment variable; None where neither is given."""
    if file is None:
        token = os.environ.get(variable, "").strip()
        return _checked(token, f"The variable {variable}") if token else None
    try:
        token = untrusted.read_text(file, _LONGEST_TOKEN).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ZoolensError(f"The token file {file} cannot be read: {reason}.") from error
    return _checked(token, f"The token file {file}")


def _checked(token: str, where: str) -> str:
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ZoolensError(
            f"{where} must hold a token of at least {_SHORTEST_TOKEN} printable characters without spaces.",
            hint="Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token


def check_token(token: str | None, authorization: str | None) -> None:
    """Refuse a request whose `Authorization` header does not carry the token. Takes the same time whatever it holds."""
    if token is None:
        return
    given = authorization or ""
    scheme, offered = given[: len(_SCHEME)], given[len(_SCHEME) :].strip()
    # In constant time: how long a comparison takes must not show how much of a guess is right.
    matches = secrets.compare_digest(offered.encode("utf-8", "replace"), token.encode())
    if not matches or scheme.lower() != _SCHEME:
        raise ServingError(
            Refusal.UNAUTHENTICATED,
            "This server requires a token.",
            hint="Send the header 'Authorization: Bearer TOKEN'.",
        )
