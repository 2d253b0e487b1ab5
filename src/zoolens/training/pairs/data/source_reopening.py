"""Opens the batches of a paired training in another process, from what their source said of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from zoolens.training.pairs.data.sources import ArraySource, BatchSource
from zoolens.training.pairs.data.stream import RecordedStream


def open_source(description: Mapping[str, Any]) -> BatchSource:
    """The source that another process described."""
    return _KINDS[str(description["kind"])](description)


def _open_arrays(given: Mapping[str, Any]) -> BatchSource:
    return ArraySource(
        Path(given["folder"]), tuple(given["shape"]), given["batch"], given["augmentation"], given["name"],
        given["fingerprint"],
    )  # fmt: skip


def _open_recorded(given: Mapping[str, Any]) -> BatchSource:
    return RecordedStream.open(Path(given["folder"]))


_KINDS: Final[dict[str, Callable[[Mapping[str, Any]], BatchSource]]] = {
    ArraySource.kind: _open_arrays,
    RecordedStream.kind: _open_recorded,
}
