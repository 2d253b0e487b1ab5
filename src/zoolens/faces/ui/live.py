"""One image, or some texts, through one model: what the page *Live* asks for, model by model.

Images are decoded and texts are split into tokens in sandboxed processes, and models are opened in sandboxed processes
that stay open for the next image or text. The model that was not used for longest is closed for a new one.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.engine.policy import Rights
from zoolens.base.engine.process import WorkerKind, WorkerProcess
from zoolens.base.errors import ModelError, WorkerError
from zoolens.faces.ui import image_worker
from zoolens.inventory.catalog.sessions import Placement, place
from zoolens.inventory.manifests.schema import MODALITIES, Manifest
from zoolens.inventory.manifests.tokenizer import ROLE as TOKENIZER
from zoolens.inventory.preprocess.array_inputs import Prepare
from zoolens.inventory.preprocess.outputs import build_scores, labels_of
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.preprocess.text import PrepareText
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.runtime import Options
from zoolens.inventory.tasks.task import task_named

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
    """What a classifier says of one image."""

    model: str
    runtime: str
    classes: tuple[ClassScore, ...]
    # The time of this one call; a single call is no measurement
    seconds: float
    # Whether the model was opened for this call
    opened: bool


@dataclass(frozen=True)
class TextAnswer:
    """What a model says of one text."""

    tokens: int
    cut: bool
    # How many tokens the tokenizer does not know; None where it does not say
    unknown: int | None
    # Its tokens as the tokenizer writes them, at most 200 of them
    pieces: tuple[str, ...]
    classes: tuple[ClassScore, ...] = ()
    vector: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class LiveTexts:
    """What a model says of several texts."""

    model: str
    runtime: str
    most_tokens: int
    # Whether the cosine similarity of two vectors means something
    directional: bool
    texts: tuple[TextAnswer, ...]
    # The time of all calls together
    seconds: float
    opened: bool


@dataclass
class _Opened:
    """An open model."""

    placement: Placement
    session: IsolatedSession
    prepare: Prepare
    scores: Callable[[NDArray[Any]], NDArray[np.float32]]
    labels: tuple[str, ...] | None
    output: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    # How many questions it is answering: while there are any it is not closed
    users: int = 0

    @property
    def manifest(self) -> Manifest:
        return self.placement.manifest

    @property
    def runtime(self) -> str:
        stack = self.placement.runtime
        return f"{stack.full_name} {stack.version() or ''}".strip()

    @property
    def text(self) -> PrepareText | None:
        return self.prepare if isinstance(self.prepare, PrepareText) else None

    def close(self) -> None:
        self.session.close()
        if self.text is not None:
            self.text.close()


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
                opened.close()
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
            with self._decoder.sensible(doing):
                return _pixels(self._decoder.outputs.read(answer["tensors"], _MOST_PIXEL_BYTES)["pixels"])

    def answer(self, model: str, runtime: str | None, pixels: Pixels, most: int) -> LiveAnswer:
        """What a classifier says of an image: its `most` most probable classes."""
        with self._used(model, runtime or "", "image") as (opened, is_new):
            batch = np.ascontiguousarray(opened.prepare(pixels)[np.newaxis])
            name = opened.session.inputs[0].name
            raw, seconds = self._predicted(opened, {name: batch})
            scores = _finite(opened.scores(raw)[0], "image")
            classes = _best(opened, scores, most)
            ref = opened.placement.entry.full_ref
            return LiveAnswer(ref, opened.runtime, classes, seconds, is_new)

    def answer_texts(self, model: str, runtime: str | None, texts: Sequence[str], most: int) -> LiveTexts:
        """What a model says of each of some texts, which are given to it one at a time."""
        with self._used(model, runtime or "", "text") as (opened, is_new):
            task = task_named(opened.manifest.task)
            answers, seconds = [], 0.0
            for text in texts:
                answer, took = self._text_answer(opened, text, most, discrete=task.discrete)
                answers.append(answer)
                seconds += took
        tokenizer = opened.manifest.inputs[0].tokenizer
        assert tokenizer is not None
        ref, longest = opened.placement.entry.full_ref, tokenizer.max_length
        return LiveTexts(ref, opened.runtime, longest, task.directional, tuple(answers), seconds, is_new)

    def _text_answer(self, opened: _Opened, text: str, most: int, *, discrete: bool) -> tuple[TextAnswer, float]:
        prepare = opened.text
        assert prepare is not None  # it was opened for texts
        records = prepare(np.array(text, object))[np.newaxis]
        raw, seconds = self._predicted(opened, prepare.feeds(records))
        pooling = opened.manifest.outputs[0].pooling
        values = _finite(opened.scores(prepare.pooled(raw, records, pooling, opened.output))[0], "text")
        facts, pieces = prepare.facts_of(records), tuple(prepare.tokenizer.show(text))
        about = (facts.tokens, bool(facts.cut), facts.unknown, pieces)
        if discrete:
            return TextAnswer(*about, classes=_best(opened, values, most)), seconds
        return TextAnswer(*about, vector=values), seconds

    def _predicted(self, opened: _Opened, feeds: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], float]:
        """The raw main output, and how long the call took."""
        try:
            with opened.lock:
                started = time.perf_counter()
                raw = opened.session.predict(feeds)
                return raw[opened.output], time.perf_counter() - started
        except WorkerError:
            # The next image opens it again.
            self._forget(opened)
            raise

    @contextmanager
    def _used(self, model: str, runtime: str, modality: str) -> Iterator[tuple[_Opened, bool]]:
        """The open model, which nobody closes inside the block, and whether it was opened now."""
        opened, is_new = self._opened(model, runtime, modality)
        try:
            yield opened, is_new
        finally:
            with self._lock:
                opened.users -= 1
                self._close_idle(MOST_OPEN)

    def _opened(self, model: str, runtime: str, modality: str) -> tuple[_Opened, bool]:
        """Opening takes seconds, one model at a time."""
        with self._lock:
            known = self._open.get((model, runtime))
            if known is not None:
                _check_modality(known.placement, modality)
                self._open.move_to_end((model, runtime))
            else:
                self._close_idle(MOST_OPEN - 1)
                self._open[model, runtime] = _open(model, runtime or None, modality)
            opened = self._open[model, runtime]
            opened.users += 1
            return opened, known is None

    def _close_idle(self, most: int) -> None:
        """Close the models that were not used for longest until so many are open, but none that is in use."""
        idle = [key for key, opened in self._open.items() if not opened.users]
        for key in idle[: max(0, len(self._open) - most)]:
            self._open.pop(key).close()

    def _forget(self, gone: _Opened) -> None:
        with self._lock:
            for key, opened in list(self._open.items()):
                if opened is gone:
                    del self._open[key]
        gone.close()


def _pixels(sent: NDArray[Any]) -> Pixels:
    """A copy of what the decoder has sent, which it could change. ValueError: these are no pixels."""
    if sent.dtype != np.uint8 or sent.ndim != 3 or sent.shape[2] not in (1, 3) or not sent.size:
        raise ValueError(f"pixels of the shape {sent.shape}")
    return sent.copy()


def _check_modality(placement: Placement, modality: str) -> None:
    inputs = placement.manifest.inputs
    if len(inputs) == 1 and inputs[0].modality != modality:
        raise ModelError(
            f"{placement.entry.ref} takes {MODALITIES[inputs[0].modality]}, not {MODALITIES[modality]}.",
            hint="Choose another model.",
        )


def _open(model: str, runtime: str | None, modality: str) -> _Opened:
    placement = place(model, runtime=runtime, options=Options())
    manifest = placement.manifest
    output = manifest.outputs[0]
    _check_modality(placement, modality)
    if len(manifest.inputs) != 1 or (modality == "image" and not task_named(output.task).discrete):
        raise ModelError(f"{placement.entry.ref} is not an image classifier.", hint="Choose another model.")
    session = placement.open_isolated()
    try:
        tensor = next(
            (candidate for candidate in session.outputs if output.name in (None, candidate.name)), session.outputs[0]
        )
        prepare = _prepare(placement, session)
        # The model's own classes, in its own order.
        plain = output.model_copy(update={"label_map": None})
        labels = labels_of(output, placement.entry.folder)
        plain = plain.model_copy(update={"labels": labels, "labels_file": None})
        scores = build_scores(plain, tensor, discrete=task_named(output.task).discrete)
        return _Opened(placement, session, prepare, scores, labels, tensor.name)
    except BaseException:
        session.close()
        raise


def _prepare(placement: Placement, session: IsolatedSession) -> Prepare:
    declared = placement.manifest.inputs[0]
    if declared.modality == "text":
        return PrepareText(declared, session.inputs, placement.paths[TOKENIZER])
    return build_prepare(declared, session.inputs[0])


def _finite(values: NDArray[np.float32], given: str) -> NDArray[np.float32]:
    """The values, unless one is no number: then there is no best class, and a vector points nowhere."""
    if not np.isfinite(values).all():
        raise ModelError("The model answered NaN or infinity.", hint=f"Try another {given}.")
    return values


def _best(opened: _Opened, scores: NDArray[np.float32], most: int) -> tuple[ClassScore, ...]:
    best: list[int] = np.argsort(-scores, kind="stable")[:most].tolist()
    return tuple(ClassScore(index, _label(opened.labels, index), float(scores[index])) for index in best)


def _label(labels: tuple[str, ...] | None, index: int) -> str:
    if labels is None or index >= len(labels):
        return ""
    return labels[index]
