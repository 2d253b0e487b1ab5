"""Scratch folders of workers, which are gone afterwards, whatever becomes of us.

They lie in one folder of this process. We remove it when we exit; if we are killed, a small shell that waits for our
end does. A worker cannot do that itself: its sandbox does not let it remove a folder from the temporary folder.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zoolens.base.errors import WorkerError

# Its input ends when the last process that holds the other end does. A worker may write for a moment longer.
_REMOVE_AT_THE_END: Final = 'cat >/dev/null; for _ in 1 2 3 4 5; do rm -rf -- "$1" && exit; sleep 1; done'

_lock = threading.Lock()


@dataclass(frozen=True)
class _Root:
    owner: int
    folder: Path
    cleaner: subprocess.Popen[bytes] | None


_root: _Root | None = None


def make_scratch() -> Path:
    """An empty folder that only this user can enter."""
    try:
        with _lock:
            root = _current()
        return Path(tempfile.mkdtemp(dir=root.folder))
    except OSError as error:
        raise WorkerError(
            f"A worker needs a folder for temporary files, and none can be made: {error.strerror or error}.",
            hint="Make room, or set TMPDIR to a folder that can be written to.",
        ) from error


def kept_scratch(name: str) -> Path:
    """A folder that stays while this process does, the same one for the same name."""
    with _lock:
        folder = _current().folder / f"kept-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def remove_scratch(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _current() -> _Root:
    global _root
    if _root is None or _root.owner != os.getpid() or not _root.folder.is_dir():  # a fork has its own
        folder = Path(tempfile.mkdtemp(prefix="zoolens-")).resolve()
        _root = _Root(os.getpid(), folder, _cleaner(folder))
        atexit.register(_remove, _root)
    return _root


def _cleaner(folder: Path) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _REMOVE_AT_THE_END, "sh", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Its own session: Ctrl-C in the terminal must not end the shell before it has cleaned up.
            start_new_session=True,
            cwd="/",
        )
    except OSError:
        # No shell: then we remove it when we exit, and not when we are killed.
        return None


def _remove(root: _Root) -> None:
    if root.owner != os.getpid():
        return
    shutil.rmtree(root.folder, ignore_errors=True)
    if root.cleaner is not None and root.cleaner.stdin is not None:
        root.cleaner.stdin.close()
        root.cleaner.wait()
