"""Detectors and segmenters recognised by their files: operators, properties, names and shapes of outputs.

What is known by convention (TFLite's operator for detections, the properties that Ultralytics writes, the names that
TensorFlow's and DETR's exporters use) becomes a task. A shape that fits several tasks does not: the output is "other",
and all that it may be is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.manifests.schema_boxes import Letterbox, ReadBoxes, Suppress
from zoolens.inventory.manifests.schema_masks import Masks
from zoolens.inventory.manifests.schema_steps import Normalize, Step
from zoolens.inventory.runtimes.outputs.embedded_notes import (
    listed_names,
    listed_size,
    onnx_properties,
    postprocessed,
    zipped_labels,
)
from zoolens.inventory.runtimes.runtime import TensorSpec

_STRIDES: Final = (8, 16, 32)  # of YOLO's three maps
_ANCHORS: Final = 3  # of each cell, before YOLOv8
_NUMBERS: Final = 4  # of a box
_WHOLE: Final = ("int32", "int64", "uint8", "int8")
_TENSORFLOW: Final = {
    "detection_boxes": "boxes",
    "detection_classes": "classes",
    "detection_scores": "scores",
    "num_detections": "count",
}
_TOKENS: Final = frozenset({"input_ids", "attention_mask"})
_TASKS: Final = {"segment": "instance segmentation", "pose": "pose estimation", "obb": "detection of rotated boxes"}


@dataclass(frozen=True)
class TaskGuess:
    """Outputs of a task and why they are so; `steps` replace the usual preparation of images."""

    outputs: tuple[Output, ...]
    said: tuple[str, ...]
    steps: tuple[Step, ...] | None = None


@dataclass(frozen=True)
class DraftedFile:
    """What is known of a file that is drafted."""

    format: str
    path: Path
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]


def guessed_task(file: DraftedFile) -> TaskGuess | None:
    """The task of a file that is no plain classifier; None: nothing here recognises it."""
    for guess in (_tflite_detector, _ultralytics, _named_boxes, _yolo_by_shape, _map_of_classes, _tokens):
        found = guess(file)
        if found is not None:
            return found
    return None


def embedded_labels(file: DraftedFile) -> tuple[str, ...] | None:
    """The names of classes that the file holds itself."""
    if file.format == "tflite":
        return zipped_labels(file.path)
    return listed_names(onnx_properties(file.path).get("names", "")) if file.format == "onnx" else None


# --- detectors


def _tflite_detector(file: DraftedFile) -> TaskGuess | None:
    places = postprocessed(file.path) if file.format == "tflite" else {}
    if not {"boxes", "classes", "scores"} <= set(places) or max(places.values()) >= len(file.outputs):
        return None
    labels = embedded_labels(file)
    parts = {role: file.outputs[place].name for role, place in places.items()}
    said = ["boxes, classes, scores and count are told apart by their position, as TFLite's operator gives them"]
    said.append(
        f"names of {len(labels)} classes are those in the file"
        if labels
        else "the names of the classes are unknown: of COCO's models class 0 is person, and classes count as COCO's "
        "91 categories less 1"
    )
    return _detector(parts, ReadBoxes(op="boxes", format="yxyx", units="shares"), said, labels=labels)


def _named_boxes(file: DraftedFile) -> TaskGuess | None:
    names = {spec.name.rpartition(":")[0] or spec.name: spec for spec in file.outputs}
    parts = {role: names[name].name for name, role in _TENSORFLOW.items() if name in names}
    if {"boxes", "classes", "scores"} <= set(parts):
        said = ["outputs have the names of TensorFlow's object detection: boxes are ymin, xmin, ymax, xmax from 0 to 1"]
        return _detector(parts, ReadBoxes(op="boxes", format="yxyx", units="shares"), said)
    boxes, scores = names.get("pred_boxes"), names.get("logits")
    if boxes is not None and scores is not None and boxes.shape[-1:] == (_NUMBERS,):
        said = ["outputs have the names of DETR: centres and sides from 0 to 1, and the last class is no object"]
        reading = ReadBoxes(
            op="boxes", format="cxcywh", units="shares", activation="softmax", background="last", multi_label=False
        )
        return _detector({"boxes": boxes.name, "scores": scores.name}, reading, said)
    return None


def _ultralytics(file: DraftedFile) -> TaskGuess | None:
    known = onnx_properties(file.path) if file.format == "onnx" else {}
    task = known.get("task", "")
    if "stride" not in known or "imgsz" not in known:
        return None
    if task in _TASKS:
        said = f"Ultralytics wrote the task {task} into the file, {_TASKS[task]}, which has no task here"
        return _other(file, said)
    labels = listed_names(known.get("names", ""))
    size = listed_size(known["imgsz"])
    if task != "detect" or labels is None or size is None or len(file.outputs) != 1:
        return None
    shape = file.outputs[0].shape
    if len(shape) == 3 and shape[2] == _NUMBERS + 2:
        reading = ReadBoxes(op="boxes", format="xyxy", units="pixels", finished=True)
        return _yolo(file, reading, size, labels, "Ultralytics wrote it into the file; boxes are final", nms=False)
    if len(shape) == 3 and shape[1] == _NUMBERS + len(labels):
        reading = ReadBoxes(op="boxes", format="cxcywh", units="pixels", transposed=True, clip=True)
        return _yolo(file, reading, size, labels, "Ultralytics wrote it into the file")
    return None


def _yolo_by_shape(file: DraftedFile) -> TaskGuess | None:
    """One tensor with as many boxes as the three maps of YOLO have cells for this size of image."""
    size = _image_size(file.inputs)
    if size is None or len(file.outputs) != 1 or len(file.outputs[0].shape) != 3:
        return None
    _, first, second = file.outputs[0].shape
    cells = sum((size[0] // stride) * (size[1] // stride) for stride in _STRIDES)
    if second == cells and first is not None and _NUMBERS < first < cells:
        reading = ReadBoxes(op="boxes", format="cxcywh", units="pixels", transposed=True, clip=True)
        why = f"{first}×{second:,} numbers for an image of {size[0]}×{size[1]} are those of YOLOv8 and later"
        return _yolo(file, reading, size, None, f"{why}, with {first - _NUMBERS} classes")
    if first == _ANCHORS * cells and second is not None and second > _NUMBERS + 1:
        reading = ReadBoxes(op="boxes", format="cxcywh", units="pixels", objectness=True, clip=True)
        why = f"{first:,}×{second} numbers for an image of {size[0]}×{size[1]} are those of YOLOv5 and YOLOv7"
        return _yolo(file, reading, size, None, f"{why}, with {second - _NUMBERS - 1} classes")
    return None


def _yolo(
    file: DraftedFile,
    reading: ReadBoxes,
    size: tuple[int, int],
    labels: tuple[str, ...] | None,
    why: str,
    *,
    nms: bool = True,
) -> TaskGuess:
    steps = (
        Letterbox(op="letterbox", size=size, library="opencv"),
        Normalize(op="normalize", scale=1 / 255),
    )
    said = [f"the task is detection: {why}", f"images are fitted into {size[0]}×{size[1]} on grey 114, from 0 to 1"]
    if nms:
        said.append("boxes that overlap by more than 0.7 are suppressed, as Ultralytics evaluates")
    found = _detector({"predictions": file.outputs[0].name}, reading, said, labels=labels, nms=nms)
    return TaskGuess(found.outputs, found.said, steps)


def _detector(
    parts: dict[str, str],
    reading: ReadBoxes,
    said: Sequence[str],
    *,
    labels: tuple[str, ...] | None = None,
    nms: bool = False,
) -> TaskGuess:
    steps = (reading, Suppress(op="nms", iou=0.7)) if nms else (reading,)
    output = Output(parts=parts, task="detection", scores="probabilities", postprocess=steps, labels=labels or None)
    return TaskGuess((output,), tuple(said))


# --- maps and tokens


def _map_of_classes(file: DraftedFile) -> TaskGuess | None:
    """One map as large as the image: classes of its pixels, unless it may be a picture or a measure of each pixel."""
    size = _image_size(file.inputs)
    if size is None or len(file.outputs) != 1:
        return None
    (spec,) = file.outputs
    layouts = {3: ("NHW",), 4: ("NCHW", "NHWC")}.get(len(spec.shape), ())
    layout = next((one for one in layouts if _sides(spec.shape, one) == size), None)
    if layout is None:
        return None
    channels = spec.shape[layout.index("C")] if "C" in layout else None
    whole = spec.dtype in _WHOLE and not spec.quantised
    if layout == "NHW" and whole:
        said = f"{spec.name} holds the number of a class for each pixel"
    elif channels is not None and channels > 1 and channels not in (3, 4):
        said = f"{spec.name} holds scores of {channels} classes for each pixel"
    else:
        return _other(
            file,
            f"the task of {spec.name} is unknown, a map as large as the image: classes of pixels (task: segmentation), "
            "a picture, or one quantity a pixel such as depth",
        )
    masks = Masks(op="masks", layout=layout)  # type: ignore[arg-type]
    return TaskGuess((Output(name=spec.name, task="segmentation", postprocess=(masks,)),), (said,))


def _tokens(file: DraftedFile) -> TaskGuess | None:
    """A network of tokens with one vector for each: hidden states and scores of tags look the same."""
    if not {spec.name for spec in file.inputs} >= _TOKENS:
        return None
    names = [spec.name for spec in file.outputs]
    if {"start_logits", "end_logits"} <= set(names):
        said = "outputs have the names of question answering: begin and end of the answer, by token"
        return _other(file, f"{said}; declare the input as text with its tokenizer")
    each = next((spec for spec in file.outputs if len(spec.shape) == 3), None)
    if each is None or len(file.outputs) != 1:
        return None
    numbers = each.shape[2] or "several"
    return _other(
        file,
        f"the task of {each.name} is unknown, {numbers} numbers for each token: hidden states (task: embedding, with "
        "pool), scores of tags, or scores of the next token; declare the input as text with its tokenizer",
    )


def _other(file: DraftedFile, said: str) -> TaskGuess:
    return TaskGuess(tuple(Output(name=spec.name, task="other") for spec in file.outputs), (said,))


def _image_size(inputs: Sequence[TensorSpec]) -> tuple[int, int] | None:
    """Height and width of the one image that a file takes, where it fixes them."""
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        return None
    shape = inputs[0].shape
    layout = "NCHW" if shape[1] in (1, 3) else "NHWC" if shape[3] in (1, 3) else None
    return _sides(shape, layout) if layout else None


def _sides(shape: Sequence[int | None], layout: str) -> tuple[int, int] | None:
    height, width = shape[layout.index("H")], shape[layout.index("W")]
    return (height, width) if height and width else None


def with_steps(given: Input, steps: tuple[Step, ...] | None) -> Input:
    """The input with these steps instead of its own, where it is an image and there are some."""
    return given.model_copy(update={"preprocess": steps}) if steps and given.modality == "image" else given
