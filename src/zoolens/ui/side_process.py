"""Functions that read files of models run in a process of their own, with a time limit: they may import frameworks that
need hundreds of megabytes, and the server must go on whatever becomes of them.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import threading
from typing import Any, Final

from zoolens.errors import ZoolensError
from zoolens.ui.endpoint import RequestError

TIMEOUT: Final = 120.0  # seconds
_PATIENCE: Final = 60.0  # seconds in which one of the places becomes free
_AT_ONCE: Final = 2

_places = threading.BoundedSemaphore(_AT_ONCE)


def computed(function: str, *arguments: str | None, timeout: float = TIMEOUT) -> Any:
    """What `function` ("module:name" of ours) gives for these arguments, as plain data. ZoolensError: what it raised,
    or that it took too long or died."""
    if not _places.acquire(timeout=_PATIENCE):
        raise RequestError("The explorer computes too much at the moment: try again in a minute.", status=503)
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps([function, *arguments]),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ZoolensError(f"It was not computed within {timeout:.0f} seconds.") from None
    finally:
        _places.release()
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ZoolensError(f"The process that computed it ended with status {done.returncode}: {last}") from None
    if "error" in answer:
        raise ZoolensError(answer["error"], hint=answer["hint"])
    return answer["result"]


def _main() -> None:
    function, *arguments = json.loads(sys.stdin.read())
    module, _, name = function.partition(":")
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)  # what libraries print is no answer
        with contextlib.redirect_stdout(sys.stderr):
            try:
                answer = {"result": getattr(importlib.import_module(module), name)(*arguments)}
            except ZoolensError as error:
                answer = {"error": error.message, "hint": error.hint}
        json.dump(answer, out)


if __name__ == "__main__":
    _main()
