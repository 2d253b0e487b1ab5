"""The real HTTP server of llama.cpp, in a process of its own, for tests of its clients and for benchmarks.

    python -m zoolens.testing.llama_server MODEL.gguf [SETTING=VALUE …]

prints its address and serves until its standard input is closed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_SECONDS: Final = 60.0
_READY: Final = "ready "


@contextmanager
def llama_server(path: Path, **settings: Any) -> Iterator[str]:
    """The address of a server of this model, which ends with the block. `settings`: fields of llama.cpp's parameters,
    with __ for a dot; one thread and a context of 2,048 tokens unless they say otherwise."""
    words = [f"{name.replace('__', '.')}={json.dumps(value)}" for name, value in settings.items()]
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(path), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # Threads that spin while they wait take the cores of whoever asks.
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        lines = iter(process.stdout.readline, "")
        address = next((line.removeprefix(_READY).strip() for line in lines if line.startswith(_READY)), None)
        if address is None:
            raise RuntimeError(f"The server of {path.name} did not begin.")
        yield f"{address}/v1"
    finally:
        process.stdin.close()
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _serve(path: str, words: list[str]) -> None:
    import xllamacpp  # type: ignore[import-not-found,import-untyped,unused-ignore]

    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.port = 0
    parameters.n_ctx = 2048
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    for word in words:
        name, _, value = word.partition("=")
        *parents, last = name.split(".")
        owner = parameters
        for parent in parents:
            owner = getattr(owner, parent)
        setattr(owner, last, json.loads(value))
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{_READY}{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    # Its destructor waits for threads that may wait for a client.
    os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2:])
