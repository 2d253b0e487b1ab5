"""The axes of a detector's boxes: what their four numbers are, how a head is laid out, what makes scores of it."""

from __future__ import annotations

from typing import Any, Final

from zoolens.findings.audit.doctor.variants import (
    PROVES_A_RANGE,
    Axis,
    AxisChoice,
    Change,
    NotSwept,
    axis_or_none,
    with_output,
)
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.manifests.schema_boxes import EncodedBoxes, ReadBoxes, SsdAnchors

FORMATS: Final = ("xyxy", "yxyx", "xywh", "cxcywh")
UNITS: Final = ("pixels", "shares")
ORDERS: Final = ("yxhw", "xywh")
ACTIVATIONS: Final = ("none", "sigmoid", "softmax")


def box_axes(manifest: Manifest) -> list[Axis | NotSwept]:
    """The axes of an output that is read as boxes; empty for all others."""
    steps = manifest.outputs[0].postprocess
    reading = next((step for step in steps if isinstance(step, ReadBoxes)), None)
    if reading is None:
        return []
    anchors = next((step for step in steps if isinstance(step, EncodedBoxes)), None)
    finished = reading.finished or "classes" in (manifest.outputs[0].parts or {})
    return [
        _anchor_order(manifest, anchors) if anchors is not None else _order_and_units(manifest, reading),
        *([_head(manifest, reading)] if "predictions" in (manifest.outputs[0].parts or {}) else []),
        NotSwept("activation", "the lists of boxes are finished.") if finished else _activation(manifest, reading),
    ]


def _order_and_units(manifest: Manifest, declared: ReadBoxes) -> Axis | NotSwept:
    """All pairs of both, since each hides that the other is wrong."""
    choices = []
    for format_ in FORMATS:
        for units in UNITS:
            changed = [
                factor
                for factor, moved in (("box order", format_ != declared.format), ("box units", units != declared.units))
                if moved
            ]
            if changed:
                change = with_reading(format=format_, units=units)
                choices.append(AxisChoice("boxes", " and ".join(changed), f"{format_}, {units}", change))
    return Axis("boxes", f"{declared.format}, {declared.units}", tuple(choices))


def _anchor_order(manifest: Manifest, anchors: EncodedBoxes) -> Axis | NotSwept:
    if not isinstance(anchors, SsdAnchors):
        return NotSwept("box order and units", f"{anchors.op} says what they are.")

    def ordered(order: str) -> Change:
        def change(manifest: Manifest) -> Manifest:
            steps = manifest.outputs[0].postprocess
            moved = [s.model_copy(update={"order": order}) if isinstance(s, SsdAnchors) else s for s in steps]
            return with_output(manifest, postprocess=tuple(moved))

        return change

    choices = [AxisChoice("boxes", "box order", order, ordered(order)) for order in ORDERS]
    return axis_or_none("boxes", anchors.order, choices, manifest) or NotSwept("box order", "there is no other.")


def _head(manifest: Manifest, declared: ReadBoxes) -> Axis | NotSwept:
    """Which axis of a single tensor counts boxes, and whether their fifth number says that there is an object."""
    choices = [
        AxisChoice(
            "head",
            "head",
            _head_words(transposed, objectness),
            with_reading(transposed=transposed, objectness=objectness),
        )
        for transposed in (False, True)
        for objectness in (False, True)
    ]
    if declared.finished:
        return NotSwept("head", "each box has its score and class behind it.")
    axis = axis_or_none("head", _head_words(declared.transposed, declared.objectness), choices, manifest)
    assert axis is not None  # three of four differ
    return axis


def _head_words(transposed: bool, objectness: bool) -> str:
    axes = "numbers × boxes" if transposed else "boxes × numbers"
    return f"{axes}, {'with' if objectness else 'without'} objectness"


def _activation(manifest: Manifest, declared: ReadBoxes) -> Axis | NotSwept:
    twice = (
        f"it declares activation: {declared.activation}, but the scores lie between 0 and 1 already, so that it is "
        "applied twice; AP hardly suffers, every score does."
    )
    choices = [
        AxisChoice(
            "activation",
            "activation",
            activation,
            with_reading(activation=activation),
            # Refused as soon as a score is outside of 0 to 1, which logits always are.
            proof=twice if activation == "none" and declared.activation != "none" else None,
            proven_by=PROVES_A_RANGE,
        )
        for activation in ACTIVATIONS
        if activation != declared.activation
    ]
    return Axis("activation", declared.activation, tuple(choices))


def with_reading(**changes: Any) -> Change:
    """The change to another way of reading boxes."""

    def change(manifest: Manifest) -> Manifest:
        steps = manifest.outputs[0].postprocess
        moved = [step.model_copy(update=changes) if isinstance(step, ReadBoxes) else step for step in steps]
        return with_output(manifest, postprocess=tuple(moved))

    return change
