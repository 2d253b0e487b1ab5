"""One image, or some texts, through one model: what the page *Live* asks for, model by model.

Images are decoded and texts are split into tokens in sandboxed processes, and models are opened in sandboxed processes
that stay open for the next image or text. The model that was not used for longest is closed for a new one.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.engine.policy import Rights
from zoolens.base.engine.process import WorkerKind, WorkerProcess
from zoolens.base.errors import ModelError, WorkerError, ZoolensError
from zoolens.base.recent_values import RecentValues
from zoolens.faces.ui import image_worker
from zoolens.faces.ui.live_fitting import fitted
from zoolens.faces.ui.live_outputs import LiveOutput, SharedClasses, ToldAnswer, live_agreement, live_output
from zoolens.inventory.catalog.sessions import Placement, place
from zoolens.inventory.datasets.text_dataset import TextPair, Value, Words
from zoolens.inventory.manifests.schema import MODALITIES, Manifest
from zoolens.inventory.manifests.tokenizer import ROLE as TOKENIZER
from zoolens.inventory.preprocess.array_inputs import Prepare
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.preprocess.text import PrepareText
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.runtime import Options
from zoolens.inventory.tasks.drawing import Drawing
from zoolens.inventory.tasks.task import Answers

Pixels = NDArray[np.uint8]

MOST_OPEN: Final = 4
MOST_TOLD: Final = 32  # answers that are kept to be compared
_DECODING: Final = 20.0  # seconds
_MOST_PIXEL_BYTES: Final = 1 << 28
_MODULE: Final = image_worker.__name__
_DECODER: Final = WorkerKind("process that decodes images", _MODULE, _MODULE, rights=Rights(memory=image_worker.MEMORY))
_WORDS: Final = re.compile(r"\w+|[^\w\s]")  # of a text whose words are tagged: letters and digits, or a single sign


@dataclass(frozen=True)
class ClassScore:
    """A class and how probable the model says it is. `label` is empty where the manifest names no classes."""

    index: int
    label: str
    probability: float


@dataclass(frozen=True)
class LiveAnswer:
    """What a model says of one image."""

    model: str
    runtime: str
    task: str
    classes: tuple[ClassScore, ...]
    # What a model that answers no class says, in words, and what a page draws of it
    words: str
    drawing: Drawing | None
    # Names the answer for a comparison with another one; empty where it cannot be compared
    key: str
    # The time of this one call; a single call is no measurement
    seconds: float
    # Whether the model was opened for this call
    opened: bool
    # How the picture was resized for it
    fitting: str
    # How many classes the model has, where its manifest neither names them nor says which of a dataset's they are
    unnamed: int = 0


@dataclass(frozen=True)
class TextAnswer:
    """What a model says of one text, or of a pair of texts."""

    tokens: int
    cut: bool
    # How many tokens the tokenizer does not know; None where it does not say
    unknown: int | None
    # Its tokens as the tokenizer writes them, at most 200 of them; none of a text that we split into words
    pieces: tuple[str, ...]
    classes: tuple[ClassScore, ...] = ()
    vector: NDArray[np.float32] | None = None
    # What a model says that answers neither a class nor a vector, as with images
    words: str = ""
    drawing: Drawing | None = None
    key: str = ""
    # The words of the text that `drawing` counts
    split: tuple[str, ...] = ()


@dataclass(frozen=True)
class LiveTexts:
    """What a model says of several texts."""

    model: str
    runtime: str
    task: str
    most_tokens: int
    # Whether the cosine similarity of two vectors means something
    directional: bool
    # Whether the model takes two texts together: there is one answer to both
    pair: bool
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
    output: LiveOutput
    lock: threading.Lock = field(default_factory=threading.Lock)
    # How many questions it is answering: while there are any it is not closed
    users: int = 0

    @property
    def ref(self) -> str:
        return self.placement.entry.full_ref

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
        self._classes = SharedClasses()
        self._told: RecentValues[str, ToldAnswer] = RecentValues(MOST_TOLD)
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
        """What a model says of an image; of a classifier, its `most` most probable classes."""
        with self._used(model, runtime or "", "image") as (opened, is_new):
            output = opened.output
            pixels, fitting = fitted(opened.manifest.inputs[0], pixels, located=output.task.located)
            batch = np.ascontiguousarray(opened.prepare(pixels)[np.newaxis])
            raw, seconds = self._predicted(opened, {opened.session.inputs[0].name: batch})
            about = (opened.ref, opened.runtime, output.task.name)
            values = output.values(raw, opened.prepare.memo(pixels) if output.task.located else None)
            if not output.has_parts:
                scores = _finite(values[0], "image")
                if output.task.discrete:
                    best, unnamed = _best(output, scores, most), _unnamed(opened, len(scores))
                    return LiveAnswer(*about, best, "", None, "", seconds, is_new, fitting, unnamed)
                words = output.task.show(output.kept(values), 0)
                return LiveAnswer(*about, (), words, None, "", seconds, is_new, fitting)
            digest = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes())
            said = self._told_of(opened, output.kept(values), digest.hexdigest())
            return LiveAnswer(*about, (), *said, seconds, is_new, fitting)

    def answer_texts(self, model: str, runtime: str | None, texts: Sequence[str], most: int) -> LiveTexts:
        """What a model says of each of some texts, which are given to it one at a time; one that takes pairs is given
        the first two together."""
        with self._used(model, runtime or "", "text") as (opened, is_new):
            tokenizer, task = opened.manifest.inputs[0].tokenizer, opened.output.task
            assert tokenizer is not None
            answers, seconds = [], 0.0
            for sample in _samples(opened, texts):
                answer, took = self._text_answer(opened, sample, most)
                answers.append(answer)
                seconds += took
        about = (opened.ref, opened.runtime, task.name, tokenizer.max_length)
        return LiveTexts(*about, task.directional, tokenizer.pair is not None, tuple(answers), seconds, is_new)

    def agreement(self, a: str, b: str) -> tuple[str, float]:
        """What the agreement of two answers is, and how large it is. `a`, `b`: their keys."""
        told = [self._told.get(key) for key in (a, b)]
        if told[0] is None or told[1] is None:
            raise ZoolensError("One of these answers is no longer known.", hint="Ask both models again.")
        return live_agreement(told[0], told[1])

    def _text_answer(self, opened: _Opened, sample: Value, most: int) -> tuple[TextAnswer, float]:
        prepare, output = opened.text, opened.output
        assert prepare is not None  # it was opened for texts
        value = np.empty((), object)
        value[()] = sample
        memo = prepare.places(value) if output.task.located else None
        records = prepare(value)[np.newaxis]
        raw, seconds = self._predicted(opened, prepare.feeds(records))
        facts = prepare.facts_of(records)
        pieces = tuple(prepare.tokenizer.show(sample)) if isinstance(sample, str) else ()
        about = (facts.tokens, bool(facts.cut), facts.unknown, pieces)
        if output.has_parts:
            answers = output.kept(output.values(raw, memo))
            words, drawing, key = self._told_of(opened, answers, repr(sample))
            split = sample.parts if isinstance(sample, Words) else ()
            return TextAnswer(*about, words=words, drawing=drawing, key=key, split=split), seconds
        reading, answered = output.reading, output.reading.rows(raw, 1)
        assert not isinstance(answered, Mapping)  # it has no parts
        pooled = prepare.pooled(answered, records, reading.pooling, reading.tensor.name)
        values = _finite(reading.read(pooled)[0], "text")
        if output.task.discrete:
            return TextAnswer(*about, classes=_best(output, values, most)), seconds
        return TextAnswer(*about, vector=values), seconds

    def _told_of(self, opened: _Opened, answers: Answers, given: str) -> tuple[str, Drawing | None, str]:
        """An answer in words, as a drawing, and the key under which it is kept."""
        task, labels = opened.output.task, opened.output.labels
        told = ToldAnswer(opened.ref, given, opened.output, answers)
        key = hashlib.sha256(repr((told.model, opened.runtime, given)).encode()).hexdigest()[:32]
        self._told.put(key, told)
        return task.show(answers, 0, labels), task.drawing(answers, 0, labels), key

    def _predicted(self, opened: _Opened, feeds: dict[str, NDArray[Any]]) -> tuple[Mapping[str, NDArray[Any]], float]:
        """The raw outputs by name, and how long the call took."""
        try:
            with opened.lock:
                started = time.perf_counter()
                raw = opened.session.predict(feeds)
                return raw, time.perf_counter() - started
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
                self._open[model, runtime] = _open(model, runtime or None, modality, self._classes)
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


def _open(model: str, runtime: str | None, modality: str, classes: SharedClasses) -> _Opened:
    placement = place(model, runtime=runtime, options=Options())
    _check_modality(placement, modality)
    if len(placement.manifest.inputs) != 1:
        raise ModelError(
            f"{placement.entry.ref} takes {len(placement.manifest.inputs)} inputs, not one {modality} alone.",
            hint="Choose another model.",
        )
    code = placement.manifest.code
    if code is not None and (code.preprocess or code.postprocess):
        raise ModelError(
            f"The manifest of {placement.entry.ref} has code for its inputs or outputs, which this page does not run.",
            hint="Choose another model, or declare the steps.",
        )
    session = placement.open_isolated()
    try:
        output = live_output(placement, session, classes)
        return _Opened(placement, session, _prepare(placement, session), output)
    except BaseException:
        session.close()
        raise


def _samples(opened: _Opened, texts: Sequence[str]) -> list[Value]:
    """The texts in the form that the model takes."""
    tokenizer = opened.manifest.inputs[0].tokenizer
    if tokenizer is not None and tokenizer.pair is not None:
        if len(texts) < 2:
            raise ModelError(
                f"{opened.placement.entry.ref} takes two texts together, such as a question and a text.",
                hint="Add a second text.",
            )
        return [TextPair(texts[0], texts[1])]
    if opened.output.task.truth == "tags":
        split = [Words(tuple(_WORDS.findall(text))) for text in texts]
        if not all(words.parts for words in split):
            raise ModelError("A text has no words that could be tagged.", hint="Write some.")
        return list(split)
    return list(texts)


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


def _best(output: LiveOutput, scores: NDArray[np.float32], most: int) -> tuple[ClassScore, ...]:
    best: list[int] = np.argsort(-scores, kind="stable")[:most].tolist()
    return tuple(ClassScore(index, _label(output.labels, index), float(scores[index])) for index in best)


def _unnamed(opened: _Opened, count: int) -> int:
    return 0 if opened.output.labels is not None or opened.manifest.outputs[0].label_map else count


def _label(labels: Sequence[str] | None, index: int) -> str:
    if labels is None or index >= len(labels):
        return ""
    return labels[index]
