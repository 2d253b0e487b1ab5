"""The constants of two files beside each other, number by number and without any floor of rounding.

Tensors stand beside each other by their names, then by their content, then as the only ones of their shape. A file that
a converter has written anew may differ by a few roundings of float32 everywhere: that is counted, and not called
another value. What a changed tensor does to the answers is not said here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.numerics.rounding import rounded
from zoolens.base.phrases import first_few
from zoolens.findings.divergence.alignment import EQUAL
from zoolens.findings.divergence.sides import Side
from zoolens.findings.graph.ir.model import Array
from zoolens.inventory.runtimes.onnx import onnx_file
from zoolens.inventory.runtimes.onnx.onnx_values import array
from zoolens.inventory.runtimes.openvino import openvino_file

_SHOWN: Final = 5  # tensors that one sentence names
_HALVES: Final = ("float16", "bfloat16")


@dataclass(frozen=True)
class TensorChange:
    """One tensor with other values."""

    a: str
    b: str
    numbers: int  # how many of `size` changed
    size: int
    channels: int  # in how many places of the first axis
    extent: int
    largest: float  # largest change, relative to the largest number of the tensor
    precision: str = ""  # B's values are A's, rounded to this; "": they are not

    @property
    def words(self) -> str:
        name = self.a if self.a == self.b else f"{self.a}, in B {self.b}"
        if self.precision:
            return f"{name} (rounded to {self.precision})"
        where = f" in {self.channels:,} of {self.extent:,} channels" if self.extent > 1 else ""
        return f"{name} ({self.numbers:,} of {self.size:,} numbers{where}, by up to {100 * self.largest:.2g} %)"


@dataclass(frozen=True)
class FileTensors:
    """The constants of two files beside each other."""

    pairs: int  # how many could be matched
    changed: tuple[TensorChange, ...] = ()
    rounded: int = 0  # how many of them differ by float32 rounding only
    reshaped: tuple[str, ...] = ()  # same name, other shape
    only_a: tuple[str, ...] = ()  # names
    only_b: tuple[str, ...] = ()

    @property
    def sentences(self) -> Iterator[str]:
        halves = [change for change in self.changed if change.precision]
        if len(halves) > _SHOWN:
            kept = halves[0].precision
            yield f"B's file keeps {len(halves):,} of {self.pairs:,} constants in {kept}: they are A's, rounded to it."
        others = [change for change in self.changed if len(halves) <= _SHOWN or not change.precision]
        if others:
            count = _count(len(others), f"of {self.pairs:,} constants")
            yield f"{count} other values in the two files: {first_few([change.words for change in others], _SHOWN)}."
        if self.reshaped:
            count = _count(len(self.reshaped), f"of {self.pairs:,} constants")
            yield f"{count} other shapes: {', '.join(self.reshaped[:_SHOWN])}."

    def as_data(self) -> dict[str, Any]:
        return {
            "compared": self.pairs,
            "rounded_anew": self.rounded,
            "changed": [
                {"a": change.a, "b": change.b, "numbers": change.numbers, "size": change.size,
                 "channels": change.channels, "largest": change.largest, "precision": change.precision or None}
                for change in self.changed
            ],
            "other_shapes": list(self.reshaped),
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
        }  # fmt: skip


def _count(number: int, of: str) -> str:
    return f"{number:,} {of} {'has' if number == 1 else 'have'}"


def tensors_of(side: Side) -> dict[str, Array] | None:
    """The constants of a side's file by name; None where they cannot be read."""
    try:
        if side.job.asset.format == "onnx":
            path = side.job.paths["model"]
            constants = onnx_file.read_graph(path).constants
            return {name: array(tensor, path.parent) for name, tensor in constants.items()}
        if side.job.asset.format == openvino_file.FORMAT:
            return openvino_file.constants(side.job.paths["model"])
    except ZoolensError:
        return None
    return dict(side.raw.weights) if side.raw is not None and not side.borrowed else None


