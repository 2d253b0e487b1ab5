"""Files that came from other machines, kept on this one: each once under its SHA-256, and laid out in folders.

A folder is laid out with hard links to the kept files, so that readers see ordinary files inside it. It is made under
another name and then renamed: whoever is killed leaves a folder that nobody uses, and files that are complete. A lock
on a file says who makes a folder (alone) or reads it (with others); the kernel gives locks of a killed process back.

What takes more room than `ZOOLENS_FILE_CACHE` is removed, the folder first that was not read for the longest time.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from zoolens.base.errors import AssetError, Lacking, ZoolensError
from zoolens.base.paths import cache_dir
from zoolens.base.store.file_list import FileList, ListedFile
from zoolens.base.store.shared_files import Moved, SharedFiles

if sys.platform != "win32":
    import fcntl

SIZE_VARIABLE: Final = "ZOOLENS_FILE_CACHE"
_DEFAULT_SIZE: Final = 50 * 10**9  # bytes
_UNITS: Final = {"": 1, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BUILDING, _LOCK, _PART = ".building", ".lock", ".part"
_GIVEN_UP: Final = 3600.0  # seconds; a download writes more often than that
_TRIES: Final = 5  # somebody may remove a folder between the moment it is made and the moment we lock it


def cache_size() -> int:
    """The bytes that files of other machines may take on this one."""
    text = os.environ.get(SIZE_VARIABLE, "").strip()
    if not text:
        return _DEFAULT_SIZE
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    unit = _UNITS.get(found.group(2).upper()) if found else None
    if found is None or unit is None:
        raise ZoolensError(
            f"{SIZE_VARIABLE} is {text!r}, which is not a size.", hint="Set it to, say, 200GB, or unset it."
        )
    return int(float(found.group(1)) * unit)


class FileCache:
    """Safe to use by many threads and processes of a machine at once. `size`: bytes."""

    def __init__(self, root: Path | None = None, size: int | None = None) -> None:
        self._root = cache_dir() / "travelled" if root is None else root
        self._size = cache_size() if size is None else size
        self._kept, self._folders = self._root / "kept", self._root / "folders"

    @contextmanager
    def laid_out(self, wanted: FileList, source: SharedFiles | None, moved: Moved | None = None) -> Iterator[Path]:
        """A folder with these files, which is not removed before the end of the `with`. What is not here is read from
        `source` and verified. Lacking: it is not there either, or there is another file in its place."""
        if wanted.bytes > self._size:
            raise AssetError(
                f"The files need {wanted.bytes / 1e9:.3g} GB, and {SIZE_VARIABLE} allows {self._size / 1e9:.3g} GB.",
                hint=f"Set {SIZE_VARIABLE} on the node to more.",
            )
        with ExitStack() as stack:
            folder, made = self._held(stack, wanted, source, moved)
            yield folder
        if made:
            # To look at all that is kept takes a second for a hundred thousand files: not after every job.
            self.prune()

    def _held(
        self, stack: ExitStack, wanted: FileList, source: SharedFiles | None, moved: Moved | None
    ) -> tuple[Path, bool]:
        """The folder, and whether it was made now."""
        name, made = wanted.digest, False
        folder, lock = self._folders / name, self._folders / f"{name}{_LOCK}"
        for _ in range(_TRIES):
            reading = ExitStack()
            # Waits for whoever makes the folder at the moment.
            reading.enter_context(_locked(lock, alone=False))
            if folder.is_dir():
                stack.push(reading.pop_all())
                os.utime(lock)  # it is read now: the oldest is removed first
                return folder, made
            reading.close()
            with _locked(lock, alone=True):
                if not folder.is_dir():
                    self.prune(room=self._missing(wanted))
                    self._make(folder, wanted, source, moved)
                    made = True
        raise AssetError(f"{folder} was removed each time it was made.", hint=f"Raise {SIZE_VARIABLE} on the node.")

    def _missing(self, wanted: FileList) -> int:
        sizes = {file.sha256: file.size for file in wanted.files}
        return sum(size for sha256, size in sizes.items() if not self._place(sha256).exists())

    def _make(self, folder: Path, wanted: FileList, source: SharedFiles | None, moved: Moved | None) -> None:
        building = folder.with_name(f"{folder.name}{_BUILDING}")
        _remove_tree(building)  # of a process that was killed
        try:
            building.mkdir(parents=True)
            for path in wanted.empty:
                (building / path).mkdir(parents=True)
            for file in wanted.files:
                self._lay(file, building / file.path, source, moved)
            building.rename(folder)
        except OSError as error:
            _remove_tree(building)
            raise AssetError(
                f"{folder} cannot be written: {error.strerror or error}.", hint="Is there room on the disk?"
            ) from error
        except BaseException:
            _remove_tree(building)
            raise

    def _lay(self, file: ListedFile, target: Path, source: SharedFiles | None, moved: Moved | None) -> None:
        """One file of a folder. Whoever prunes may remove a kept file before it is linked."""
        target.parent.mkdir(parents=True, exist_ok=True)
        kept = self._place(file.sha256)
        for _ in range(_TRIES):
            if not self._whole(kept, file):
                self._fetch(kept, file, source, moved)
            elif moved is not None:
                moved(file.size)
            with suppress(FileNotFoundError):
                _link(kept, target)
                return
        raise AssetError(f"{kept} was removed each time it was fetched.", hint=f"Raise {SIZE_VARIABLE} on the node.")

    def _whole(self, kept: Path, file: ListedFile) -> bool:
        """Whether a file is kept that was complete when it got its name, and still has its length."""
        try:
            if kept.stat().st_size == file.size:
                return True
        except FileNotFoundError:
            return False
        # A disk that lost its last writes in a power failure.
        with suppress(OSError):
            kept.unlink()
        return False

    def _fetch(self, kept: Path, file: ListedFile, source: SharedFiles | None, moved: Moved | None) -> None:
        if source is None:
            raise Lacking(f"{file.path} is not on this machine.")
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_name(f"{kept.name}.{secrets.token_hex(4)}{_PART}")
        try:
            with part.open("xb") as target:
                _copy_verified(file, source, target, moved)
                target.flush()
                os.fsync(target.fileno())
            part.chmod(0o444)  # its links in folders are the same file
            part.rename(kept)
        finally:
            with suppress(OSError):
                part.unlink()

    def _place(self, sha256: str) -> Path:
        return self._kept / sha256[:2] / sha256

    # --- room

    def prune(self, room: int = 0) -> None:
        """Remove what takes too much room if `room` bytes come in: folders that nobody reads, those first that were not
        read for the longest time, and the kept files that are in no folder any more."""
        used = self._used()
        if used + room <= self._size:
            return
        for removed in self._folders.glob(".*"):  # by a process that was killed before it was done
            shutil.rmtree(removed, ignore_errors=True)
        used -= self._remove_unlinked(used + room - self._size)
        for lock in sorted(self._folders.glob(f"*{_LOCK}"), key=_written):
            if used + room <= self._size:
                return
            if self._remove_folder(lock):
                used -= self._remove_unlinked(used + room - self._size)

    def _used(self) -> int:
        """Bytes of the kept files, and of what was begun. Folders are links to them."""
        total = 0
        for path in self._kept.glob("*/*"):
            with suppress(OSError):
                status = path.stat()
                if path.suffix == _PART and time.time() - status.st_mtime > _GIVEN_UP:
                    path.unlink()
                    continue
                total += status.st_size
        return total

    def _remove_folder(self, lock: Path) -> bool:
        """Whether a folder was removed: not one that somebody reads or makes."""
        with _locked(lock, alone=True, wait=False) as held:
            if held is None:
                return False
            folder = lock.with_suffix("")
            for path in (folder, folder.with_name(f"{folder.name}{_BUILDING}")):
                _remove_tree(path)
            with suppress(OSError):
                lock.unlink()
        return True

    def _remove_unlinked(self, enough: int) -> int:
        """Removes files that are in no folder, the oldest first, until this many bytes are free; returns the bytes."""
        freed = 0
        for path in sorted(self._kept.glob("*/*"), key=_written):
            if freed >= enough:
                break
            with suppress(OSError):
                status = path.stat()
                if status.st_nlink == 1 and path.suffix != _PART:
                    path.unlink()
                    freed += status.st_size
        return freed


def _copy_verified(file: ListedFile, source: SharedFiles, target: IO[bytes], moved: Moved | None) -> None:
    digest, size = hashlib.sha256(), 0
    try:
        for piece in source.pieces(file):
            size += len(piece)
            # A size that lies is found without reading all of it.
            if size > file.size:
                break
            digest.update(piece)
            target.write(piece)
            if moved is not None:
                moved(len(piece))
    except FileNotFoundError as error:
        raise Lacking(f"{source.place.name} has no file for {file.path}.") from error
    if size != file.size or digest.hexdigest() != file.sha256:
        raise Lacking(
            f"{source.place.name} has another file in the place of {file.path}: its content is not what the list says."
        )


def _link(kept: Path, target: Path) -> None:
    try:
        os.link(kept, target)
    except FileNotFoundError:
        raise
    except OSError:
        # A file system without hard links, or a file that has as many as it may have.
        shutil.copyfile(kept, target)
        target.chmod(0o444)


@contextmanager
def _locked(path: Path, *, alone: bool, wait: bool = True) -> Iterator[IO[bytes] | None]:
    """Hold the lock of a file, which whoever holds it alone may remove. None: others hold it, and `wait` is False."""
    if sys.platform == "win32":
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            yield file
        return
    how = (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB)
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            try:
                fcntl.flock(file, how)
            except BlockingIOError:
                yield None
                return
            if _is_at(file, path):
                yield file
                return
            # It was removed while we waited: its lock says nothing to those who open it now.
            if not wait:
                yield None
                return


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _remove_tree(folder: Path) -> None:
    if not folder.exists():
        return
    # Under another name first: whoever looks sees all of a folder or none.
    away = folder.with_name(f".{secrets.token_hex(8)}")
    with suppress(OSError):
        folder.rename(away)
        shutil.rmtree(away, ignore_errors=True)
