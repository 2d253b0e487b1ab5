"""What one server of the explorer is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from zoolens.base.errors import ZoolensError
from zoolens.faces.serving.options import is_loopback

TOKEN_VARIABLE = "ZOOLENS_UI_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True)
class Settings:
    """How an explorer is started. A port of 0 is chosen by the system."""

    # As `open_store` takes it
    store: str | Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = field(default=None, repr=False)
    # Folders whose files jobs may read; models and data that have a name of their own need none
    allowed: tuple[Path, ...] = ()
    # The address of a running server of models, whose metrics are shown
    server: str | None = None
    # Zoos to list; without any, all of them
    zoos: tuple[str, ...] = ()
    # The largest body of a request that is no upload
    body_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        if self.server is not None and not self.server.startswith(("http://", "https://")):
            raise ZoolensError(f"{self.server[:200]!r} is not a server address.", hint="Write http://127.0.0.1:8000.")
        if not is_loopback(self.host) and self.token is None:
            raise ZoolensError(
                f"Anybody who reaches {self.host} could read your store and start jobs, because no token is set.",
                hint=f"Set a token (--token-file or {TOKEN_VARIABLE}).",
            )
