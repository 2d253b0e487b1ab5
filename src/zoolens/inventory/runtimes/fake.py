"""A model that is a JSON file: deterministic answers without any framework.

Whole evaluations run on it in milliseconds, in tests, in tutorials and on a plane. Keys, all optional but `classes`:

- classes: number of outputs;
- input: the input's shape without its batch axis (default [28, 28, 1]), or with it as null or a number;
- batch: null for any (default), or the only batch size it takes;
- seed: another seed is another model;
- latency_us: how long one call takes, at least;
- behaviour: "hash" (logits from a hash of each input), "constant" (always the same class), "nan" (not a number),
  "label_leak" (the class is the first pixel's value modulo `classes`: right on data made to fit),
  "crash" (fails while running),
  "faulty" (like "hash", but does what an input asks for that begins with one of these numbers: 1001 sleeps for a tenth
  of a second, 1002 for an hour, 1003 ends the process, 1004 fails, 1005 answers with what is not a number).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import parse_json
from zoolens.inventory.runtimes.abilities import NO_SEQUENCES
from zoolens.inventory.runtimes.model_files.model_reading import model_text
from zoolens.inventory.runtimes.observing import Captured, CapturePoint, OperatorTime, Profile, check_points
from zoolens.inventory.runtimes.runtime import (
    Effective,
    ModelFiles,
    Options,
    Runtime,
    Session,
    Tensor,
    Tensors,
    TensorSpec,
    check_feeds,
)
from zoolens.inventory.runtimes.timing.calls import observed_calls

MAX_CLASSES: Final = 1_000_000


@dataclass(frozen=True)
class FakeSettings:
    classes: int
    input: tuple[int | None, ...] = (28, 28, 1)
    batch: int | None = None
    seed: int = 0
    latency_us: float = 0
    behaviour: str = "hash"
    dtype: str = "float32"


class Fake(Runtime):
    name = "fake"
    summary = "A JSON file that answers: no framework, for tests and tutorials"
    formats = ("fake",)
    plain = "its files are JSON, which Python's own reader checks"
    cannot: ClassVar[Mapping[str, str]] = {
        "dynamic_batch": "a model with a fixed batch takes that one only; leave `batch` out for any",
        "set_threads": "it computes in the calling thread",
        "compile_mode": "there is nothing to compile",
        "kernels": "numpy does not report what its functions call",
        "extend": NO_SEQUENCES,
    }

    def load_library(self) -> Any:
        return np

    def load(self, model: ModelFiles, options: Options) -> FakeSettings:
        try:
            content = parse_json(model_text(model.path()))
            settings = FakeSettings(**{**content, "input": tuple(content.get("input", FakeSettings.input))})
        except (ValueError, TypeError, AttributeError) as error:
            raise ModelError(f"{model.path().name} is not a fake model: {error}.") from error
        _check(settings)
        return settings

    def compile(self, loaded: FakeSettings, model: ModelFiles, options: Options) -> Session:
        return FakeSession(loaded)


class FakeSession(Session):
    def __init__(self, settings: FakeSettings) -> None:
        self._settings = settings
        self._answer = _BEHAVIOURS[settings.behaviour]
        sample = settings.input[1:] if settings.input[:1] == (None,) else settings.input
        self.inputs = (TensorSpec("input", (settings.batch, *sample), settings.dtype),)
        self.outputs = (TensorSpec("logits", (settings.batch, settings.classes), "float32"),)

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        until = time.perf_counter() + self._settings.latency_us / 1e6
        logits = self._scores(feeds).astype(np.float32)
        _wait(until)
        return {"logits": logits}

    def _scores(self, feeds: Mapping[str, Tensor]) -> Tensor:
        check_feeds(self.inputs, feeds)
        scores = np.empty((len(feeds["input"]), self._settings.classes))
        for row, sample in enumerate(feeds["input"]):
            scores[row] = self._answer(sample, self._settings)
        return scores

    def profile(self, feeds: Mapping[str, Tensor], repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        steps: list[tuple[OperatorTime, ...]] = []
        calls = observed_calls(lambda: steps.append(self._timed_steps(feeds)), repeats)
        return [
            Profile(call.start, call.duration, operators, call.delay)
            for call, operators in zip(calls, steps, strict=True)
        ]

    def _timed_steps(self, feeds: Mapping[str, Tensor]) -> tuple[OperatorTime, ...]:
        epoch, began = time.time_ns(), time.perf_counter_ns()
        scores = self._scores(feeds)
        scored = time.perf_counter_ns()
        logits = scores.astype(np.float32)
        _wait(began / 1e9 + self._settings.latency_us / 1e6)
        ended = time.perf_counter_ns()
        return (
            _operator("scores", self._settings.behaviour, epoch, scored - began, scores),
            _operator("logits", "cast", epoch + scored - began, ended - scored, logits),
        )

    def capture_points(self) -> tuple[CapturePoint, ...]:
        shape = (self._settings.batch, self._settings.classes)
        return (
            CapturePoint("scores", "scores", "scores", kept=True, shape=shape, dtype="float64"),
            CapturePoint("logits", "logits", "logits", kept=True, shape=shape, dtype="float32"),
        )

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        check_points(tuple(names), self.capture_points())
        scores = self._scores(feeds)
        outputs = {"logits": scores.astype(np.float32)}
        return Captured({name: {"scores": scores, **outputs}[name] for name in names}, outputs)

    def effective(self) -> Effective:
        return Effective(provider="numpy", precision="float32", threads=1)

    def count_parameters(self) -> int:
        return self._settings.classes


def _wait(until: float) -> None:
    # A sleep would be far too coarse.
    while time.perf_counter() < until:
        pass


def _operator(name: str, kind: str, start: int, duration: int, made: Tensor) -> OperatorTime:
    return OperatorTime(
        name, kind, duration, start, nodes=(name,), precision=str(made.dtype), shapes=(made.shape,), thread=0
    )


def _check(settings: FakeSettings) -> None:
    if settings.behaviour not in _BEHAVIOURS:
        raise ModelError(
            f"A fake model cannot behave like {settings.behaviour!r}.", hint=f"It knows {', '.join(_BEHAVIOURS)}."
        )
    if not isinstance(settings.classes, int) or not 1 <= settings.classes <= MAX_CLASSES:
        raise ModelError(f"A fake model has 1 to {MAX_CLASSES:,} classes, not {settings.classes!r}.")
    if not all(extent is None or isinstance(extent, int) for extent in (*settings.input, settings.batch)):
        raise ModelError("A fake model's input and batch are integers or null.")


def _hash(sample: Tensor, settings: FakeSettings) -> Tensor:
    content = np.ascontiguousarray(sample).tobytes()
    digest = hashlib.blake2b(content, digest_size=8, key=str(settings.seed).encode())
    random = np.random.default_rng(int.from_bytes(digest.digest()))
    return random.standard_normal(settings.classes)


def _constant(sample: Tensor, settings: FakeSettings) -> Tensor:
    return _one(settings.seed, settings)


def _nan(sample: Tensor, settings: FakeSettings) -> Tensor:
    return np.full(settings.classes, np.nan)


def _label_leak(sample: Tensor, settings: FakeSettings) -> Tensor:
    return _one(int(sample.flat[0]), settings)


def _crash(sample: Tensor, settings: FakeSettings) -> Tensor:
    raise ModelError("The fake model crashed, as it was configured to.")


def _faulty(sample: Tensor, settings: FakeSettings) -> Tensor:
    asked = float(sample.flat[0])
    if asked == 1001:
        time.sleep(0.1)
    elif asked == 1002:
        time.sleep(3600)
    elif asked == 1003:
        os._exit(3)
    elif asked == 1004:
        return _crash(sample, settings)
    elif asked == 1005:
        return _nan(sample, settings)
    return _hash(sample, settings)


def _one(index: int, settings: FakeSettings) -> Tensor:
    answer = np.zeros(settings.classes, np.float32)
    answer[index % settings.classes] = 1
    return answer


_BEHAVIOURS: Final[Mapping[str, Callable[[Tensor, FakeSettings], Tensor]]] = {
    "hash": _hash,
    "constant": _constant,
    "nan": _nan,
    "label_leak": _label_leak,
    "crash": _crash,
    "faulty": _faulty,
}
