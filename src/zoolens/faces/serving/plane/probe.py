"""Whether a model answers in a batch as it does alone. Only such a model may answer several requests in one call.

Some do not: a network whose quantisation takes its scale from the whole batch, one whose first dimension is time, one
whose batch is fixed inside. So the same random rows are run one by one and together, and what differs by more than
rounding is not batched. The rows differ much in size, so that a scale taken from all of them shows. This is done with a
few rows and with as many as a batch may have; where only smaller batches pass, no larger ones are made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Final

import numpy as np

from zoolens.base.errors import UnexpectedError, WorkerError, ZoolensError
from zoolens.faces.serving.plane.plane_settings import Batching
from zoolens.inventory.runtimes.isolation.packed import BFLOAT16, bits_of
from zoolens.inventory.runtimes.runtime import Session, Tensor, Tensors, TensorSpec

_ROWS: Final = 4
_MOST_BYTES: Final = 1 << 28  # of the inputs of a batch that is tried; larger ones are not made
_SCALES: Final = (1.0, 8.0, 0.125, 2.0)
_EXTENTS: Final = (32, 8, 224, 1)  # tried for free dimensions
_HIGHEST: Final = (100, 2)  # tried as the bound of integers: ids of words, then masks and kinds
_TIMED_CALLS: Final = 5
_TIMED_SECONDS: Final = 0.01  # after which no further call is timed
_TOLERANCE: Final = {"float16": 2e-2, "bfloat16": 2e-2}  # relative to the largest value
_ROUNDING: Final = 1e-3


@dataclass(frozen=True)
class BatchingVerdict:
    """Whether requests to a model may share a batch, and why."""

    batched: bool
    reason: str
    seconds: dict[int, float] = field(default_factory=dict)  # of a call, by its rows: the first predictions
    spoilt: bool = False  # the model failed on a batch: nobody knows in which state that left its session
    rows: int = 1  # the largest batch that may be made


def probe(session: Session, batching: Batching, max_batch: int, any_batch: bool = False) -> BatchingVerdict:
    """Run the model on random inputs; this also warms it up. `any_batch`: the runtime says that it runs any number of
    rows, also of a model that was exported for one row."""
    shapes = _shape_problem(session, any_batch)
    if any(spec.dtype == "string" for spec in session.inputs):
        return BatchingVerdict(False, "Its inputs are texts, which were not tried.")
    trial, problem = _trial(session)
    if trial is None:
        reason = f"It could not be tried on random inputs: {problem}"
        forced = batching == "force" and shapes is None
        return BatchingVerdict(forced, _forced(batching, reason), rows=max_batch if forced else 1)
    make_row, seconds = trial
    if batching == "off":
        return BatchingVerdict(False, "Batching is switched off.", {1: seconds})
    if shapes is not None:
        return BatchingVerdict(False, shapes, {1: seconds})
    if batching == "force":
        forced_words = "Batching is forced: whether it changes answers was not checked."
        return BatchingVerdict(True, forced_words, {1: seconds}, rows=max_batch)
    if max_batch == 1:
        return BatchingVerdict(True, "Each call has one row.", {1: seconds})
    return _Trial(session, make_row).verdict(max_batch)


def _forced(batching: Batching, reason: str) -> str:
    return f"Batching is forced. {reason}" if batching == "force" else reason


def _shape_problem(session: Session, any_batch: bool) -> str | None:
    for kind, specs in (("input", session.inputs), ("output", session.outputs)):
        for spec in specs:
            if not spec.shape:
                return f"Its {kind} '{spec.name}' is a single value and has no rows."
            if spec.shape[0] is not None and not (any_batch and spec.shape[0] == 1):
                return f"The first dimension of its {kind} '{spec.name}' is fixed to {spec.shape[0]}."
    return None


def _trial(session: Session) -> tuple[tuple[Callable[[int], Tensors], float] | None, str]:
    """What makes rows that the model answers with numbers, each by its number, and how long it took for one of them; or
    why there are none."""
    problem = "no inputs were found that it answers with finite numbers."
    for extent, highest in _candidates(session.inputs):
        make_row = partial(_row, session.inputs, extent, highest)
        first = make_row(0)
        try:
            answers = session.predict(first)
            # NaN differs from itself: such inputs would refute every batch.
            if not all(_finite(array) for array in answers.values()):
                continue
            return (make_row, _timed(session, first)[1]), ""
        except ZoolensError as error:
            _pass_on_death(error)
            problem = str(error)
    return None, problem


class _Trial:
    """Runs the same rows alone and in batches of several sizes."""

    def __init__(self, session: Session, make_row: Callable[[int], Tensors]) -> None:
        self._session, self._make_row = session, make_row
        self._alone: dict[int, Tensors] = {}  # answers to single rows, by the row's number
        self._seconds: dict[int, float] = {}

    def verdict(self, max_batch: int) -> BatchingVerdict:
        few = min(_ROWS, max_batch)
        try:
            problem = self._contradiction(few)
        except ZoolensError as error:
            # Also where its process died: it has answered one row. LiteRT 2.3 dies of a batch of four where a model
            # ends in a suppression of boxes that was exported for one.
            return BatchingVerdict(False, f"It does not run a batch of {few}: {error}", spoilt=True)
        if problem is not None:
            return BatchingVerdict(False, problem, self._seconds)
        return self._largest(few, max_batch)

    def _largest(self, few: int, max_batch: int) -> BatchingVerdict:
        """The largest batch that passes: what is asked for, or else half of it, and so on down to the few rows."""
        size = max(few, min(max_batch, _MOST_BYTES // max(1, _bytes(self._make_row(0)))))
        last_problem = ""
        while size > few:
            try:
                problem = self._contradiction(size)
            except ZoolensError as error:
                # Also where its process died: it may need more memory than there is.
                return self._limited(few, f"It does not run a batch of {size}: {error}", spoilt=True)
            if problem is None:
                break
            last_problem = problem
            size //= 2
        return self._limited(max(size, few), last_problem)

    def _limited(self, rows: int, problem: str, *, spoilt: bool = False) -> BatchingVerdict:
        sizes = f"{_ROWS} and {rows}" if rows > _ROWS else f"{rows}"
        reason = f"{sizes} random rows were answered the same alone and in a batch."
        reason = f"{reason} {problem} Larger batches are not made." if problem else reason
        return BatchingVerdict(True, reason, self._seconds, spoilt, rows)

    def _contradiction(self, size: int) -> str | None:
        """Why a batch of this size is not answered as its rows are alone."""
        rows = [self._make_row(place) for place in range(size)]
        places = _looked_at(size)
        for place in places:
            if place not in self._alone:
                self._alone[place] = self._session.predict(rows[place])
        again = self._timed(rows[0], 1)
        together = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
        answers = self._timed(together, size)
        alone = {place: self._alone[place] for place in places}
        return _contradiction(self._session.outputs, alone, again, answers, size)

    def _timed(self, feeds: Tensors, rows: int) -> Tensors:
        answers, self._seconds[rows] = _timed(self._session, feeds)
        return answers


def _timed(session: Session, feeds: Tensors) -> tuple[Tensors, float]:
    """The answers, and the seconds of the fastest call of a few: others may have had the core in the first one."""
    fastest, ends = inf, time.perf_counter() + _TIMED_SECONDS
    for _ in range(_TIMED_CALLS):
        started = time.perf_counter()
        answers = session.predict(feeds)
        ended = time.perf_counter()
        fastest = min(fastest, ended - started)
        if ended > ends:
            break
    return answers, fastest


def _looked_at(size: int) -> list[int]:
    """The rows of a batch that are also run alone: the first and the last ones, those around the middle, and those at
    powers of two, where networks that split a batch inside would do so."""
    ends = {*range(_ROWS), size // 2 - 1, size // 2, size - 2, size - 1}
    powers = {1 << power for power in range(size.bit_length())}
    return sorted(place for place in ends | powers if 0 <= place < size)


def _bytes(row: Tensors) -> int:
    return sum(array.nbytes for array in row.values())


def _pass_on_death(error: ZoolensError) -> None:
    """A model that fails on random inputs may still be served, a worker that has died may not."""
    if isinstance(error, WorkerError) and not isinstance(error, UnexpectedError):
        raise error


def _contradiction(
    outputs: Sequence[TensorSpec], alone: Mapping[int, Tensors], again: Tensors, together: Tensors, size: int
) -> str | None:
    """Why answers in a batch are not those of the rows alone."""
    for spec in outputs:
        # First: for a model that answers at random, a difference in a batch proves nothing about batching.
        if _differs(alone[0][spec.name], again[spec.name], spec):
            return "It answers the same input differently from call to call."
        if len(together[spec.name]) != size:
            return f"Its output '{spec.name}' does not have one row for each row of input."
        for place, answers in alone.items():
            single, row = answers[spec.name], together[spec.name][place : place + 1]
            if _differs(single, row, spec):
                apart = f" by {_difference(single, row):.2g}" if single.shape == row.shape else " in shape"
                return f"In a batch of {size} its output '{spec.name}' differs{apart} from what it answers alone."
    return None


def _candidates(inputs: Sequence[TensorSpec]) -> Iterator[tuple[int, int]]:
    """Yield what is tried for free dimensions and as the bound of integers: only what the inputs have is varied."""
    free = any(None in spec.shape[1:] for spec in inputs)
    known = [np.dtype(spec.dtype) for spec in inputs if spec.dtype != BFLOAT16]
    integers = any(dtype.kind in "iu" and dtype.itemsize > 1 for dtype in known)
    extents = _EXTENTS if free else _EXTENTS[:1]
    bounds = _HIGHEST if integers else _HIGHEST[:1]
    for extent in extents:
        for highest in bounds:
            yield extent, highest


def _row(inputs: Sequence[TensorSpec], extent: int, highest: int, place: int) -> Tensors:
    random = np.random.default_rng(place)
    return {spec.name: _values(spec, extent, highest, place, random) for spec in inputs}


def _values(spec: TensorSpec, free: int, highest: int, place: int, random: np.random.Generator) -> Tensor:
    shape = [free if extent is None else extent for extent in spec.shape]
    if spec.shape and spec.shape[0] is None:
        shape[0] = 1
    if spec.dtype == BFLOAT16:
        return bits_of((random.standard_normal(shape) * _SCALES[place % len(_SCALES)]).astype(np.float32))
    dtype: np.dtype[Any] = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return (random.standard_normal(shape) * _SCALES[place % len(_SCALES)]).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.itemsize == 1:
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max + 1, shape).astype(dtype)
    return random.integers(0, highest, shape).astype(dtype)


def _finite(array: Tensor) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _differs(alone: Tensor, in_batch: Tensor, spec: TensorSpec) -> bool:
    if alone.shape != in_batch.shape:
        return True
    if alone.dtype.kind != "f":
        # Half a step of rounding may fall to either side.
        step = 1 if spec.quantised else 0
        return _difference(alone, in_batch) > step
    largest = float(np.abs(alone).max(initial=0.0))
    tolerance = _TOLERANCE.get(str(alone.dtype), _ROUNDING) * max(largest, 1e-6)
    # A difference that is NaN is one, too.
    return not _difference(alone, in_batch) <= tolerance


def _difference(first: Tensor, second: Tensor) -> float:
    differences = np.abs(first.astype(np.float64) - second.astype(np.float64))
    return float(differences.max(initial=0.0))
