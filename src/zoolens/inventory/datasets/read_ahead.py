"""The first samples are decoded while a model is opened: its process takes a fifth of a second to start, or seconds."""

from __future__ import annotations

from threading import Event, Thread
from types import TracebackType
from typing import Final

from zoolens.inventory.datasets.dataset import Dataset, DatasetView, Sample

_MOST_BYTES: Final = 1 << 26  # of decoded samples that wait


class ReadAhead(DatasetView):
    """A view of a dataset. In its `with` block one thread reads samples from `start` on, which are then at hand."""

    def __init__(self, parent: Dataset, start: int = 0) -> None:
        super().__init__(parent)
        self._start = start
        self._samples: dict[int, Sample] = {}
        self._stop = Event()
        self._thread: Thread | None = None

    def __enter__(self) -> ReadAhead:
        # What lies in memory needs no time to be read.
        if self.parent.encoded:
            self._thread = Thread(target=self._read, name="zoolens-read-ahead", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def read(self, index: int) -> Sample:
        sample = self._samples.pop(index, None)
        return self.parent.read(index) if sample is None else sample

    def _read(self) -> None:
        room = _MOST_BYTES
        for index in range(self._start, len(self.parent)):
            if self._stop.is_set() or room < 0:
                return
            try:
                sample = self.parent.read(index)
            except Exception:
                return  # it is raised when the sample is due
            room -= sample.value.nbytes
            self._samples[index] = sample
