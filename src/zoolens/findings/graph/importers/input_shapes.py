"""The shape of a file's input when it is imported: batch 1, and an image size where the file leaves it open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Shape
from zoolens.inventory.runtimes.runtime import TensorSpec

_COLOURS: Final = (1, 3, 4)
_IMAGE_RANK: Final = 4
_EXAMPLE: Final = 128  # an extent in a hint


def image_axes(shape: Sequence[int | None]) -> str:
    """The layout of an image-like input; "" where its extents do not tell."""
    if len(shape) != _IMAGE_RANK:
        return ""
    first = shape[1] in _COLOURS
    last = shape[3] in _COLOURS
    if first == last:
        return ""
    if first:
        return "NCHW"
    return "NHWC"


def fixed_batch(shapes: Iterable[Sequence[int | None]]) -> int | None:
    """The batch size for which the images of a file were made, where that is not 1."""
    batches = {shape[0] for shape in shapes if len(shape) == _IMAGE_RANK} - {None, 1}
    return batches.pop() if len(batches) == 1 else None


def with_extents(spec: TensorSpec, extents: Mapping[str, Sequence[int]]) -> TensorSpec:
    """The input with its open extents as they are given for its name, or else for every input (""), except for the
    batch; as it is where the ranks differ."""
    given = extents.get(spec.name, extents.get(""))
    if given is None or len(given) != len(spec.shape):
        return spec
    known = [own if own is not None else extent for own, extent in zip(spec.shape[1:], given[1:], strict=True)]
    return replace(spec, shape=(*spec.shape[:1], *known))


def sized(spec: TensorSpec, size: tuple[int, int] | None) -> Shape:
    """The input's shape at batch 1 and at this height and width; ModelError where a free extent stays open."""
    extents = list(spec.shape)
    if extents and (extents[0] is None or len(extents) == _IMAGE_RANK):
        extents[0] = 1
    axes = image_axes(spec.shape)
    if size is not None and axes:
        extents[axes.index("H")], extents[axes.index("W")] = size
    elif size is not None and len(spec.shape) == _IMAGE_RANK:
        raise ModelError(f"Which axes of the input {spec.name[:60]!r} are height and width is unknown.")
    free = sum(extent is None for extent in extents)
    if free:
        known = "×".join("?" if extent is None else str(extent) for extent in extents[:8])
        raise ModelError(
            f"The input {spec.name[:60]!r} leaves {free} of its extents open ({known}).",
            hint="Give the image size, such as --size 224." if axes else _shape_hint(spec.name, extents),
        )
    return tuple(extent or 1 for extent in extents)


def _shape_hint(name: str, extents: Sequence[int | None]) -> str:
    """An example with powers of two, which texts and sounds are often cut to."""
    example = "x".join(str(_EXAMPLE if extent is None else extent) for extent in extents[:8])
    return f"Give the shape that it is fed with, such as --shape {name[:60]}={example}."
