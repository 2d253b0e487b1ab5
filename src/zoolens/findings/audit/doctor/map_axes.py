"""The axes of a segmenter's map: which axis counts classes, and how the map returns to the image's size."""

from __future__ import annotations

from typing import Any, Final

from zoolens.findings.audit.doctor.variants import Axis, AxisChoice, Change, NotSwept, axis_or_none, with_output
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.manifests.schema_masks import Masks
from zoolens.inventory.runtimes.runtime import TensorSpec, shape_text

_AXES: Final = {"NHW": 3, "NCHW": 4, "NHWC": 4}
_RESIZES: Final = {"bilinear": "scores interpolated, then the highest", "nearest": "the highest, then nearest"}


def map_axes(manifest: Manifest, tensor: TensorSpec) -> list[Axis | NotSwept]:
    """The axes of an output that is a map of classes."""
    declared = _declared(manifest)
    return [_layout(manifest, declared, tensor), _resize(manifest, declared)]


def _declared(manifest: Manifest) -> Masks:
    return next((step for step in manifest.outputs[0].postprocess if isinstance(step, Masks)), Masks(op="masks"))


def _layout(manifest: Manifest, declared: Masks, tensor: TensorSpec) -> Axis | NotSwept:
    rank = len(tensor.shape)
    choices = [
        AxisChoice("map", "map layout", layout, _changed(layout=layout, resize=None, drop=()))
        for layout, axes in _AXES.items()
        # A map of numbers may have an axis of 1 besides.
        if layout != declared.layout and (not rank or axes == rank or (layout == "NHW" and 1 in tensor.shape[1:]))
    ]
    settled = f"it is settled by the file, whose output is {shape_text(tensor.shape)}."
    return axis_or_none("map", declared.layout, choices, manifest) or NotSwept("map layout", settled)


def _resize(manifest: Manifest, declared: Masks) -> Axis | NotSwept:
    if declared.layout == "NHW":
        return NotSwept("map resize", "numbers of classes can only take the nearest.")
    now = declared.resize or "bilinear"
    choices = [
        AxisChoice("map resize", "map resize", words, _changed(resize=method))
        for method, words in _RESIZES.items()
        if method != now
    ]
    return Axis("map resize", _RESIZES[now], tuple(choices))


def _changed(**changes: Any) -> Change:
    def change(manifest: Manifest) -> Manifest:
        step = _declared(manifest)
        others = [other for other in manifest.outputs[0].postprocess if not isinstance(other, Masks)]
        # Interpolation has no meaning for numbers; the layout may be another one by now.
        wanted = {**step.model_dump(), **changes}
        if wanted["layout"] == "NHW":
            wanted |= {"resize": None, "drop": ()}
        return with_output(manifest, postprocess=(Masks.model_validate(wanted), *others))

    return change
