"""Keras files judged by how large they are once read: HDF5 packs, shares and borrows what it stores.

A dataset of gigabytes may take a kilobyte in the file: compressed, never written (it then reads as its fill value), or
kept in another file that the attacker would like to have read.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import (
    UNPACKED_AT_LEAST,
    UNPACKED_RATIO,
    open_archive,
    open_entry,
    open_regular,
    read_entry,
)
from zoolens.inventory.runtimes.runtime import ModelFiles

_MAX_OBJECTS: Final = 1_000_000
_WEIGHTS: Final = ".weights.h5"
_REMEDY: Final = "Save the model again, with all of its weights in the file itself."


def check_sizes(model: ModelFiles) -> None:
    """Refuse a .keras or .h5 file whose weights are far larger in memory than in the file, or lie elsewhere."""
    path = model.path()
    try:
        if model.format == "keras-h5":
            with open_regular(path) as file:
                _check_hdf5(path, file, path.stat().st_size)
        elif model.format == "keras":
            with open_archive(path) as archive:
                _check_weights(path, archive)
    except (OSError, zipfile.BadZipFile, RuntimeError, LookupError, ValueError, TypeError, ArithmeticError) as error:
        # h5py raises all of these for damaged files
        raise ModelError(
            f"{path.name} is not a complete {model.format} file: {error}.", hint="Fetch it again."
        ) from error


def _check_weights(path: Path, archive: zipfile.ZipFile) -> None:
    for entry in archive.infolist():
        if not entry.filename.endswith(_WEIGHTS):
            continue
        if entry.compress_type == zipfile.ZIP_STORED:
            with open_entry(archive, entry) as file:
                _check_hdf5(path, file, entry.file_size)  # type: ignore[arg-type]
        else:
            # HDF5 is read here and there, which unpacking from the start each time would make slow.
            content = read_entry(archive, entry.filename, max(UNPACKED_AT_LEAST, UNPACKED_RATIO * entry.compress_size))
            _check_hdf5(path, io.BytesIO(content), entry.file_size)


def _check_hdf5(path: Path, file: BinaryIO, stored: int) -> None:
    import h5py

    limit = max(UNPACKED_AT_LEAST, UNPACKED_RATIO * stored)
    total = 0
    with h5py.File(file, "r") as opened:
        for dataset in _datasets(h5py, path, opened):
            total += int(dataset.size or 0) * dataset.dtype.itemsize
            if total > limit:
                raise ModelError(f"{path.name} unpacks to more than {limit:,} bytes.", hint=_REMEDY)


def _datasets(h5py: Any, path: Path, root: Any) -> Iterator[Any]:
    """Yields every HDF5 dataset once; ModelError if one, or a link, points to another file."""
    waiting, seen = [root], set()
    while waiting:
        group = waiting.pop()
        for name in group:
            if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
                raise ModelError(f"{path.name} has a link to another file, {str(name)[:60]!r}.", hint=_REMEDY)
            if isinstance(group.get(name, getlink=True), h5py.SoftLink):
                # It leads to something that is met by its own name, or nowhere.
                continue
            item = group[name]
            place = h5py.h5o.get_info(item.id).addr
            if place in seen:
                continue
            seen.add(place)
            if len(seen) > _MAX_OBJECTS:
                raise ModelError(f"{path.name} holds more than {_MAX_OBJECTS:,} objects.", hint=_REMEDY)
            if isinstance(item, h5py.Group):
                waiting.append(item)
            elif isinstance(item, h5py.Dataset):
                if item.external or item.is_virtual:
                    raise ModelError(f"{path.name} keeps {str(name)[:60]!r} in another file.", hint=_REMEDY)
                yield item
