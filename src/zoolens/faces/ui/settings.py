"""What one server of the explorer is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from zoolens.base.errors import ZoolensError
from zoolens.faces.serving.options import is_loopback

TOKEN_VARIABLE = "ZOOLENS_UI_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True)
class Settings:
    """A port of 0 is chosen by the system. `store`: as `open_store` takes it. `allowed`: folders whose files jobs may
    read; models and data that have a name of their own need none. `zoos`: those that are listed; none named: all.
    `server`: the address of a running server of models, whose metrics are shown. `body_bytes`: the largest body of a
    request that is no upload."""

    store: str | Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = field(default=None, repr=False)
    allowed: tuple[Path, ...] = ()
    server: str | None = None
    zoos: tuple[str, ...] = ()
    body_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        if self.server is not None and not self.server.startswith(("http://", "https://")):
            raise ZoolensError(f"{self.server[:200]!r} is no address of a server.", hint="Write http://127.0.0.1:8000.")
        if not is_loopback(self.host) and self.token is None:
            raise ZoolensError(
                f"Anybody who reaches {self.host} could read your store and start jobs, because no token is set.",
                hint=f"Set a token (--token-file or {TOKEN_VARIABLE}).",
            )
