"""A real server of S3's protocol for tests: moto's, in a process of its own on a free port.

Moto wants an older python-dateutil than the one that we pin, so that it has an environment of its own, which `make
object-server` makes; `ZOOLENS_OBJECT_SERVER` names another Python that has it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

VARIABLES: Final = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing-secret",
    "AWS_EC2_METADATA_DISABLED": "true",  # the SDK would look for credentials in the network for seconds
}
_OWN: Final = Path(__file__).parents[3] / ".object-server" / "bin" / "python"
_START: Final = 60.0  # seconds, at most


class ObjectServer:
    """Objects live in the memory of the server's process: gone when it is stopped, kept while it is paused. With a
    `log` they are there again after `stop` and `start`."""

    def __init__(self, python: str, log: Path | None = None) -> None:
        self._python, self._log = python, log
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, bucket: str, prefix: str = "zoolens") -> str:
        return f"s3://{bucket}/{prefix}?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{self.port}"

    def make_bucket(self, name: str) -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310

    def start(self) -> None:
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen([self._python, *self._program()], stdout=quiet, stderr=quiet)
        deadline = time.monotonic() + _START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("moto's server did not start")
            time.sleep(0.05)

    def _program(self) -> list[str]:
        if self._log is not None:
            return [str(Path(__file__).with_name("kept_objects.py")), str(self.port), str(self._log)]
        return ["-c", f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{self.port}'])"]

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/moto-api/", timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    def pause(self) -> None:
        """No request is answered until `go_on`; connections wait."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, number)


def object_server_python() -> str | None:
    """The Python that has moto; None: there is none."""
    python = os.environ.get("ZOOLENS_OBJECT_SERVER") or str(_OWN)
    return python if Path(python).exists() else None


@contextmanager
def object_server(log: Path | None = None) -> Iterator[ObjectServer]:
    """A server without buckets. The caller sets `VARIABLES` in its environment. `log`: see `ObjectServer`."""
    python = object_server_python()
    if python is None:
        pytest.skip("NOT TESTED on an object store: no server here (run: make object-server)")
    server = ObjectServer(python, log)
    server.start()
    try:
        yield server
    finally:
        server.stop()
