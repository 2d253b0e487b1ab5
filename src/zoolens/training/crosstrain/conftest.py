import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from zoolens.training.crosstrain.training.trainer_pool import Workers

with suppress(ImportError):
    import torch  # noqa: F401  # before TensorFlow: imported after it, torch aborts in convolutions on some ARM machines


@pytest.fixture(scope="session")
def workers():
    """Training processes for all tests that do not look at the processes themselves: to import a framework takes
    longer than to train a small network. For the same reason none is recycled."""
    with Workers(recycled=10_000) as opened:
        yield opened


FORKING = """
import os, sys
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        work(*sys.argv[1:])
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


class KillableProcesses:
    """Processes that begin where `code`, which defines a function `work`, has been run: imports are done once for all.
    They share the standard output `lines`."""

    def __init__(self, code, *arguments):
        command = [sys.executable, "-c", code + FORKING, *map(str, arguments)]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = self._server.stdout
        self._last = None

    def start(self):
        """Let the next process run `work` with the arguments."""
        self._server.stdin.write("\n")
        self._server.stdin.flush()
        self._last = int(self.lines.readline())

    def kill(self):
        """Kill the last process, and wait for its end."""
        with suppress(ProcessLookupError):
            os.kill(self._last, signal.SIGKILL)
        assert "ended\n" in self.lines  # which reads them up to this one

    def close(self):
        self._server.stdin.close()
        self._server.wait()
        self.lines.close()


@pytest.fixture
def killable():
    """Make `KillableProcesses`, which are gone after the test."""
    made = []

    def make(code, *arguments):
        made.append(KillableProcesses(code, *arguments))
        return made[-1]

    yield make
    for processes in made:
        processes.close()
