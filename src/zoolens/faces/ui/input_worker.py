"""The process that opens the data of a run and makes inputs visible: sandboxed, since files of data are of strangers.

What it reads is compared with what it was when its content was checked: sizes, times and names of all files, after
each reading. A file that was replaced meanwhile is therefore never shown as the input of the run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.service import Message, Service

MEMORY: Final = 4 << 30  # bytes
MOST_FILES: Final = 2_000_000  # that are looked at to see whether something changed


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    service = Service(settings, began_ns)
    inputs = _Inputs(service)
    answers = {"open": inputs.open, "read": inputs.read}
    service.serve_named(answers, _doing)


def _doing(request: Message) -> str:
    return "Opening the data" if request["do"] == "open" else "Reading inputs"


class _Inputs:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._dataset: Any = None
        self._place: Path | None = None
        self._files = ""

    def open(self, request: Message) -> Any:
        """Open the data; the answer has the fingerprint of what is there."""
        from zoolens.inventory.datasets.opening import open_dataset, parse_spec

        _, location, _ = parse_spec(request["data"])
        self._place = Path(location).expanduser() if location else None
        self._files = files_digest(self._place)
        self._dataset = open_dataset(request["data"], limit=request["limit"], seed=request["seed"])
        return {"fingerprint": self._dataset.fingerprint(), "inputs": len(self._dataset)}

    def read(self, request: Message) -> Any:
        """Inputs by their places. `changed`: the files are no longer those that were opened; nothing is returned."""
        shown, pictures = [], {}
        for index in request["indices"]:
            about, png = self._shown(index)
            shown.append(about)
            if png is not None:
                pictures[str(index)] = png
        if files_digest(self._place) != self._files:
            return {"changed": True}
        return {"changed": False, "shown": shown, "tensors": self._service.outputs.write(pictures)}

    def _shown(self, index: int) -> tuple[dict[str, Any], Any]:
        import numpy as np

        from zoolens.base.errors import DatasetError
        from zoolens.inventory.datasets.previews import picture_of

        try:
            sample = self._dataset.read(index)
            picture = picture_of(sample.value)
        except DatasetError as error:
            return {"index": index, "name": "", "words": error.message}, None
        content = None if picture.png is None else np.frombuffer(picture.png, np.uint8)
        about = {"index": index, "name": sample.id, "words": picture.words, "size": list(picture.size)}
        parts = {
            name: getattr(picture, name) for name in ("tokens", "more_tokens", "texts", "whole", "wave", "seconds")
        }
        return {**about, **parts}, content


def files_digest(place: Path | None) -> str:
    """A digest of the names, sizes, times and numbers of the files at a place: it changes when one of them does. Empty
    for data that come with zoolens."""
    if place is None:
        return ""
    digest = hashlib.sha256()
    for number, entry in enumerate(_files(str(place))):
        if number > MOST_FILES:
            raise OSError(f"more than {MOST_FILES:,} files are at {place}")
        digest.update(repr(entry).encode())
    return digest.hexdigest()


def _files(place: str) -> Iterator[tuple[object, ...]]:
    """Links are followed, as those who read the data follow them; every folder is walked once."""
    yield _identity(place)
    folders, seen = [place] if os.path.isdir(place) else [], set()  # noqa: PTH112 - a Path for every file is slow
    while folders:
        with os.scandir(folders.pop()) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            identity = _identity(entry.path)
            yield entry.name, *identity
            if entry.is_dir() and identity not in seen:
                seen.add(identity)
                folders.append(entry.path)


def _identity(path: str) -> tuple[object, ...]:
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path for every file is slow
    except OSError:
        return ("gone",)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
