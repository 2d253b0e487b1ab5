"""From the tensors of a detector to the boxes of each image, in pixels of the image.

The parts that a manifest names say which of four layouts it is:

- `boxes`, `classes`, `scores` and perhaps `count`: finished lists, one class and one score for each box;
- `boxes` and `scores`: boxes with a score for every class;
- `predictions`: one tensor whose rows, or columns, are four numbers of a box and what follows them;
- `p3`, `p4`, `p5` and the like: heads of YOLO that nothing has decoded (`yolo_heads.py`).

Steps: scores by activation, objectness and background; the threshold; decoding; suppression; the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.manifests.schema_boxes import (
    LEVELS,
    EncodedBoxes,
    ReadBoxes,
    SsdAnchors,
    Suppress,
    YoloAnchors,
    YoloxGrid,
)
from zoolens.inventory.preprocess.box_anchors import decoded
from zoolens.inventory.preprocess.box_formats import Boxes, checked, clip, convert, to_pixels
from zoolens.inventory.preprocess.letterbox import Framing, boxes_back
from zoolens.inventory.preprocess.outputs import dequantised, softmax
from zoolens.inventory.preprocess.suppression import MAX_BOXES, Suppression, suppress
from zoolens.inventory.preprocess.yolo_heads import HeadStep, box_numbers, check_levels, decoded_heads, head_rows
from zoolens.inventory.runtimes.runtime import TensorSpec, shape_text

Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Of one image: pairs of a box and a class that are looked at, the best. Ultralytics has the same limit (max_nms).
MOST_CANDIDATES: Final = 30_000
_BEYOND: Final = 1e-3  # a quantised or fast sigmoid may lie so far above 1
_PADDING: Final = -1.0  # score of rows that are not filled, in some exports
_FARTHEST: Final = 1e7  # pixels; float32, in which boxes are kept, still tells pixels apart there


@dataclass(frozen=True)
class ImageBoxes:
    """The boxes of one image by descending score: left, top, width and height in pixels of the image."""

    boxes: Floats
    classes: Integers  # the model's own numbers, without the background class
    scores: Floats


@dataclass(frozen=True)
class _Scored:
    """Boxes of one image as the network gave them. Either a class for each box, or a score for each class."""

    boxes: Array
    scores: Array
    classes: Array | None = None


def build_boxes(
    output: Output, tensors: Mapping[str, TensorSpec]
) -> Callable[[Mapping[str, Array], Sequence[Framing]], list[ImageBoxes]]:
    """What reads the boxes of a batch, as the manifest declares them; refuses what does not go together."""
    reader = _BoxReader(output, tensors)
    return reader.read


class _BoxReader:
    def __init__(self, output: Output, tensors: Mapping[str, TensorSpec]) -> None:
        steps = output.postprocess
        self._how = next(step for step in steps if isinstance(step, ReadBoxes))
        self._anchors = next((step for step in steps if isinstance(step, SsdAnchors | YoloxGrid)), None)
        self._heads = next((step for step in steps if isinstance(step, HeadStep)), None)
        rule = next((step for step in steps if isinstance(step, Suppress)), None)
        self._rule: Suppression | None = None
        if rule is not None:
            self._rule = Suppression(rule.iou, rule.most, rule.class_aware, rule.strict, rule.offset)
        self._tensors = tensors
        self._labels = None if output.labels is None else len(output.labels)
        self._layout = _layout(tensors)
        self._levels = tuple(level for level in LEVELS if level in tensors)
        _check_together(self._how, self._anchors or self._heads, self._layout)
        if self._heads is not None:
            check_levels(self._heads, self._levels)

    def read(self, raw: Mapping[str, Array], frames: Sequence[Framing]) -> list[ImageBoxes]:
        real = {role: dequantised(values, self._tensors[role]) for role, values in raw.items()}
        for role, values in real.items():
            self._check_shape(role, values, len(frames))
        return [self._image({role: values[place] for role, values in real.items()}, frame)
                for place, frame in enumerate(frames)]  # fmt: skip

    def _image(self, parts: Mapping[str, Array], frame: Framing) -> ImageBoxes:
        given = self._split(parts, frame)
        if len(given.boxes) > MAX_BOXES:
            raise ModelError(f"The model has {len(given.boxes):,} boxes for one image; at most {MAX_BOXES:,} are read.")
        rows, classes, scores = self._chosen(given)
        corners = self._corners(given.boxes, rows, frame)
        if self._rule is not None:
            kept = suppress(corners, scores, classes, self._rule)
        else:
            kept = np.argsort(-scores, kind="stable")
        in_image = self._how.units == "image_pixels"
        back = checked(corners[kept], "xyxy") if in_image else boxes_back(corners[kept], frame)
        if self._how.clip:
            back = clip(back, frame.image)
        if np.abs(back).max(initial=0) > _FARTHEST:
            raise ModelError(
                f"A box reaches {np.abs(back).max():.3g} pixels from the image's corner, which cannot be meant.",
                hint="Correct format and units of the step boxes.",
            )
        return ImageBoxes(convert(back, "xyxy", "xywh"), classes[kept], scores[kept])

    def _split(self, parts: Mapping[str, Array], frame: Framing) -> _Scored:
        """The parts of one image as boxes and scores."""
        if self._heads is not None:
            rows, numbers = head_rows(parts, self._heads, frame.canvas), box_numbers(self._heads)
            return _Scored(rows[:, :numbers], rows[:, numbers:])
        if self._layout == "lists":
            filled = self._filled(parts)
            return _Scored(parts["boxes"][:filled], parts["scores"][:filled], parts["classes"][:filled])
        if self._layout == "scored":
            scores = parts["scores"]
            return _Scored(parts["boxes"], scores if scores.ndim == 2 else scores[:, np.newaxis])
        rows = parts["predictions"].T if self._how.transposed else parts["predictions"]
        if self._how.finished:
            return _Scored(rows[:, :4], rows[:, 4], rows[:, 5])
        return _Scored(rows[:, :4], rows[:, 4:])

    def _filled(self, parts: Mapping[str, Array]) -> int:
        """How many boxes of a list are meant."""
        listed = len(parts["scores"])
        if "count" not in parts:
            return listed
        count = float(parts["count"].reshape(-1)[0])
        if not 0 <= count <= listed or count != int(count):
            raise ModelError(f"The model says that it found {count:g} boxes, in a list of {listed}.")
        return int(count)

    def _chosen(self, given: _Scored) -> tuple[Integers, Integers, Floats]:
        """Rows, classes and scores of what passes the threshold, at most MOST_CANDIDATES of them."""
        if given.classes is not None:
            rows = np.flatnonzero(_checked_scores(given.scores) >= self._how.threshold)
            classes, scores = self._whole(given.classes[rows]), given.scores[rows]
            if self._how.background == "first":
                rows, classes, scores = (values[classes > 0] for values in (rows, classes, scores))
                classes = classes - 1
            return _best(rows, classes, scores)
        scores = self._class_scores(given.scores)
        if not self._how.multi_label:
            best = scores.argmax(axis=1)
            top = scores[np.arange(len(scores)), best]
            rows = np.flatnonzero(top >= self._how.threshold)
            return _best(rows, best[rows], top[rows])
        rows, classes = np.nonzero(scores >= self._how.threshold)
        return _best(rows, classes, scores[rows, classes])

    def _class_scores(self, numbers: Array) -> Array:
        """Scores in 0…1, boxes × the model's classes without the background."""
        if self._how.activation == "softmax":
            values: Array = softmax(numbers)
        elif self._how.activation == "sigmoid":
            with np.errstate(over="ignore"):
                values = 1 / (1 + np.exp(-numbers))
        else:
            values = numbers
        values = _checked_scores(values)
        if self._how.objectness:
            values = values[:, :1] * values[:, 1:]
        if self._how.background != "none":
            values = values[:, 1:] if self._how.background == "first" else values[:, :-1]
        if not values.shape[1]:
            raise ModelError("The model has no score of any class beside its boxes.")
        if self._labels is not None and self._labels != values.shape[1]:
            raise ManifestError(
                f"The manifest has {self._labels} labels, but the model scores {values.shape[1]:,} classes.",
                hint="Correct labels, or background, objectness and transposed of the step boxes.",
            )
        return values

    def _whole(self, classes: Array) -> Integers:
        wrong = ~(np.isfinite(classes) & (classes >= 0) & (classes == np.rint(classes)))
        if wrong.any():
            raise ModelError(
                f"The model gives {classes[wrong][0]:g} as the number of a class.",
                hint="Which tensor holds what is said under parts in the manifest.",
            )
        numbers = classes.astype(np.int64)
        known = None if self._labels is None else self._labels + (self._how.background == "first")
        if known is not None and numbers.max(initial=-1) >= known:
            raise ManifestError(
                f"The model answers class {numbers.max()}, but the manifest has {self._labels} labels.",
                hint="Labels count from 0, with a name such as ??? where a number is not used.",
            )
        return numbers

    def _corners(self, boxes: Array, rows: Integers, frame: Framing) -> Boxes:
        """Left, top, right and bottom in pixels of the canvas."""
        if self._anchors is not None:
            # What follows the four numbers are key points, as in BlazeFace.
            return convert(decoded(boxes[:, :4], rows, self._anchors, frame.canvas), "cxcywh", "xyxy")
        if self._heads is not None:
            return decoded_heads(boxes, rows, self._heads, self._levels, frame.canvas)
        assert self._how.format is not None  # the schema sees to it
        corners = convert(boxes[rows], self._how.format, "xyxy")
        return to_pixels(corners, "xyxy", frame.canvas) if self._how.units == "shares" else corners

    def _check_shape(self, role: str, values: Array, batch: int) -> None:
        if len(values) != batch:
            raise ModelError(f"The part {role} has {len(values)} rows for a batch of {batch}.")
        if role in LEVELS:
            return  # its axes are those of the step that decodes it
        numbers = values.shape[-1]
        fits = {
            "boxes": values.ndim == 3 and (numbers == 4 or (self._anchors is not None and numbers > 4)),
            "scores": values.ndim == 2 or (values.ndim == 3 and self._layout == "scored"),
            "classes": values.ndim == 2,
            "count": values.size == batch,
            "predictions": values.ndim == 3 and self._wide_enough(values.shape[1:]),
        }[role]
        if not fits:
            raise ModelError(
                f"The part {role} has shape {shape_text(values.shape)}; expected {self._expected(role)}.",
                hint="Rows with the number of an image, and lists without a batch axis, cannot be read: export the "
                "model with one list for each image.",
            )

    def _wide_enough(self, shape: tuple[int, ...]) -> bool:
        boxes, numbers = shape[::-1] if self._how.transposed else shape
        if self._how.finished:
            return numbers == 6
        # Without labels, an axis that is longer than there are boxes is far more likely to be that of the boxes.
        return numbers > 4 and (self._labels is not None or numbers <= max(boxes, 100))

    def _expected(self, role: str) -> str:
        if role == "predictions":
            numbers = "6" if self._how.finished else "4 + scores"
            axes = f"{numbers}, boxes" if self._how.transposed else f"boxes, {numbers}"
            return f"[batch, {axes}] (transposed: {str(self._how.transposed).lower()})"
        per_class = self._layout == "scored"
        return {
            "boxes": "[batch, boxes, 4]",
            "scores": "[batch, boxes, classes]" if per_class else "[batch, boxes]",
            "classes": "[batch, boxes]",
            "count": "one number for each image",
        }[role]


