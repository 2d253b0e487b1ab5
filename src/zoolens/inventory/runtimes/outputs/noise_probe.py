"""Answers to a little noise, to see what they are: probabilities are rows that are not negative and add up to one,
percentages add up to 100.

A softmax at the end of a file that cannot be read as a graph shows in this way, whatever the framework. So does an
answer that depends on the other input of its batch, such as that of a softmax over the batch axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.runtime import Session, TensorSpec, shape_text

MAX_ELEMENTS: Final = 1 << 22
FREE: Final = 16  # extent of dimensions that a file leaves open, other than the batch
MADE_UP: Final = f"made-up inputs (noise, or zeros where they are whole numbers; open dimensions of {FREE})"
ROWS: Final = 2
_SLACK: Final = 1e-3  # of a sum of probabilities
_OTHER: Final = 0.1  # of the range of answers


@dataclass(frozen=True)
class NoiseAnswers:
    """What the answers to noise show of each output, by its name. All is empty where the model takes no noise."""

    sums: Mapping[str, float] = field(default_factory=dict)  # of rows that are not negative and have all the same sum
    in_unit_range: frozenset[str] = frozenset()  # no number below 0 or above 1
    mixing_rows: frozenset[str] = frozenset()  # outputs whose row depends on the other rows of the batch
    other_rows: frozenset[str] = frozenset()  # outputs that do not have one row for each input, such as found objects


def answers_to_noise(session: Session) -> NoiseAnswers:
    feeds = [_feeds(session, seed) for seed in range(2)]
    if not feeds[0] or not feeds[1]:
        return NoiseAnswers(other_rows=_declared_other_rows(session))
    try:
        answers, others = session.predict(feeds[0]), session.predict(feeds[1])
        alone = _first_alone(session, feeds[0])
    except Exception:
        # Whatever it says about noise is no news about the file.
        return NoiseAnswers()
    specs = {spec.name: spec for spec in session.outputs if spec.name in answers and answers[spec.name].ndim}
    sums = {name: row_sum(np.concatenate([answers[name], others[name]]), spec) for name, spec in specs.items()}
    return NoiseAnswers(
        {name: total for name, total in sums.items() if total is not None},
        frozenset(name for name in specs if _in_unit_range(answers[name])),
        frozenset(name for name in specs if name in alone and _differ(answers[name], alone[name])),
        frozenset(name for name in specs if len(answers[name]) != _batch(feeds[0])),
    )


def _batch(feeds: Mapping[str, NDArray[Any]]) -> int:
    return max(map(len, feeds.values()))


def _declared_other_rows(session: Session) -> frozenset[str]:
    """Outputs whose number of rows is open or another where every input has a fixed one."""
    batches = {spec.shape[0] if spec.shape else None for spec in session.inputs}
    if len(batches) != 1 or None in batches:
        return frozenset()
    return frozenset(spec.name for spec in session.outputs if spec.shape and spec.shape[0] not in batches)


def sums_to_one(raw: NDArray[Any], spec: TensorSpec) -> bool:
    """Whether these are rows like those of a softmax."""
    total = row_sum(raw, spec)
    return total is not None and is_one(total)


def is_one(total: float) -> bool:
    return abs(total - 1) <= _SLACK


def row_sum(raw: NDArray[Any], spec: TensorSpec) -> float | None:
    """Returns the sum that all rows share, if no number is negative.

    None if they share none, or if outputs of nothing but 0 and 1 prove nothing.
    """
    if raw.ndim < 2 or not raw.size:
        return None
    rows = raw.reshape(len(raw), -1).astype(np.float64)
    if spec.quantised and raw.dtype.kind != "f":
        rows = (rows - (spec.zero_point or 0)) * float(spec.scale or 1)
    longer_axes = sum(extent > 1 for extent in raw.shape[1:])
    if rows.shape[1] < 2 or longer_axes != 1:
        return None
    if not np.isfinite(rows).all() or rows.min() < -1e-6:
        return None
    sums = rows.sum(axis=1)
    steps = 0.5 * float(spec.scale or 0) * rows.shape[1] if spec.quantised else 0.0
    near_one = np.abs(sums - 1).max() <= _SLACK + steps
    total = 1.0 if near_one else float(np.median(sums))
    # A single row, or a network that answers all the same.
    if not near_one and not np.ptp(rows, axis=0).any():
        return None
    if np.abs(sums - total).max() > _SLACK * total + steps:
        return None
    return total if np.any((rows > 1e-6) & (rows < total * (1 - 1e-6))) else None


def _first_alone(session: Session, feeds: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """Returns the outputs for the first row alone; none if the batch size is fixed."""
    free = all(spec.shape and not spec.shape[0] for spec in session.inputs)
    if not free:
        return {}
    first = {name: values[:1] for name, values in feeds.items()}
    return session.predict(first)


def _differ(together: NDArray[Any], alone: NDArray[Any]) -> bool:
    return bool(together.ndim) and together.dtype.kind == "f" and rows_differ(together[:1], alone)


def rows_differ(together: NDArray[Any], alone: NDArray[Any]) -> bool:
    """Whether answers to the same inputs differ by more than a tenth of their range. Dynamic quantisation, whose scale
    is that of a whole batch, moves them by some hundredths."""
    if together.shape != alone.shape or not together.size:
        return False
    range_ = float(np.ptp(together)) or float(np.abs(together).max())
    difference = np.abs(together.astype(np.float64) - alone).max()
    return bool(difference > _OTHER * range_)


def _in_unit_range(raw: NDArray[Any]) -> bool:
    if not raw.size or raw.dtype.kind != "f":
        return False
    return float(raw.min()) >= 0 and float(raw.max()) <= 1


def made_up_feeds(
    specs: Sequence[TensorSpec], batch: int, extents: Mapping[str, Sequence[int]] | None = None
) -> dict[str, NDArray[Any]]:
    """Something to time a model with that no dataset fits, such as one with several inputs. `extents`: shapes at a
    batch of 1 of inputs whose dimensions the file leaves open, by name; "" is for all with as many axes."""
    shaped = _with_extents(specs, extents or {})
    return {spec.name: _made_up(spec, batch) for spec in shaped}


def said_of_made_up(extents: Mapping[str, Sequence[int]]) -> str:
    """What made-up inputs are."""
    if not extents:
        return MADE_UP
    shapes = ", ".join(f"{name} {shape_text(shape)}".strip() for name, shape in sorted(extents.items()))
    return f"made-up inputs (noise, or zeros where they are whole numbers; {shapes})"


def _with_extents(specs: Sequence[TensorSpec], extents: Mapping[str, Sequence[int]]) -> list[TensorSpec]:
    """A shape without a name is for all inputs with as many axes that have none of their own."""
    given = {spec.name: extents.get(spec.name) for spec in specs}
    alike = [spec.name for spec in specs if len(spec.shape) == len(extents.get("", ()))]
    unknown = [name for name in extents if name not in given and (name or not alike)]
    if unknown:
        known = ", ".join(f"{spec.name} {shape_text(spec.shape)}" for spec in specs)
        what = f"called {unknown[0][:60]!r}" if unknown[0] else f"with {len(extents[''])} axes"
        raise ModelError(f"There is no input {what}: the inputs are {known}.", hint="Write --shape NAME=1x128.")
    for name in alike:
        given[name] = given[name] or extents[""]
    return [_shaped(spec, given[spec.name]) for spec in specs]


def _shaped(spec: TensorSpec, given: Sequence[int] | None) -> TensorSpec:
    """The input with its open dimensions as they are given, except for the batch."""
    if given is None:
        return spec
    alike = len(given) == len(spec.shape) and all(
        own in (None, extent) for own, extent in zip(spec.shape[1:], given[1:], strict=True)
    )
    if not alike:
        raise ModelError(
            f"The input {spec.name} takes {shape_text(spec.shape)}, which {shape_text(given)} does not fit."
        )
    if prod(given) > MAX_ELEMENTS << 4:
        raise ModelError(f"An input of {shape_text(given)} has more than {MAX_ELEMENTS << 4:,} numbers.")
    return replace(spec, shape=(*spec.shape[:1], *given[1:]))


def _made_up(spec: TensorSpec, batch: int) -> NDArray[Any]:
    shape = [extent if extent and extent > 0 else FREE for extent in spec.shape]
    if spec.shape and not spec.shape[0]:
        shape[0] = batch
    kind = np.dtype(spec.dtype if spec.dtype in np.sctypeDict else np.float32)
    if kind.kind == "f":
        return np.random.default_rng(0).standard_normal(shape).astype(kind)
    return np.zeros(shape, kind)


def _feeds(session: Session, seed: int) -> dict[str, NDArray[Any]]:
    """Noise for every input; empty if there is one that takes none."""
    feeds = {spec.name: _noise(spec, seed) for spec in session.inputs}
    given = {name: values for name, values in feeds.items() if values is not None}
    return given if len(given) == len(feeds) else {}


def _noise(spec: TensorSpec, seed: int) -> NDArray[Any] | None:
    shape = (spec.shape[0] or ROWS, *spec.shape[1:]) if spec.shape else ()
    if not shape or any(extent is None or extent < 1 for extent in shape):
        return None
    extents = [int(extent or 1) for extent in shape]
    if prod(extents) > MAX_ELEMENTS:
        return None
    random = np.random.default_rng(seed)
    if spec.dtype in ("float32", "float16", "float64"):
        return random.standard_normal(extents).astype(spec.dtype)
    if spec.dtype in ("uint8", "int8"):
        return random.integers(0, 100, extents).astype(spec.dtype)
    # Numbers of words or classes: noise may lie outside the vocabulary.
    return None