def compared_tensors(a: Mapping[str, Array], b: Mapping[str, Array]) -> FileTensors:
    """Both files' constants beside each other. Single numbers are compared only where both have their name."""
    pairs = [(name, name) for name in a if name in b and _one_kind(a[name], b[name])]
    left = {name: values for name, values in a.items() if name not in b and np.size(values) > 1}
    right = {name: values for name, values in b.items() if name not in a and np.size(values) > 1}
    pairs += _by_content(left, right)
    pairs += _by_shape(left, right)
    changed: list[TensorChange] = []
    anew = 0
    reshaped = []
    for ours, theirs in pairs:
        one = np.asarray(a[ours])
        other = np.asarray(b[theirs])
        if one.size != other.size:
            reshaped.append(ours)
            continue
        change = _change(ours, theirs, one, other.reshape(one.shape))
        if change is not None and change.numbers:
            changed.append(change)
        anew += change is not None and not change.numbers
    return FileTensors(len(pairs), tuple(changed), anew, tuple(reshaped), tuple(left), tuple(right))


def _change(ours: str, theirs: str, a: Array, b: Array) -> TensorChange | None:
    """Return None where all numbers are equal; a change of no numbers where they differ by roundings only."""
    if np.array_equal(a, b):
        return None
    before = np.abs(a.astype(np.float64))
    difference = np.abs(b.astype(np.float64) - a.astype(np.float64))
    size = float(np.max(before, initial=0.0)) or 1.0
    # Numbers near zero are held against the largest: one that is computed anew as a sum rounds with its terms.
    tolerance = EQUAL * np.maximum(before, 1e-3 * size)
    moved = ~(difference <= tolerance)  # NaN counts as moved
    extent = a.shape[0] if a.ndim > 1 else 1
    by_channel = moved.reshape(extent, -1).any(axis=1)
    finite = difference[np.isfinite(difference)]
    return TensorChange(
        ours,
        theirs,
        numbers=int(np.count_nonzero(moved)),
        size=a.size,
        channels=int(np.count_nonzero(by_channel)),
        extent=extent,
        largest=float(np.max(finite, initial=0.0)) / size,
        precision=next((kind for kind in _HALVES if _is_rounded(a, b, kind)), ""),
    )


def _is_rounded(a: Array, b: Array, precision: str) -> bool:
    return a.dtype.kind == "f" and np.array_equal(rounded(a, precision), np.asarray(b, np.float32))


def _by_content(left: dict[str, Array], right: dict[str, Array]) -> list[tuple[str, str]]:
    """Pairs of equal numbers under other names, also if one file has rounded them; they are taken out of both."""
    pairs = []
    for kind in ("float32", *_HALVES):
        known = {_digest(values, kind): name for name, values in right.items()}
        for name, values in list(left.items()):
            partner = known.get(_digest(values, kind))
            if partner is not None and partner in right:
                pairs.append((name, partner))
                del left[name], right[partner]
    return pairs


def _digest(values: Array, precision: str) -> bytes:
    """A digest of the numbers in their order, without the shape: converters drop axes of extent 1."""
    plain = rounded(values, precision) if values.dtype.kind == "f" else np.asarray(values)
    return blake2b(np.ascontiguousarray(plain).tobytes(), digest_size=16).digest()


def _one_kind(one: Array, other: Array) -> bool:
    """Whether both are real numbers or both whole ones: the integers of a quantised file stand for others."""
    return (one.dtype.kind == "f") == (other.dtype.kind == "f")


def _by_shape(left: dict[str, Array], right: dict[str, Array]) -> list[tuple[str, str]]:
    """Pairs of the only tensors of a shape; they are taken out of both."""
    pairs = []
    for name, values in list(left.items()):
        alike = [other for other, theirs in right.items() if _one_kind(theirs, values) and theirs.shape == values.shape]
        own = [other for other, ours in left.items() if _one_kind(ours, values) and ours.shape == values.shape]
        if len(alike) == len(own) == 1:
            pairs.append((name, alike[0]))
            del left[name], right[alike[0]]
    return pairs