def _layout(tensors: Mapping[str, TensorSpec]) -> str:
    roles = frozenset(tensors)
    if {"boxes", "classes", "scores"} == roles - {"count"}:
        return "lists"
    if roles == {"boxes", "scores"}:
        return "scored"
    if roles == {"predictions"}:
        return "predictions"
    if roles and roles <= {*LEVELS}:
        return "heads"
    raise ManifestError(
        f"The parts {', '.join(sorted(roles))} do not make up boxes.",
        hint="Name boxes, classes and scores (and count), or boxes and scores, or predictions, or heads (p3, p4, p5).",
    )


def _check_together(how: ReadBoxes, encoded: EncodedBoxes | None, layout: str) -> None:
    """Refuse what the layout gives no meaning to."""
    if isinstance(encoded, HeadStep) != (layout == "heads"):
        raise ManifestError(
            "The parts p2 to p7 are heads, which belong to a step that decodes them: yolo_anchors or dfl.",
            hint="Name the heads under parts, {p3: …, p4: …, p5: …}, and declare the step; or neither.",
        )
    scored_by_objectness = (layout == "predictions" and not how.finished) or isinstance(encoded, YoloAnchors)
    lists = layout == "lists" or (layout == "predictions" and how.finished)
    meaningless = {
        "transposed": how.transposed and layout != "predictions",
        "finished": how.finished and layout != "predictions",
        "objectness": how.objectness and not scored_by_objectness,
        "activation": how.activation != "none" and lists,
        "background: last": how.background == "last" and lists,
        "multi_label": not how.multi_label and lists,
        "a step that decodes boxes": encoded is not None and lists,
    }
    for name, wrong in meaningless.items():
        if wrong:
            raise ManifestError(
                f"{name} has no meaning for boxes that are given as {'finished lists' if lists else layout}.",
                hint="Remove it from postprocess, or correct parts.",
            )
    if how.objectness and how.activation == "softmax":
        raise ManifestError("Scores with objectness are sigmoids: softmax would mix the two.")


