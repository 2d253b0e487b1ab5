"""The process that supervises one job: runs the command, and writes down how it ended, also when no server is left.

python -m zoolens.faces.ui.jobs.supervisor FOLDER
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import IO, Final

from zoolens.base.progress import FILE_VARIABLE
from zoolens.faces.ui.jobs.folder import JobFolder

GRACE: Final = 20.0  # seconds that a cancelled command may take to end in good order


class Supervisor:
    """Runs the command of a job. SIGTERM cancels it: it may end in good order, and is killed if it does not."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def cancel(self, _: int, __: FrameType | None) -> None:
        """The handler of the signal, which may come at any moment."""
        self._cancelled = True
        if self._process is not None:
            _end(self._process)

    def run(self) -> None:
        with self._folder.output_file.open("wb") as output, self._folder.messages_file.open("wb") as messages:
            if self._cancelled:
                self._folder.write_end(None, "It was cancelled before it began.")
                return
            self._process = self._start(output, messages)
            if self._cancelled:  # while it was being started
                _end(self._process)
            code = self._process.wait()
        self._folder.write_end(code)

    def _start(self, output: IO[bytes], messages: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "zoolens", *self._folder.asked()["command"]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=messages,
            cwd=self._folder.path,  # relative paths name nothing
            env={**os.environ, FILE_VARIABLE: str(self._folder.progress_file)},
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    killer = threading.Timer(GRACE, _kill, [process])
    killer.daemon = True
    killer.start()


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    supervisor = Supervisor(JobFolder(Path(sys.argv[1])))
    signal.signal(signal.SIGTERM, supervisor.cancel)
    supervisor.run()
