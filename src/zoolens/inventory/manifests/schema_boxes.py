"""The steps of a manifest for detectors: how an image is fitted onto a canvas, and how tensors become boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field, field_validator

from zoolens.inventory.manifests.part import MAX_EXTENT, Part

MOST_BOXES: Final = 300  # of one image that are kept, the best; COCO's evaluation looks at 100 of each class
LEVELS: Final = ("p2", "p3", "p4", "p5", "p6", "p7")  # of a pyramid: the stride of p3 is 2³ pixels
_MOST_ANCHORS: Final = 64  # of one cell


class Letterbox(Part):
    """Fit the whole image onto a canvas of fixed size, with one scale for both axes, and fill the rest."""

    op: Literal["letterbox"]
    size: tuple[int, int] = Field(description="[height, width] of the canvas.")
    fit: Literal["letterbox", "top_left"] = Field(
        default="letterbox",
        description="letterbox: centred, sides rounded, as Ultralytics does; top_left: in the corner, sides truncated.",
    )
    rounding: Literal["round", "floor", "ceil"] | None = Field(
        default=None,
        description="How the sides of the resized image become whole pixels; else round for letterbox, floor for "
        "top_left.",
    )
    fill: float = Field(default=114, ge=0, le=255, description="Value of the pixels around the image.")
    method: Literal["nearest", "bilinear", "bicubic", "lanczos", "area"] = "bilinear"
    library: Literal["pil", "torchvision", "tensorflow", "opencv"] = Field(
        default="pil", description="Whose resizing semantics; Ultralytics uses opencv."
    )

    @field_validator("size")
    @classmethod
    def _sane(cls, value: tuple[int, int]) -> tuple[int, int]:
        if any(not 1 <= extent <= MAX_EXTENT for extent in value):
            raise ValueError(f"a side must lie between 1 and {MAX_EXTENT}")
        return value


class ReadBoxes(Part):
    """How the tensors of a detector are read, and which boxes are kept.

    The parts of the output say which layout it is: `boxes`, `classes` and `scores` are finished lists, with `count` of
    how many are filled; `boxes` and `scores` are boxes with a score for each class; `predictions` is one tensor of
    boxes with their scores behind them.
    """

    op: Literal["boxes"]
    format: Literal["xyxy", "yxyx", "xywh", "cxcywh"] | None = Field(
        default=None,
        description="What the four numbers of a box are. Left out where a step before it says it, such as ssd_anchors.",
    )
    units: Literal["pixels", "shares", "image_pixels"] | None = Field(
        default=None,
        description="Pixels of the model's canvas, shares of its sides, or pixels of the image, of a model that is "
        "told its size. Left out likewise.",
    )
    transposed: bool = Field(
        default=False,
        description="predictions has shape [batch, numbers, boxes], as YOLOv8 and later; else [batch, boxes, numbers].",
    )
    finished: bool = Field(
        default=False,
        description="Behind each box of predictions stand its score and the number of its class, as in YOLOv10.",
    )
    objectness: bool = Field(
        default=False,
        description="The fifth number of predictions says whether there is an object; it multiplies scores of classes.",
    )
    activation: Literal["none", "sigmoid", "softmax"] = Field(
        default="none", description="What makes scores in 0…1 of the tensor's numbers; softmax runs over the classes."
    )
    background: Literal["none", "first", "last"] = Field(
        default="none", description="The class that means no object. It is dropped, and the others count from 0."
    )
    multi_label: bool = Field(
        default=True, description="A box counts once for every class of sufficient score, or for the best class only."
    )
    threshold: float = Field(
        default=0.001,
        ge=0,
        lt=1,
        description="Boxes of a lower score are dropped. Average precision needs a low one.",
    )
    clip: bool = Field(default=False, description="Cut boxes off at the border of the image, as Ultralytics does.")


class SsdAnchors(Part):
    """The anchors that boxes are encoded against, as MediaPipe and TensorFlow's SSD models make them. Comes before
    `boxes`."""

    op: Literal["ssd_anchors"]
    strides: tuple[int, ...] = Field(min_length=1, max_length=16, description="Pixels between anchors, of each layer.")
    min_scale: float = Field(default=0.2, gt=0, le=2)
    max_scale: float = Field(default=0.95, gt=0, le=2)
    aspect_ratios: tuple[float, ...] = Field(default=(1.0, 2.0, 0.5, 3.0, 1 / 3), min_length=1, max_length=16)
    interpolated_ratio: float = Field(
        default=1.0, ge=0, description="Aspect ratio of the anchor between the scales of two layers; 0: there is none."
    )
    reduce_lowest: bool = Field(default=True, description="The first layer has only three anchors a cell.")
    fixed_size: bool = Field(default=False, description="All anchors have the size of the canvas.")
    offset: float = Field(default=0.5, ge=0, le=1, description="Where in its cell an anchor's centre lies.")
    order: Literal["yxhw", "xywh"] = "yxhw"
    variances: tuple[float, float, float, float] = Field(
        default=(0.1, 0.1, 0.2, 0.2), description="Factors of the encoded numbers, in their own order."
    )
    exponential: bool = Field(default=True, description="Sides are encoded as logarithms.")

    @field_validator("strides")
    @classmethod
    def _positive(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return _checked_strides(value)

    @field_validator("aspect_ratios")
    @classmethod
    def _ratios(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0.01 <= ratio <= 100 for ratio in value):
            raise ValueError("an aspect ratio must lie between 0.01 and 100")
        return value


class YoloxGrid(Part):
    """The cells that boxes are encoded against by YOLOX without its decoding: offsets from a cell and logarithms of
    sides, in strides. Comes before `boxes`."""

    op: Literal["yolox_grid"]
    strides: tuple[int, ...] = Field(default=(8, 16, 32), min_length=1, max_length=16)

    @field_validator("strides")
    @classmethod
    def _positive(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return _checked_strides(value)


class YoloAnchors(Part):
    """The anchors of YOLOv3 to YOLOv7, of a file that ends with the heads: parts p3, p4 and p5, with strides of 8, 16
    and 32 pixels. Comes before `boxes`, which says objectness: true and activation: sigmoid."""

    op: Literal["yolo_anchors"]
    anchors: tuple[tuple[float, ...], ...] = Field(
        min_length=1,
        max_length=len(LEVELS),
        description="Widths and heights in pixels, a row for each level, as in Ultralytics' files: "
        "[[10, 13, 16, 30, 33, 23], …].",
    )
    layout: Literal["NAHWC", "NCHW", "NHWC"] = Field(
        default="NAHWC",
        description="Axes of a head: [batch, anchors, rows, columns, numbers], or the anchors' numbers one after the "
        "other as channels.",
    )
    decoding: Literal["yolov5", "yolov3"] = Field(
        default="yolov5",
        description="yolov5, also of YOLOv7: 2σ − 0.5 from the cell, sides (2σ)² × anchor; yolov3: σ, exp × anchor.",
    )

    @field_validator("anchors")
    @classmethod
    def _pairs(cls, value: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        for row in value:
            if not row or len(row) % 2 or len(row) > 2 * _MOST_ANCHORS:
                raise ValueError(f"a row of anchors has a width and a height for each of 1 to {_MOST_ANCHORS} anchors")
            if any(not 0 < side <= MAX_EXTENT for side in row):
                raise ValueError(f"the side of an anchor must lie between 0 and {MAX_EXTENT}")
        return value


class DistanceBins(Part):
    """Heads of YOLOv8 and later without their decoding (DFL): of each box four distributions over distances from the
    centre of its cell, in strides, then scores. Parts p3, p4 and p5. Comes before `boxes`, which says activation:
    sigmoid."""

    op: Literal["dfl"]
    reg_max: int = Field(default=16, ge=1, le=256, description="Bins of a distribution.")
    layout: Literal["NCHW", "NHWC"] = "NCHW"


class Suppress(Part):
    """Non-maximum suppression. Comes after `boxes`; a model whose boxes are final has none."""

    op: Literal["nms"]
    iou: float = Field(ge=0, le=1, description="A box that overlaps a better one by more than this is dropped.")
    class_aware: bool = Field(default=True, description="Only boxes of the same class suppress each other.")
    most: int = Field(default=MOST_BOXES, ge=1, le=MOST_BOXES, description="Boxes of an image that are kept, the best.")
    strict: bool = Field(default=True, description="An overlap that equals iou is kept, as in all common libraries.")
    offset: Literal[0, 1] = Field(default=0, description="1: right and bottom are the last pixels inside (Fast R-CNN).")


EncodedBoxes = SsdAnchors | YoloxGrid | YoloAnchors | DistanceBins


def check_box_steps(task: str, steps: Sequence[object]) -> None:
    """Raise ValueError if the steps of an output do not say once, and in order, how its boxes are read."""
    given = [step for step in steps if isinstance(step, EncodedBoxes | ReadBoxes | Suppress)]
    if task != "detection":
        if given:
            raise ValueError(f"{given[0].op} is for boxes: say task: detection")
        return
    reading = next((step for step in given if isinstance(step, ReadBoxes)), None)
    if reading is None:
        raise ValueError(
            "task: detection needs a step that says what a box is, such as {op: boxes, format: xyxy, units: pixels}"
        )
    order = [_STAGES[step.op] for step in given]
    if order != sorted(set(order)):
        first = ", ".join(name for name, stage in _STAGES.items() if not stage)
        raise ValueError(f"each step of a detection comes at most once: one of {first}, then boxes, then nms")
    said = reading.format is not None and reading.units is not None
    if len(order) > 1 and order[0] == 0:
        if reading.format is not None or reading.units is not None:
            raise ValueError(f"{given[0].op} says what a box is: leave format and units out of boxes")
    elif not said:
        raise ValueError("boxes needs format (xyxy, yxyx, xywh or cxcywh) and units (pixels, shares or image_pixels)")


_STAGES: Final = {"ssd_anchors": 0, "yolox_grid": 0, "yolo_anchors": 0, "dfl": 0, "boxes": 1, "nms": 2}


def _checked_strides(strides: tuple[int, ...]) -> tuple[int, ...]:
    if any(not 1 <= stride <= MAX_EXTENT for stride in strides):
        raise ValueError(f"a stride must lie between 1 and {MAX_EXTENT}")
    return strides
