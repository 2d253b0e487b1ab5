"""`zoolens serve` in a process of its own, for benchmarks that ask it from outside."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

MISSED = 3  # exit code of a benchmark whose goal was missed
PATIENCE = 600.0  # seconds for models to be opened and timed
_URL = re.compile(r"^(REST|gRPC): (\S+?)(?:/v2)?$", re.MULTILINE)


@contextmanager
def serving(
    *arguments: str, environment: dict[str, str] | None = None, niceness: int = 0, yielding: bool = False
) -> Iterator[dict[str, str]]:
    """The URLs ("http", "grpc") of a server with these arguments, as long as the block lasts. `niceness`: how much
    lower its priority is than that of this process. `yielding`: it leaves the core whenever this process wants it."""
    with serving_process(*arguments, environment=environment, niceness=niceness, yielding=yielding) as (urls, _):
        yield urls


@contextmanager
def serving_process(
    *arguments: str, environment: dict[str, str] | None = None, niceness: int = 0, yielding: bool = False
) -> Iterator[tuple[dict[str, str], int]]:
    """The same, with the number of the server's process."""
    priority = ["nice", "-n", str(niceness)] if niceness else []
    if yielding:  # a process of the usual kind need not wait until the time slice of an idle one has passed
        priority = ["chrt", "--idle", "0"] if shutil.which("chrt") else ["nice", "-n", "19"]
    command = [*priority, sys.executable, "-m", "zoolens", "serve", *arguments, "--http", "0", "--grpc", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {}), "PYTHONUNBUFFERED": "1"}
    )
    try:
        yield _urls(process), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _urls(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdout is not None
    text, deadline = "", time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the server ended with {process.wait()}: {text}")
        text += line
        found = {{"REST": "http", "gRPC": "grpc"}[name]: url for name, url in _URL.findall(text)}
        if len(found) == 2:
            return found
    raise SystemExit(f"the server was not ready after {PATIENCE:g} s: {text}")
