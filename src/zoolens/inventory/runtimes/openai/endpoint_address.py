"""Where an OpenAI-compatible endpoint is: http://host:port/v1, perhaps with /models/NAME behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.address import is_loopback

_PORTS: Final = {"http": 80, "https": 443}
_PATH: Final = re.compile(r"(?P<base>(?:/[^/?#]+)*?)(?:/models/(?P<model>.+?))?/*")
_LONGEST: Final = 1000  # characters


@dataclass(frozen=True)
class EndpointAddress:
    """`base`: the path before /completions, such as /v1. `model` may be empty: the server may have only one."""

    scheme: str
    host: str
    port: int
    base: str
    model: str = ""

    @property
    def secure(self) -> bool:
        return self.scheme == "https"

    @property
    def is_local(self) -> bool:
        """Whether the server is surely on this machine."""
        return is_loopback(self.host)

    def at(self, model: str) -> EndpointAddress:
        return replace(self, model=model)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        named = f"/models/{quote(self.model)}" if self.model else ""
        return f"{self.scheme}://{host}:{self.port}{self.base}{named}"


def parse_endpoint(text: str) -> EndpointAddress:
    """The address that a user wrote. A password in it is refused: addresses are stored with results."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # names that the resolver would not take, such as labels of 64 letters
    except ValueError as error:
        raise _wrong(text, str(error).rstrip(".")) from error
    if parts.scheme not in _PORTS:
        raise _wrong(text, "it does not begin with http:// or https://")
    if not host or len(text) > _LONGEST or any(sign.isspace() or not sign.isprintable() for sign in text):
        raise _wrong(text, "it names no host")
    if parts.username is not None or parts.password is not None:
        raise ZoolensError(
            "The address holds a user name or a password, and addresses are stored with what is measured.",
            hint="Leave it out, and set ZOOLENS_OPENAI_KEY.",
        )
    path = _PATH.fullmatch(parts.path)
    if parts.query or parts.fragment or path is None:
        raise _wrong(text, "it has something behind its path")
    if not path["base"]:
        raise _wrong(text, "it has no path, where OpenAI's interface has /v1")
    return EndpointAddress(
        parts.scheme,
        host,
        _PORTS[parts.scheme] if port is None else port,
        path["base"],
        unquote(path["model"] or ""),
    )


def _wrong(text: str, why: str) -> ZoolensError:
    return ZoolensError(
        f"{text[:200]!r} is not the address of an endpoint: {why}.",
        hint="Write http://host:port/v1 or http://host:port/v1/models/NAME.",
    )
