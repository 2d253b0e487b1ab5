"""A private, real PostgreSQL server for tests, which may be stopped and started while something uses it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

START_SECONDS: Final = 60.0


class PostgresServer:
    """Listens on a Unix socket in its own folder only, so that no port can clash."""

    def __init__(self, binaries: Path, folder: Path, identity: dict[str, Any]) -> None:
        self._binaries = binaries
        self._folder = folder
        self._identity = identity
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://zoolens@/{database}?host={self._folder}"

    def database(self, copy_of: str = "template1") -> str:
        """The URL of a new database: an empty one, or one like that of the name `copy_of`, to which nobody may be
        connected."""
        import psycopg

        name = f"store_{next(self._numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {copy_of}")
        return self.url(name)

    def create(self) -> None:
        arguments = ["-D", str(self._data), "-U", "zoolens", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run([self._binaries / "initdb", *arguments], check=True, capture_output=True, **self._identity)

    def start(self) -> None:
        """Start, and return when connections are accepted. After `kill`, when those that it left behind have ended."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self._start_once()
            except RuntimeError as error:
                # Its backends notice the death of their server a moment later, and hold its memory until then.
                if "still in use" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def _start_once(self) -> None:
        settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self._folder}", "-c", "fsync=off"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._data, *settings], stdout=log, stderr=log, **self._identity
            )
        self._wait_until_ready()

    def stop(self, *, crash: bool = False) -> None:
        """Stop at once, cutting all connections; `crash`: as if the machine had failed. Twice is fine."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self._process.wait(START_SECONDS)
            self._process = None

    def kill(self) -> None:
        """SIGKILL to the server; its backends live on until they notice."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _wait_until_ready(self) -> None:
        import psycopg

        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError as error:
                exited = self._process is None or self._process.poll() is not None
                if exited or time.monotonic() > deadline:
                    log = (self._folder / "log").read_text(errors="replace")
                    raise RuntimeError(f"PostgreSQL did not start:\n{log}") from error
                time.sleep(0.05)
            else:
                return


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A running server, gone afterwards. Skips the test where PostgreSQL or psycopg is not installed.

    The folder is the server's own, not pytest's: those are closed to the other user that it runs as under root, and
    their paths may be too long for a socket.
    """
    import pytest

    pytest.importorskip("psycopg", reason="NOT TESTED on PostgreSQL: psycopg is not installed")
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("NOT TESTED on PostgreSQL: no server binaries here (install the package postgresql)")
    identity = _unprivileged_identity()
    if identity is None:
        pytest.skip("NOT TESTED on PostgreSQL: the server refuses root, and there is no user postgres or nobody")
    folder = Path(tempfile.mkdtemp(prefix="zoolens-pg-"))
    if identity:
        os.chown(folder, identity["user"], identity["group"])
    server = PostgresServer(binaries, folder, {**identity, "cwd": folder})
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def find_binaries() -> Path | None:
    """Where initdb and postgres lie: on PATH, or where Debian keeps them off it (the newest version)."""
    on_path = shutil.which("initdb")
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    candidates = versions[::-1]
    if on_path:
        candidates.insert(0, Path(on_path).resolve().parent)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


def _unprivileged_identity() -> dict[str, Any] | None:
    """Returns the user to run the server as: ourselves, unless we are root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    return None
