"""All jobs of this user, and the server's part in them: one runs at a time, the others wait.

Two measurements at once would disturb each other, so that jobs wait for their turn. When the server ends, jobs that
wait are given up and the running one is cancelled; if it is killed instead, the running one goes on, and the next
server sees it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from zoolens.base.store.target import STORE_VARIABLE, resolve
from zoolens.faces.ui.endpoint import NotFound, RequestError
from zoolens.faces.ui.jobs.folder import JobFolder, JobState, job_folder, job_folders, jobs_dir, make_job_folder
from zoolens.faces.ui.jobs.kinds import JobParameters
from zoolens.faces.ui.settings import TOKEN_VARIABLE, Settings

MOST_WAITING: Final = 100
_LOOK: Final = 0.5  # seconds between two looks at the running job
_LOST: Final = "It was lost: its process is gone."
_END: Final = 25.0  # seconds for the running job to end in good order


class JobBoard:
    """Use as a context manager; threads may share it."""

    def __init__(self, settings: Settings, root: Path | None = None) -> None:
        """`root`: where jobs lie, if not in the user's home."""
        self._settings = settings
        self._root = root or jobs_dir()  # as it is now, and the variables too: all jobs have the same
        self._environment = _environment(settings)
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._waiting: list[JobFolder] = []
        self._running: JobFolder | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def __enter__(self) -> JobBoard:
        for folder in job_folders(self._root):
            state = folder.state
            if folder.has_server():
                # Of another server, which attends to it.
                continue
            if state is JobState.RUNNING:
                self._running = folder  # of a server that was killed
            elif state is JobState.QUEUED:
                folder.write_cancelled()
                folder.write_end(None, "The server ended before it began.")
            elif folder.end() is None:
                folder.write_end(None, _LOST)
        self._thread = threading.Thread(target=self._attend, name="jobs", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._ended = True
            waiting, self._waiting = self._waiting, []
        self._wake.set()
        self._thread.join()
        for folder in waiting:
            folder.write_cancelled()
            folder.write_end(None, "The server ended before it began.")
        if self._running is not None:
            self._cancel_running(self._running)
            if self._process is not None:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_END)
                    self._has_ended(self._running)

    def start(self, parameters: JobParameters) -> JobFolder:
        """Queue a job; what it may not use is refused before."""
        parameters.check(self._settings.allowed)
        with self._lock:
            if self._ended or len(self._waiting) >= MOST_WAITING:
                raise RequestError("Too many jobs wait already.", status=429, hint="Cancel one, or wait.")
            asked = parameters.model_dump(mode="json")
            folder = make_job_folder(parameters.name, parameters.title, asked, parameters.arguments(), self._root)
            self._waiting.append(folder)
        self._wake.set()
        return folder

    def jobs(self) -> list[JobFolder]:
        """All jobs, newest first."""
        return job_folders(self._root)

    def job(self, job_id: str) -> JobFolder:
        folder = job_folder(job_id, self._root)
        if folder is None:
            raise NotFound(f"There is no job {job_id[:50]!r}.")
        return folder

    def cancel(self, job_id: str) -> JobFolder:
        """End a job that waits or runs. What it has measured is kept; one that has ended stays as it is."""
        folder = self.job(job_id)
        with self._lock:
            if folder in self._waiting:
                self._waiting.remove(folder)
                folder.write_cancelled()
                folder.write_end(None, "It was cancelled before it began.")
                return folder
        if folder.state is JobState.RUNNING:
            self._cancel_running(folder)
        return folder

    def _cancel_running(self, folder: JobFolder) -> None:
        supervisor = folder.supervisor()
        if supervisor is not None and folder.end() is None:
            folder.write_cancelled()
            with suppress(psutil.Error):
                supervisor.terminate()

    def _attend(self) -> None:
        while not self._ended:
            if self._running is not None and self._has_ended(self._running):
                self._running, self._process = None, None
            with self._lock:
                free = self._running is None and self._waiting and not self._is_busy()
                following = self._waiting.pop(0) if free else None
                if following is not None:
                    self._begin(following)
            self._wake.wait(_LOOK if self._running is not None or self._waiting else None)
            self._wake.clear()

    def _is_busy(self) -> bool:
        """Whether a job of another server of this user runs."""
        return any(folder.state is JobState.RUNNING for folder in job_folders(self._root))

    def _has_ended(self, folder: JobFolder) -> bool:
        if self._process is not None:
            if self._process.poll() is None:
                return False
        elif folder.supervisor() is not None:
            return False
        cancelled = folder.state is JobState.CANCELLED
        folder.write_end(None, "It was cancelled before it began." if cancelled else _LOST)
        return True

    def _begin(self, folder: JobFolder) -> None:
        command = [sys.executable, "-m", "zoolens.faces.ui.jobs.supervisor", str(folder.path)]
        quiet = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                command, stdin=quiet, stdout=quiet, stderr=quiet, env=self._environment, start_new_session=True
            )
            folder.write_process(psutil.Process(self._process.pid))
        except (OSError, psutil.Error) as error:
            folder.write_end(None, f"It could not be started: {error}.")
            return
        self._running = folder


def _environment(settings: Settings) -> dict[str, str]:
    """Returns the environment in which a command finds the same store and the same home, whatever folder it runs in."""
    environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    target = resolve(settings.store)
    if target.path is not None:
        environment[STORE_VARIABLE] = str(target.path)
    elif settings.store is not None:
        environment[STORE_VARIABLE] = str(settings.store)
    if home := environment.get("ZOOLENS_HOME"):
        environment["ZOOLENS_HOME"] = str(Path(home).absolute())
    return environment
