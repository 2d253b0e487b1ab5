"""Where a server of the protocol is: http://host:port, perhaps with a folder before /v2 and a model behind it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from zoolens.base.errors import ZoolensError

PORTS: Final = {"http": 80, "https": 443, "grpc": 8001, "grpcs": 443}
_PATH: Final = re.compile(r"(?P<prefix>.*?)(?:/v2(?:/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?)?)?/*")


@dataclass(frozen=True)
class Address:
    """`prefix`: what stands before /v2 in the path, for servers behind a proxy. `model` and `version` may be empty."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    model: str = ""
    version: str = ""

    @property
    def secure(self) -> bool:
        return self.scheme in ("https", "grpcs")

    @property
    def uses_grpc(self) -> bool:
        return self.scheme in ("grpc", "grpcs")

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether the server is surely on this machine."""
        return is_loopback(self.host)

    def at(self, model: str, version: str = "") -> Address:
        """Returns the address of another model on this server."""
        return replace(self, model=model, version=version)

    def path(self, *parts: str) -> str:
        """The path of something below /v2."""
        return "/".join([f"{self.prefix}/v2", *(quote(part, safe="") for part in parts)])

    def model_path(self, *parts: str) -> str:
        version = ("versions", self.version) if self.version else ()
        return self.path("models", self.model, *version, *parts)

    def __str__(self) -> str:
        server = f"{self.scheme}://{self.authority}"
        return server + (self.model_path() if self.model else self.prefix)


def is_loopback(host: str) -> bool:
    """Whether a host is surely this machine: 127.evil.example is not."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_address(text: str) -> Address:
    """The address that a user wrote. A user name or password in it is refused: addresses are stored with results."""
    if "://" not in text:
        raise _wrong(text, "it does not begin with http://, https://, grpc:// or grpcs://")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _wrong(text, str(error).rstrip(".")) from error
    if parts.scheme not in PORTS:
        raise _wrong(text, f"there is no way to speak {parts.scheme[:20]!r} to a server")
    if not host or any(sign.isspace() or not sign.isprintable() for sign in text):
        raise _wrong(text, "it names no host")
    if parts.username is not None or parts.password is not None:
        raise ZoolensError(
            "The address holds a user name or a password, and addresses are stored with what is measured.",
            hint="Leave it out, and give a token instead.",
        )
    if parts.query or parts.fragment:
        raise _wrong(text, "it has something behind its path")
    path = _PATH.fullmatch(parts.path)
    assert path is not None, "the pattern takes every path"
    prefix, model, version = (unquote(path[name] or "") for name in ("prefix", "model", "version"))
    if parts.scheme.startswith("grpc") and prefix:
        raise _wrong(text, "a gRPC server has no folders")
    return Address(parts.scheme, host, PORTS[parts.scheme] if port is None else port, prefix, model, version)


def _wrong(text: str, why: str) -> ZoolensError:
    return ZoolensError(
        f"{text[:200]!r} is not a server address: {why}.",
        hint="Write http://host:port or http://host:port/v2/models/NAME.",
    )
