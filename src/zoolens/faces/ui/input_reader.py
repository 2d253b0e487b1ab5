"""The inputs of stored runs for the eye, read where the run found them: only as long as they are still the same.

with InputReader(allowed=[Path("/data")]) as reader:
    seen = reader.look(run, [3, 7])
    seen.state, seen.sentence, [shown.png for shown in seen.inputs]

Data are opened and checked in sandboxed processes, of which the last two stay open. To check data of many gigabytes
takes minutes: meanwhile `look` says so instead of waiting.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.policy import Rights
from zoolens.base.engine.process import WorkerKind, WorkerProcess
from zoolens.base.errors import ZoolensError
from zoolens.base.recent_values import RecentValues
from zoolens.base.store.records import Run
from zoolens.faces.ui import input_worker
from zoolens.faces.ui.endpoint import NotFound, RequestError
from zoolens.faces.ui.jobs.permissions import check_data
from zoolens.findings.comparisons.origins import DataOrigin, data_changed, data_origin
from zoolens.inventory.datasets.previews import BARS, LETTERS_OF_PAIR, LETTERS_OF_WHOLE, WORDS

MOST_OPEN: Final = 2
KEPT: Final = 600  # inputs that were made visible, of about 30 kB each
_OPENING: Final = 900.0  # seconds
_READING: Final = 30.0
_PATIENCE: Final = 2.0  # seconds that somebody waits for data to be opened before he is told that it takes longer
_FAILED: Final = 5.0  # seconds after which data that could not be opened are tried again
_LARGEST: Final = 1 << 20  # bytes of a picture
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_MODULE: Final = input_worker.__name__
_WORDS: Final = 1000  # letters


class InputState(StrEnum):
    READY = "ready"
    OPENING = "opening"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True)
class ShownInput:
    """One input as a page shows it."""

    index: int
    # What the data call the input now
    name: str
    # What the input is, in words
    words: str
    # None where it is no image
    png: bytes | None
    # Of the image in its own pixels, of which the picture may have fewer
    width: int = 0
    height: int = 0
    # The words of a text that its dataset splits, both texts of a pair, the bars of a waveform and its length
    tokens: tuple[str, ...] = ()
    more_tokens: int = 0
    texts: tuple[str, ...] = ()
    # All of one text that is not too long
    whole: str = ""
    wave: tuple[float, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class InputsSeen:
    """The inputs that were asked for, or why there are none."""

    state: InputState
    # Why there are no inputs, or not yet
    sentence: str = ""
    inputs: tuple[ShownInput, ...] = ()


@dataclass(frozen=True)
class InputSource:
    """Which inputs somebody speaks of."""

    # Such as "run 1a2b3c4d"
    whose: str
    origin: DataOrigin
    # The fingerprint of their content
    fingerprint: str
    count: int


class InputReader:
    """Use as a context manager; threads may share it. `allowed`: folders in which data may lie; those that come with
    zoolens need none."""

    def __init__(self, allowed: Sequence[Path] = ()) -> None:
        self._allowed = tuple(allowed)
        self._lock = threading.Lock()
        self._open: OrderedDict[DataOrigin, _OpenData] = OrderedDict()
        self._recent: RecentValues[tuple[str, int], ShownInput] = RecentValues(KEPT)  # by fingerprint of the data

    def __enter__(self) -> InputReader:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            gone = list(self._open.values())
            self._open.clear()
        for data in gone:
            data.close()

    def look(self, run: Run, indices: Sequence[int], *, patience: float = _PATIENCE) -> InputsSeen:
        """The inputs of a run at these places, or why they cannot be seen. Waits no longer than `patience` seconds for
        data that are being opened."""
        whose = f"run {run.id[:8]}"
        _check_places(whose, run.inputs, indices)
        try:
            origin = data_origin(run)
        except ZoolensError as error:
            return InputsSeen(InputState.UNAVAILABLE, str(error))
        source = InputSource(whose, origin, run.dataset.fingerprint, run.inputs)
        return self.look_into(source, indices, patience=patience)

    def look_into(self, source: InputSource, indices: Sequence[int], *, patience: float = _PATIENCE) -> InputsSeen:
        """Look at inputs whose source is known, whoever answered them."""
        _check_places(source.whose, source.count, indices)
        try:
            self._check(source)
            return self._look(source, indices, patience)
        except ZoolensError as error:
            return InputsSeen(InputState.UNAVAILABLE, str(error))

    def _check(self, source: InputSource) -> None:
        origin = source.origin
        try:
            check_data(origin.data, self._allowed)
        except RequestError as error:
            raise RequestError(
                f"The explorer may not read the dataset of {source.whose}, {origin.data[:_WORDS]!r}.",
                status=error.status,
                hint="Start it with `zoolens ui --allow FOLDER` for a folder that they lie in.",
            ) from error

    def _look(self, source: InputSource, indices: Sequence[int], patience: float) -> InputsSeen:
        origin, fingerprint = source.origin, source.fingerprint
        if indices and (kept := self._all_kept(fingerprint, indices)):
            return InputsSeen(InputState.READY, inputs=kept)
        for _ in range(2):  # once more where the files have changed since they were opened
            data = self._data(origin)
            if not data.wait(patience):
                what = f"Whether the data are still those of {source.whose} is being checked"
                return InputsSeen(InputState.OPENING, f"{what}, which takes a while for large datasets.")
            known = data.fingerprint() == fingerprint
            read = self._read(origin, data, indices if known else ())
            if read is not None:
                if not known:
                    raise data_changed(source.whose, origin.data)
                for shown in read:
                    self._recent.put((fingerprint, shown.index), shown)
                return InputsSeen(InputState.READY, inputs=read)
        raise RequestError("The files of the dataset change while they are read.", hint="Try again later.")

    def _read(self, origin: DataOrigin, data: _OpenData, indices: Sequence[int]) -> tuple[ShownInput, ...] | None:
        """Reads inputs; None: the files are no longer those that were opened. They are opened again when somebody
        asks."""
        try:
            read = data.read(indices)
        except ZoolensError:
            self._forget(origin, data)
            raise
        if read is None:
            self._forget(origin, data)
        return read

    def _data(self, origin: DataOrigin) -> _OpenData:
        with self._lock:
            data = self._open.get(origin)
            if data is None or data.outdated:
                data = self._open[origin] = _OpenData(origin, self._allowed)
            self._open.move_to_end(origin)
            oldest = [self._open.popitem(last=False)[1] for _ in range(len(self._open) - MOST_OPEN)]
        for other in oldest:
            other.close()
        return data

    def _forget(self, origin: DataOrigin, data: _OpenData) -> None:
        with self._lock:
            if self._open.get(origin) is data:
                del self._open[origin]
        data.close()

    def _all_kept(self, fingerprint: str, indices: Sequence[int]) -> tuple[ShownInput, ...]:
        """All of these inputs, or none: what was seen of data with this fingerprint is true for ever."""
        known = [self._recent.get((fingerprint, index)) for index in indices]
        shown = tuple(given for given in known if given is not None)
        return shown if len(shown) == len(known) else ()


def _check_places(whose: str, count: int, indices: Sequence[int]) -> None:
    if any(not 0 <= index < count for index in indices):
        owner = whose[:1].upper() + whose[1:]
        raise NotFound(f"{owner} has {count:,} inputs; they are counted from 0.")


class _OpenData:
    """Data in a process of their own, which a thread opens."""

    def __init__(self, origin: DataOrigin, allowed: Sequence[Path]) -> None:
        self._origin, self._allowed = origin, allowed
        self._worker: WorkerProcess | None = None
        self._fingerprint = ""
        self._error: ZoolensError | None = None
        self._ended_at = 0.0
        self._closed = False
        self._ready, self._reading = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._open, name="data of a run", daemon=True)
        self._thread.start()

    @property
    def outdated(self) -> bool:
        """Whether it is worth another try: it failed a while ago."""
        return self._ready.is_set() and self._error is not None and time.monotonic() - self._ended_at > _FAILED

    def wait(self, seconds: float) -> bool:
        return self._ready.wait(seconds)

    def fingerprint(self) -> str:
        """Returns the fingerprint of what lies there. Raises what kept the data from being opened."""
        if self._error is not None:
            raise self._error
        return self._fingerprint

    def read(self, indices: Sequence[int]) -> tuple[ShownInput, ...] | None:
        doing = "reading inputs"
        if not self._reading.acquire(timeout=_READING):
            raise RequestError("The inputs are being read for somebody else.", status=503, hint="Try again.")
        try:
            worker = self._worker
            if worker is None:
                raise RequestError("The dataset was closed meanwhile.", status=503, hint="Try again.")
            answer = worker.ask({"do": "read", "indices": list(indices)}, doing, timeout=_READING)
            with worker.sensible(doing):
                if answer["changed"]:
                    return None
                layout = answer["tensors"]
                pictures = worker.outputs.read(layout, _LARGEST * len(indices)) if layout else {}
                return tuple(_shown(about, pictures) for about in answer["shown"])
        finally:
            self._reading.release()

    def close(self) -> None:
        self._closed = True
        if self._worker is not None:
            # Whoever waits for its answer gets an error.
            self._worker.kill()
        self._thread.join()
        with self._reading:
            if self._worker is not None:
                self._worker.stop()
                self._worker = None

    def _open(self) -> None:
        origin = self._origin
        try:
            self._worker = worker = WorkerProcess(_kind(self._allowed))
            if self._closed:
                worker.kill()
            asked = {"do": "open", "data": origin.data, "limit": origin.limit, "seed": origin.seed}
            self._fingerprint = str(worker.ask(asked, "opening the data", timeout=_OPENING)["fingerprint"])
        except ZoolensError as error:
            self._error = error
        except (TypeError, LookupError) as error:
            self._error = ZoolensError(f"The dataset could not be opened: {error}.")
        finally:
            self._ended_at = time.monotonic()
            self._ready.set()


def _kind(allowed: Sequence[Path]) -> WorkerKind:
    rights = Rights(files=tuple(str(folder.resolve()) for folder in allowed), memory=input_worker.MEMORY)
    return WorkerKind("process that reads inputs", _MODULE, _MODULE, rights=rights)


def _shown(about: Mapping[str, Any], pictures: Mapping[str, Any]) -> ShownInput:
    """A copy of what the process has sent. ValueError: that is no picture."""
    index = int(about["index"])
    name, words = str(about["name"])[:_WORDS], str(about["words"])[:_WORDS]
    sent = pictures.get(str(about["index"]))
    if sent is None:
        return ShownInput(index, name, words, None, **_more(about))
    png = sent.tobytes()
    if not png.startswith(_PNG) or len(png) > _LARGEST:
        raise ValueError("something that is not a picture")
    width, height = (int(extent) for extent in about.get("size", (0, 0)))
    return ShownInput(index, name, words, png, width, height)


def _more(about: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a text and the bars of a waveform, no longer than they should be."""
    seconds = float(about.get("seconds", 0))
    bars = [float(bar) for bar in about.get("wave", ())[:BARS]]
    if not all(map(math.isfinite, (seconds, *bars))):
        raise ValueError("a sound that has no length")
    return {
        "tokens": tuple(str(token)[:_WORDS] for token in about.get("tokens", ())[:WORDS]),
        "more_tokens": max(int(about.get("more_tokens", 0)), 0),
        "texts": tuple(str(text)[:LETTERS_OF_PAIR] for text in about.get("texts", ())[:2]),
        "whole": str(about.get("whole", ""))[:LETTERS_OF_WHOLE],
        "wave": tuple(min(max(bar, 0.0), 1.0) for bar in bars),
        "seconds": max(seconds, 0.0),
    }
