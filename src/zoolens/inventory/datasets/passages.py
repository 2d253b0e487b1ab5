"""A plain text cut into passages, for models that foresee how a text goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.text_dataset import TextDataset, Truths
from zoolens.inventory.datasets.text_tables import read_content
from zoolens.inventory.datasets.truth import Truth

CONTINUATION: Final = "continuation"
_USUAL: Final = 2000  # bytes of a passage
_LEAST: Final = 16
_MOST: Final = 1 << 20
_ENDS: Final = ("\n", " ")  # where a passage may end, the better place first


def open_passages(location: str, *, size: str = str(_USUAL)) -> TextDataset:
    """A file of plain text in UTF-8. size: the most bytes of a passage; it ends behind a line where it can, else behind
    a space. All passages together are the file."""
    path = Path(location).expanduser()
    if not size.isdecimal() or not _LEAST <= int(size) <= _MOST:
        raise DatasetError(f"The size of a passage is a number of bytes from {_LEAST} to {_MOST:,}, not {size[:80]!r}.")
    passages = list(cut_passages(read_content(path), int(size)))
    if not any(passage.strip() for passage in passages):
        raise DatasetError(f"{path} has no text.")
    truths = [Truth(CONTINUATION, {"whole": np.array([True])})] * len(passages)
    return TextDataset(passages, name=path.stem, truths=Truths(CONTINUATION, truths))


def cut_passages(text: str, most: int) -> Iterator[str]:
    """Pieces of at most so many bytes of UTF-8, which are the text when they are put together."""
    content = text.encode("utf-8", "surrogatepass")
    start = 0
    while start < len(content):
        stop = _end(content, start, most)
        yield content[start:stop].decode("utf-8", "surrogatepass")
        start = stop


def _end(content: bytes, start: int, most: int) -> int:
    """Where the passage that begins at `start` ends."""
    stop = start + most
    if stop >= len(content):
        return len(content)
    for end in _ENDS:
        place = content.rfind(end.encode(), start, stop)
        # A passage of less than half the size would make many short ones.
        if place >= start + most // 2:
            return place + 1
    while content[stop] & 0xC0 == 0x80:  # within a character
        stop -= 1
    return stop
