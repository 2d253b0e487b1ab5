"""One image through one model: what the page *Live* asks for, model by model.

Images are decoded in a sandboxed process, and models are opened in sandboxed processes that stay open for the next
image. The model that was not used for longest is closed for a new one.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.catalog.sessions import Placement, place
from zoolens.engine.process import Rights, WorkerKind, WorkerProcess
from zoolens.errors import ModelError, WorkerError
from zoolens.preprocess.outputs import build_scores, labels_of
from zoolens.preprocess.pipeline import Prepare, build_prepare
from zoolens.runtimes.base import Options
from zoolens.runtimes.isolated import IsolatedSession
from zoolens.tasks.base import task_named
from zoolens.ui import image_worker

Pixels = NDArray[np.uint8]

MOST_OPEN: Final = 4
_DECODING: Final = 20.0  # seconds
_MOST_PIXEL_BYTES: Final = 1 << 28
_MODULE: Final = image_worker.__name__
_DECODER: Final = WorkerKind("process that decodes images", _MODULE, _MODULE, rights=Rights(memory=image_worker.MEMORY))


@dataclass(frozen=True)
class ClassScore:
    """A class and how probable the model says it is. `label` is empty where the manifest names no classes."""

    index: int
    label: str
    probability: float


@dataclass(frozen=True)
class LiveAnswer:
    """`seconds`: of this one call, which measures nothing. `opened`: the model was opened for it."""

    model: str
    runtime: str
    classes: tuple[ClassScore, ...]
    seconds: float
    opened: bool


@dataclass
class _Opened:
    placement: Placement
    session: IsolatedSession
    prepare: Prepare
    scores: Callable[[NDArray[Any]], NDArray[np.float32]]
    labels: tuple[str, ...] | None
    output: str
    lock: threading.Lock = field(default_factory=threading.Lock)


class LiveModels:
    """Use as a context manager; threads may share it."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, str], _Opened] = OrderedDict()
        self._lock = threading.Lock()
        self._decoder: WorkerProcess | None = None
        self._decoding = threading.Lock()

    def __enter__(self) -> LiveModels:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            for opened in self._open.values():
                opened.session.close()
            self._open.clear()
        if self._decoder is not None:
            self._decoder.stop()

    def decode(self, content: bytes) -> Pixels:
        """The pixels of an encoded image, height × width × 1 or 3. DatasetError says why there are none."""
        tensors = {"content": np.frombuffer(content, np.uint8)}
        with self._decoding:
            if self._decoder is None or not self._decoder.alive:
                self._decoder = WorkerProcess(_DECODER)
            doing = "decoding an image"
            answer = self._decoder.ask({"do": "decode"}, doing, tensors, timeout=_DECODING)
            try:
                return _pixels(self._decoder.outputs.read(answer["tensors"], _MOST_PIXEL_BYTES)["pixels"])
            except (TypeError, ValueError, LookupError) as error:
                raise self._decoder.nonsense(error, doing) from error

    def answer(self, model: str, runtime: str | None, pixels: Pixels, most: int) -> LiveAnswer:
        """What a classifier says of an image: its `most` most probable classes."""
        opened, is_new = self._opened(model, runtime or "")
        batch = np.ascontiguousarray(opened.prepare(pixels)[np.newaxis])
        try:
            with opened.lock:
                started = time.perf_counter()
                raw = opened.session.predict({opened.session.inputs[0].name: batch})
                seconds = time.perf_counter() - started
        except WorkerError:
            self._forget(opened)  # the next image opens it anew
            raise
        scores = opened.scores(raw[opened.output])[0]
        finite = np.where(np.isfinite(scores), scores, -1.0)
        best = np.argsort(-finite, kind="stable")[:most]
        classes = tuple(
            ClassScore(int(index), _label(opened.labels, int(index)), float(scores[index])) for index in best
        )
        stack = opened.placement.runtime
        name = f"{stack.full_name} {stack.version() or ''}".strip()
        return LiveAnswer(opened.placement.entry.full_ref, name, classes, seconds, is_new)

    def _opened(self, model: str, runtime: str) -> tuple[_Opened, bool]:
        """The open model, and whether it was opened now. Opening takes seconds, one model at a time."""
        with self._lock:
            if (known := self._open.get((model, runtime))) is not None:
                self._open.move_to_end((model, runtime))
                return known, False
            while len(self._open) >= MOST_OPEN:
                _, oldest = self._open.popitem(last=False)
                with oldest.lock:
                    oldest.session.close()
            opened = _open(model, runtime or None)
            self._open[model, runtime] = opened
            return opened, True

    def _forget(self, gone: _Opened) -> None:
        with self._lock:
            for key, opened in list(self._open.items()):
                if opened is gone:
                    del self._open[key]
        gone.session.close()


def _pixels(sent: NDArray[Any]) -> Pixels:
    """A copy of what the decoder has sent, which it could change. ValueError: these are no pixels."""
    if sent.dtype != np.uint8 or sent.ndim != 3 or sent.shape[2] not in (1, 3) or not sent.size:
        raise ValueError(f"pixels of the shape {sent.shape}")
    return sent.copy()


def _open(model: str, runtime: str | None) -> _Opened:
    placement = place(model, runtime=runtime, options=Options())
    manifest = placement.manifest
    output = manifest.outputs[0]
    if len(manifest.inputs) == 1 and manifest.inputs[0].modality != "image":
        raise ModelError(
            f"{placement.entry.ref} takes an {manifest.inputs[0].modality}, not an image.",
            hint="Choose another model. Text can be given to none: manifests declare no words and no tokenizer.",
        )
    if not task_named(output.task).discrete or len(manifest.inputs) != 1:
        raise ModelError(f"{placement.entry.ref} is no classifier of images.", hint="Choose another model.")
    session = placement.open_isolated()
    try:
        tensor = next((one for one in session.outputs if output.name in (None, one.name)), session.outputs[0])
        prepare = build_prepare(manifest.inputs[0], session.inputs[0])
        plain = output.model_copy(update={"label_map": None})  # the model's own classes, in its own order
        labels = labels_of(output, placement.entry.folder)
        plain = plain.model_copy(update={"labels": labels, "labels_file": None})
        return _Opened(placement, session, prepare, build_scores(plain, tensor), labels, tensor.name)
    except BaseException:
        session.close()
        raise


def _label(labels: tuple[str, ...] | None, index: int) -> str:
    return labels[index] if labels is not None and index < len(labels) else ""
