"""The axis of which class a number stands for, of boxes, maps and sets of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zoolens.findings.audit.doctor.box_axes import with_reading
from zoolens.findings.audit.doctor.coco_classes import CLASSES, NUMBERINGS, UNUSED
from zoolens.findings.audit.doctor.variants import Axis, AxisChoice, Change, axis_or_none, with_output
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.manifests.schema_boxes import ReadBoxes
from zoolens.inventory.preprocess.classes import plain_name
from zoolens.inventory.tasks.task import task_named

NUMBERED: Final = ("boxes", "mask", "labels")  # kinds of truth that count through the dataset's classes
OFFSET, ORDER = "label offset", "label order"
_COCO: Final = 0.8  # share of the dataset's classes that are COCO's, from which on its ways to count are tried
_BACKGROUND: Final = "background"


def class_axis(manifest: Manifest, classes: Sequence[str], labels: Sequence[str] | None) -> Axis | None:
    """`classes`: of the dataset; `labels`: the model's, as the manifest names them."""
    choices = [*_shifts(manifest, len(classes), labels), *_backgrounds(manifest), *_orders(manifest, classes, labels)]
    return axis_or_none("labels", _words(manifest, labels), choices, manifest)


def _words(manifest: Manifest, labels: Sequence[str] | None) -> str:
    output = manifest.outputs[0]
    if output.label_map is not None:
        return f"a label_map of {len(output.label_map)} numbers"
    if labels is None:
        return "the dataset's classes in order"
    named = next((title for title, names in NUMBERINGS.items() if _same(names, labels)), None)
    return named or f"{len(labels)} labels, {labels[0]} first"


def _shifts(manifest: Manifest, classes: int, labels: Sequence[str] | None) -> list[AxisChoice]:
    """Numbers that stand for the class below, and for the class above, the one declared."""
    mapping = manifest.outputs[0].label_map
    if mapping is None and labels is not None:
        lower: Change = _named((_BACKGROUND, *labels))
        higher: Change = _named((*labels[1:], UNUSED))
        if _scores_each_class(manifest):
            # One score for each class: there are as many names as before.
            lower, higher = _named((labels[-1], *labels[:-1])), _named((*labels[1:], labels[0]))
    else:
        numbers = mapping if mapping is not None else {number: number for number in range(classes)}
        lower = _mapped({own + 1: theirs for own, theirs in numbers.items()})
        higher = _mapped({own - 1: theirs for own, theirs in numbers.items() if own})
    return [
        AxisChoice("labels", OFFSET, "every output one class lower", lower),
        AxisChoice("labels", OFFSET, "every output one class higher", higher),
    ]


def _scores_each_class(manifest: Manifest) -> bool:
    """Whether labels must be as many as scores; otherwise numbers of classes are answered, which may be fewer."""
    output = manifest.outputs[0]
    if "mask" in task_named(output.task).roles:
        return False
    reading = next((step for step in output.postprocess if isinstance(step, ReadBoxes)), None)
    return reading is None or not (reading.finished or "classes" in (output.parts or {}))


def _backgrounds(manifest: Manifest) -> list[AxisChoice]:
    """The class of a detector that means no object."""
    reading = next((step for step in manifest.outputs[0].postprocess if isinstance(step, ReadBoxes)), None)
    if reading is None:
        return []
    places = ("none", "first", "last") if _scores_each_class(manifest) else ("none", "first")
    return [
        AxisChoice("labels", OFFSET, f"background class {place}", with_reading(background=place))
        for place in places
        if place != reading.background
    ]


def _orders(manifest: Manifest, classes: Sequence[str], labels: Sequence[str] | None) -> list[AxisChoice]:
    """Other orders that people use."""
    found: list[AxisChoice] = []
    known = {plain_name(name) for name in CLASSES}
    if sum(plain_name(name) in known for name in classes) >= _COCO * len(classes):
        shifted = labels is not None and _same(labels, CLASSES)
        found += [
            AxisChoice("labels", ORDER, title, _named(names))
            for title, names in NUMBERINGS.items()
            if labels is None or not (_same(names, labels) or (shifted and _same(names, (_BACKGROUND, *labels))))
        ]
    if labels is not None:
        found.append(AxisChoice("labels", ORDER, "the labels in the order of the alphabet", _named(sorted(labels))))
    if labels is not None or manifest.outputs[0].label_map is not None:
        found.append(AxisChoice("labels", ORDER, "the dataset's classes in order", _mapped(None)))
    return found


def _same(first: Sequence[str], second: Sequence[str]) -> bool:
    return [plain_name(name) for name in first] == [plain_name(name) for name in second]


def _named(labels: Sequence[str]) -> Change:
    return lambda manifest: with_output(manifest, labels=tuple(labels), labels_file=None, label_map=None)


def _mapped(mapping: dict[int, int] | None) -> Change:
    return lambda manifest: with_output(manifest, label_map=mapping, labels=None, labels_file=None)
