"""The files of models and datasets in a place that several machines reach, each under its SHA-256.

They lie beside the bulk facts that `ZOOLENS_BULK` names, in a folder or an object store. One that is there is never
changed; whoever reads it verifies it. So a file may be removed at any time: a job that lacks it says so, and whoever
sent the job puts it there again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from zoolens.base.errors import AssetError, StoreError
from zoolens.base.safety.untrusted import open_regular
from zoolens.base.store.bulk_folder import BulkFolder
from zoolens.base.store.bulk_place import BulkPlace
from zoolens.base.store.file_list import ListedFile
from zoolens.base.store.retry import patience
from zoolens.base.store.target import BULK_VARIABLE

PIECE: Final = 4 << 20  # bytes that are held of a file at once
_FOLDER: Final = "travelled"  # beside the folders of stores, whose names are hexadecimal
_AT_ONCE: Final = 8  # requests: small files wait for the answer of an object store, not for the network
_LISTED_FROM: Final = 64  # files; from so many on, one listing is quicker than a question for each

Moved = Callable[[int], None]  # told of bytes as they are moved


def named_place() -> str | None:
    """What `ZOOLENS_BULK` names: a folder, or the URL of an object store."""
    return os.environ.get(BULK_VARIABLE, "").strip() or None


def shared_files(named: str) -> SharedFiles:
    """The files in a place that is named as `ZOOLENS_BULK` names it. The URL of an object store that holds credentials
    is refused."""
    if "://" not in named:
        root = Path(named).expanduser().absolute()
        return SharedFiles(BulkFolder(root / _FOLDER), root)
    # It imports SQLAlchemy, which takes half a second.
    from zoolens.base.store.bulk_objects import bulk_objects

    return SharedFiles(bulk_objects(named, _FOLDER, patience()))


class SharedFiles:
    """`root`: the folder that must be there, where the place is one."""

    def __init__(self, place: BulkPlace, root: Path | None = None) -> None:
        self.place, self._root = place, root

    @property
    def reached(self) -> bool:
        """Whether a folder is there; an object store is found out about when it is asked."""
        return self._root is None or self._root.is_dir()

    def publish(self, files: Mapping[ListedFile, Path], moved: Moved | None = None, *, again: bool = False) -> int:
        """Put files there that it lacks, read from these paths; returns how many. `again`: also those that seem to be
        there, since a reader found that they are not."""
        by_content = {file.sha256: (file, path) for file, path in files.items()}
        known = set(self.place.names()) if len(by_content) >= _LISTED_FROM and not again else None

        def put(file: ListedFile, path: Path) -> bool:
            name = _name(file.sha256)
            unseen = again or (known is not None and name not in known)
            if not unseen and self.place.size(name) == file.size:
                if moved is not None:
                    moved(file.size)
                return False
            self.place.put_pieces(name, lambda: _pieces(file, path, moved))
            return True

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            done = [pool.submit(put, file, path) for file, path in by_content.values()]
            try:
                return sum(future.result() for future in done)
            except BaseException:
                for future in done:
                    future.cancel()
                raise

    def pieces(self, file: ListedFile) -> Iterator[bytes]:
        """The bytes of a file, which nobody has verified. FileNotFoundError: it is not there."""
        return self.place.pieces(_name(file.sha256), PIECE)

    def sweep(self, older_than: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Remove files that were put there this many seconds ago or earlier; the addresses of those that were removed,
        and of those that could not be."""
        removed: list[str] = []
        stuck: list[str] = []
        for name in self.place.names(older_than):
            (removed if self.place.remove(name) else stuck).append(self.place.address(name))
        return tuple(removed), tuple(stuck)


def sweep_travelled(older_than: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Does what `SharedFiles.sweep` does, in the place that `ZOOLENS_BULK` names."""
    named = named_place()
    if named is None:
        raise StoreError("No place is named through which files travel.", hint=f"Set {BULK_VARIABLE}.")
    return shared_files(named).sweep(older_than)


def _name(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256}"


def _pieces(file: ListedFile, path: Path, moved: Moved | None) -> Iterator[bytes]:
    """The content of a file, as long as it is the one that was listed."""
    digest, size = hashlib.sha256(), 0
    changed = AssetError(f"{path} was changed while it was read.", hint="Run the same command again.")
    try:
        with open_regular(path) as stream:
            while piece := stream.read(PIECE):
                digest.update(piece)
                size += len(piece)
                if size > file.size:
                    raise changed
                if size == file.size and digest.hexdigest() != file.sha256:
                    raise changed
                yield piece
                if moved is not None:
                    moved(len(piece))
    except OSError as error:
        raise AssetError(f"{path} cannot be read: {error.strerror or error}.") from error
    if size != file.size or digest.hexdigest() != file.sha256:
        raise changed
