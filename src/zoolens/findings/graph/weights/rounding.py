"""Is one tensor the other's rounding to its type, or has it other values?

The answer comes from the definition of the type. A block of a quantised tensor is a grid of equal steps; a value was
rounded to it where it lies within half a step of the point that was stored. Where the library `gguf` has the rounding
of a type, the values are rounded again and must come out the same, which sees changes that are far smaller than a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import MissingDependency, ModelError
from zoolens.inventory.runtimes.llamacpp.gguf_copy import encoded
from zoolens.inventory.runtimes.llamacpp.gguf_file import TYPES_BY_NAME, TensorType
from zoolens.inventory.runtimes.llamacpp.gguf_values import decoded

Array = NDArray[np.float32]

FLOATS: Final = {"F64": 64, "F32": 32, "BF16": 16, "F16": 16}  # of equal bits the one with the coarser values first


@dataclass(frozen=True)
class Grid:
    """Where the stored numbers of a block lie among its bytes, and how many steps they span."""

    codes: tuple[tuple[int, int], ...]
    lowest: int = 0x00  # the byte of the least number
    highest: int = 0xFF
    levels: int = 16


# Types whose values are equal steps. Their scales lie outside of these bytes.
GRIDS: Final[Mapping[str, Grid]] = {
    "Q4_0": Grid(((2, 18),)),
    "Q4_1": Grid(((4, 20),)),
    "Q5_0": Grid(((2, 22),), levels=32),
    "Q5_1": Grid(((4, 24),), levels=32),
    "Q8_0": Grid(((2, 34),), lowest=0x80, highest=0x7F, levels=256),
    "Q2_K": Grid(((16, 80),), levels=4),
    "Q3_K": Grid(((0, 96),), levels=8),
    "Q4_K": Grid(((16, 144),)),
    "Q5_K": Grid(((16, 176),), levels=32),
    "Q6_K": Grid(((0, 192),), levels=64),
}
# A step is stored in float16 after numbers were rounded with the exact one: the outermost are off by so much of a step.
_STEP_ROUNDING: Final = 2.0**-11
_SLACK: Final = 1e-3  # of a step: float32 arithmetic
_TIES: Final = 1e-4  # of values, which lie so near the middle between two steps that arithmetic decides
# Times the values that are expected to come out otherwise. On copies of a real model in eight types, each pair of which
# was rounded from one original, it was 0.66 to 2.14: grids of equal steps meet each other at the same places.
_MORE_FLIPS: Final = 2.5
_FEWER_FLIPS: Final = 0.5
_NEAREST: Final = 0.999  # of values that lie within half a step
_MORE_ERROR: Final = 1.15  # times the error that steps of this size give on average; real copies have at most 1.08
_SIGMAS: Final = 3.0  # by which a small tensor may lie above what is expected
_BLOCK: Final = 32  # values that share a scale, and therefore come out otherwise together
_MOVED: Final = 1e-3  # of values that no rounding can have moved so far


_UNSEEN_FLIPS: Final = 0.8  # of the first side's own steps: noise that gives as many flips as `_MORE_FLIPS` allows
_UNSEEN_ERROR: Final = (_MORE_ERROR**2 - 1) ** 0.5  # of the error of rounding, which noise of its own adds up with
_LEAST_HALF: Final = 2.0**-25  # half of the least step in float16: smaller ones are stored as zero


class Reason(Enum):
    """Why it is not known what two tensors are to each other."""

    NONE = ""
    NOT_FINITE = "not finite"
    NO_STEPS = "steps not known"
    NEAR = "near"
    WHOLE_NUMBERS = "whole numbers"


class Kind(Enum):
    """What is known about two tensors."""

    EQUAL = "equal"
    ROUNDED = "quantisation noise"
    TRAINED = "another training"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Tally:
    """Counts over the values of a tensor; sums of pieces are those of the whole."""

    values: int = 0
    equal: int = 0
    rounded: int = 0  # that were rounded again, because the type's rounding is known
    flipped: int = 0  # of those, that came out as another number
    expected: float = 0.0  # of those, that come out as another number because the first side was rounded before
    stepped: int = 0  # that have known steps
    within: int = 0  # that lie within half a step
    moved: int = 0  # that lie further away than a step
    squared_error: float = 0.0
    squared_length: float = 0.0
    squared_rounding: float = 0.0  # what rounding to these steps gives on average
    squared_unseen: float = 0.0  # of changes that would not be seen
    finite: bool = True

    def __add__(self, other: Tally) -> Tally:
        sums = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        return Tally(**(sums | {"finite": self.finite and other.finite}))

    @property
    def error(self) -> float:
        """Relative error: the length of the difference by that of the first tensor."""
        return _ratio(self.squared_error, self.squared_length)

    @property
    def predicted(self) -> float:
        """The relative error of rounding: a step is missed by its twelfth in the square on average."""
        return _ratio(self.squared_rounding, self.squared_length)

    @property
    def kind(self) -> Kind:
        """What the counts say. A type without a known grid counts no value as rounded or moved."""
        if not self.finite or not self.values:
            return Kind.UNKNOWN
        if self.equal == self.values:
            return Kind.EQUAL
        if self._is_rounding:
            return Kind.ROUNDED
        return Kind.TRAINED if self.moved > _MOVED * self.values else Kind.UNKNOWN

    @property
    def reason(self) -> Reason:
        """Why the kind is not known."""
        if self.kind is not Kind.UNKNOWN:
            return Reason.NONE
        if not self.finite:
            return Reason.NOT_FINITE
        return Reason.NEAR if self.stepped else Reason.NO_STEPS

    @property
    def repeated(self) -> bool:
        """Whether the values rounded again give the same numbers, as nearly no other values would."""
        return self.rounded > 0 and self.flipped <= _TIES * self.values

    @property
    def unseen(self) -> float:
        """The relative length of changes that would look the same as the rounding; 0 where it could be repeated."""
        if self.kind is not Kind.ROUNDED or self.repeated:
            return 0.0
        return min(_ratio(self.squared_unseen, self.squared_length), _UNSEEN_ERROR * self.predicted)

    @property
    def _is_rounding(self) -> bool:
        if self.within < _NEAREST * self.values:
            return False
        if self.repeated:
            return True
        if self.rounded and not self.expected:
            return False
        if self.error > (_MORE_ERROR + _SIGMAS / self.values**0.5) * self.predicted:
            return False
        spread = _SIGMAS * (_BLOCK * self.expected) ** 0.5 + _BLOCK
        if not self.rounded:
            return True
        least = _FEWER_FLIPS * self.expected - _SIGMAS * self.expected**0.5
        return bool(least <= self.flipped <= _MORE_FLIPS * self.expected + spread)


@dataclass(frozen=True)
class Steps:
    """The grid of each value: half of its step, what float16 scales add, and whether it lies at an end."""

    step: Array
    slack: Array
    at_end: NDArray[np.bool_]

    def arranged(self, order: Callable[[NDArray[Any]], Any]) -> Steps:
        """Steps whose rows are put into another order."""
        return Steps(order(self.step), order(self.slack), order(self.at_end))


def steps_of(raw: NDArray[np.uint8], values: Array, type_: str) -> Steps | None:
    """The steps of quantised rows; None for a type whose grid is not known. Rows are bytes, `values` their values."""
    grid = GRIDS.get(type_)
    if grid is None:
        return None
    own = TYPES_BY_NAME[type_]
    low, high = (_with_codes(raw, own, grid, byte) for byte in (grid.lowest, grid.highest))
    step = np.abs(high - low) / (grid.levels - 1)
    slack = step * np.float32(grid.levels * _STEP_ROUNDING + _SLACK) + np.abs(values) * np.float32(_STEP_ROUNDING)
    # Scales that are rounded to zero leave values of up to the step of the block's largest scale.
    largest = step.reshape(-1, own.block).max(axis=1, keepdims=True) + np.float32(grid.levels * _LEAST_HALF)
    slack = np.where(step > 0, slack, np.broadcast_to(largest, (largest.size, own.block)).reshape(step.shape))
    # Q8_0 has numbers down to -128, which no rounding gives.
    at_end = ((values == low) | (values == high)) & (step > 0)
    return Steps(step, slack, at_end)


def _with_codes(raw: NDArray[np.uint8], type_: TensorType, grid: Grid, byte: int) -> Array:
    """The values where all stored numbers are the least, or the greatest."""
    blocks = raw.reshape(-1, type_.block_bytes).copy()
    for begin, end in grid.codes:
        blocks[:, begin:end] = byte
    return decoded(blocks.reshape(raw.shape), type_)


def float_steps(values: Array, type_: str) -> Steps:
    """The distances of neighbours in a type of floats. Below the least normal number they are all the same."""
    digits, least = {"F16": (10, -14), "BF16": (7, -126), "F32": (23, -126), "F64": (52, -1022)}[type_]
    _, exponents = np.frexp(values)
    power = np.where(values == 0, least, np.maximum(exponents - 1, least)) - digits  # frexp gives zero the exponent 0
    step = np.ldexp(np.float32(1), power).astype(np.float32)
    return Steps(step, np.zeros_like(step), np.zeros(values.shape, bool))


def rounded_again(original: Array, type_: str) -> Array | None:
    """The values rounded to the type once more; None where nobody here can."""
    if type_ in ("F32", "F64"):
        return original
    try:
        content = encoded(original, TYPES_BY_NAME[type_])
    except (ModelError, MissingDependency):
        return None
    own = TYPES_BY_NAME[type_]
    raw = np.frombuffer(content, np.uint8).reshape(len(original), -1)
    assert raw.shape[1] == original.shape[1] // own.block * own.block_bytes
    return decoded(raw, own)


def tally(original: Array, other: Array, rounding: Steps | None, before: Steps | None, again: Array | None) -> Tally:
    """Counts over rows. `rounding`: the steps of `other`, where its type may have rounded `original`; `before`: those
    of `original`, where it was rounded too; `again`: `original` rounded to the type of `other`."""
    difference = original.astype(np.float64) - other
    counts = Tally(
        values=original.size,
        equal=int((original == other).sum()),
        squared_error=float(np.square(difference).sum()),
        squared_length=float(np.square(original, dtype=np.float64).sum()),
        finite=bool(np.isfinite(original).all() and np.isfinite(other).all()),
    )
    if rounding is None:
        return counts
    distance = np.abs(difference)
    own = np.zeros_like(rounding.step) if before is None else before.step
    step = rounding.step + own
    slack = rounding.slack if before is None else rounding.slack + before.slack
    # Beyond the end of its grid a value is cut, by a step at most.
    allowed = np.where(rounding.at_end, step, step / 2) + slack
    flipped, expected = _flips(other, rounding.step, own, again)
    unseen = _UNSEEN_FLIPS * own if again is not None else np.where(rounding.step > 0, slack + own, 0)
    return replace(
        counts,
        stepped=original.size,
        rounded=0 if again is None else original.size,
        flipped=flipped,
        expected=expected,
        within=int((distance <= allowed).sum()),
        moved=int(((distance > step + slack) & ~rounding.at_end).sum()),
        squared_rounding=float((np.square(rounding.step, dtype=np.float64) + np.square(own, dtype=np.float64)).sum())
        / 12,
        squared_unseen=float(np.square(unseen, dtype=np.float64).sum()),
    )


def _flips(other: Array, step: Array, own: Array, again: Array | None) -> tuple[int, float]:
    """How many values are another number of their grid when they are rounded again, and how many that should be.

    A value that was rounded before, and therefore lies anywhere within half of its own step, crosses the middle between
    two numbers of the other grid with a probability of a quarter of its step by the other one's.
    """
    if again is None:
        return 0, 0.0
    flipped = int((np.abs(again.astype(np.float64) - other) > step / 4).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        chances = np.where(own > 0, np.minimum(1, own / (4 * step)), 0)
    return flipped, float(np.nan_to_num(chances).sum())


def _ratio(squared: float, length: float) -> float:
    if squared == 0:
        return 0.0
    return float(np.sqrt(squared / length)) if length else float("inf")