def _checked_scores(scores: Array) -> Array:
    if np.isnan(scores).any():
        raise ModelError(f"The score of box {int(np.argwhere(np.isnan(scores))[0][0])} is NaN.")
    if scores.size and (scores.max() > 1 + _BEYOND or scores.min() < _PADDING - _BEYOND):
        extreme = scores.max() if scores.max() > 1 + _BEYOND else scores.min()
        raise ModelError(
            f"The model gives a score of {extreme:.4g}; scores lie between 0 and 1.",
            hint="Declare activation: sigmoid or softmax in the step boxes if these are logits; check objectness, "
            "transposed and parts otherwise.",
        )
    return scores


def _best(rows: Array, classes: Array, scores: Array) -> tuple[Integers, Integers, Floats]:
    """At most MOST_CANDIDATES, those of the largest scores; of equal ones the first."""
    if len(scores) > MOST_CANDIDATES:
        least = np.partition(scores, -MOST_CANDIDATES)[-MOST_CANDIDATES]
        above, equal = np.flatnonzero(scores > least), np.flatnonzero(scores == least)
        kept = np.sort(np.concatenate([above, equal[: MOST_CANDIDATES - len(above)]]))
        rows, classes, scores = rows[kept], classes[kept], scores[kept]
    return rows.astype(np.int64), classes.astype(np.int64), scores.astype(np.float64)
