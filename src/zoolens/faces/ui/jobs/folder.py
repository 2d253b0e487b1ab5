"""One job on disk: a folder in the user's home, so that every server, also the next one, can tell of it.

| file | holds |
| --- | --- |
| `job.json` | what was asked, and when |
| `process.json` | the process that supervises it, once it was started |
| `progress.jsonl` | what the command tells of its way (`zoolens.base.progress`) |
| `output.json` | what the command printed |
| `messages.txt` | what the command wrote on stderr |
| `end.json` | how it ended |
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import psutil

from zoolens.base.paths import data_dir, replaced_file

_ID: Final = re.compile(r"[0-9]{14}-[0-9a-f]{8}")
_MOST_MESSAGES: Final = 4000  # characters of stderr that are shown
_CLOCK_ERROR: Final = 2.0  # seconds


class JobState(StrEnum):
    """How far a job is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class JobFolder:
    """Everything about one job that is on disk. What is written is small, and replaced as a whole."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def progress_file(self) -> Path:
        return self.path / "progress.jsonl"

    @property
    def output_file(self) -> Path:
        return self.path / "output.json"

    @property
    def messages_file(self) -> Path:
        return self.path / "messages.txt"

    def asked(self) -> dict[str, Any]:
        return self._read("job.json") or {}

    def end(self) -> dict[str, Any] | None:
        return self._read("end.json")

    def write_process(self, process: psutil.Process) -> None:
        self._write("process.json", _named(process))

    def write_end(self, code: int | None, reason: str = "") -> None:
        """Say how it ended, unless that is known already. No code: it was never started, or it was lost."""
        if self.end() is None:
            self._write("end.json", {"code": code, "reason": reason, "ended": datetime.now(UTC).isoformat()})

    def write_cancelled(self) -> None:
        (self.path / "cancelled").touch()

    def supervisor(self) -> psutil.Process | None:
        """The living process that supervises it."""
        return _living(self._read("process.json"))

    def has_server(self) -> bool:
        """Whether the server that took it lives still: what it waits for is that server's business."""
        return _living(self.asked().get("server")) is not None

    @property
    def state(self) -> JobState:
        end = self.end()
        if end is None and not (self.path / "process.json").exists():
            return JobState.QUEUED
        if end is None and self.supervisor() is not None:
            return JobState.RUNNING
        if (self.path / "cancelled").exists():
            return JobState.CANCELLED
        return JobState.DONE if end is not None and end.get("code") == 0 else JobState.FAILED

    def messages(self) -> str:
        """The end of what the command said on stderr."""
        try:
            with self.messages_file.open("rb") as file:
                file.seek(0, 2)
                file.seek(max(0, file.tell() - _MOST_MESSAGES))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            content = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else None

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        with replaced_file(self.path / name) as file:
            file.write(json.dumps(content).encode())


def jobs_dir() -> Path:
    return data_dir().absolute() / "jobs"


def make_job_folder(
    kind: str, title: str, parameters: Mapping[str, Any], command: list[str], root: Path | None = None
) -> JobFolder:
    """A new job that waits for its turn. `root`: where jobs lie, if not in the user's home."""
    now = datetime.now(UTC)
    folder = JobFolder((root or jobs_dir()) / f"{now:%Y%m%d%H%M%S}-{secrets.token_hex(4)}")
    folder.path.mkdir(parents=True, mode=0o700)
    asked: dict[str, Any] = {
        "kind": kind,
        "title": title,
        "parameters": parameters,
        "command": command,
        "created": now.isoformat(),
    }
    asked["server"] = _named(psutil.Process())
    folder._write("job.json", asked)
    return folder


def job_folders(root: Path | None = None) -> list[JobFolder]:
    """All jobs, newest first."""
    try:
        paths = [path for path in (root or jobs_dir()).iterdir() if _ID.fullmatch(path.name)]
    except OSError:
        return []
    return [JobFolder(path) for path in sorted(paths, key=lambda path: path.name, reverse=True)]


def job_folder(job_id: str, root: Path | None = None) -> JobFolder | None:
    """The job of this id. Nothing else can be named by it."""
    folder = JobFolder((root or jobs_dir()) / job_id) if _ID.fullmatch(job_id) else None
    return folder if folder is not None and folder.path.is_dir() else None


def _named(process: psutil.Process) -> dict[str, Any]:
    return {"pid": process.pid, "began": process.create_time()}


def _living(known: Any) -> psutil.Process | None:
    """The process that was named so, if it lives. Another one that has its number by now is not it."""
    try:
        process = psutil.Process(known["pid"])
        same = abs(process.create_time() - known["began"]) < _CLOCK_ERROR
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.Error, KeyError, TypeError, ValueError):
        return None
