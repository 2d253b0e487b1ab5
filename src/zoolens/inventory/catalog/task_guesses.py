"""Detectors and segmenters recognised by their files: operators, properties, names and shapes of outputs.

What is known by convention (TFLite's operator for detections, the properties that Ultralytics writes, the names that
TensorFlow's and DETR's exporters use) becomes a task. A shape that fits several tasks does not: the output is "other",
and all that it may be is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from zoolens.inventory.catalog.drafted import UNCHECKED, DraftedFile, TaskGuess, detector, other
from zoolens.inventory.catalog.folder_guesses import transformers_folder
from zoolens.inventory.catalog.known_classes import usual_classes
from zoolens.inventory.catalog.text_inputs import find_tokenizer, text_input
from zoolens.inventory.catalog.tflite_guesses import tflite_detector, tflite_words
from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.manifests.schema_boxes import Letterbox, ReadBoxes
from zoolens.inventory.manifests.schema_masks import Masks
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Pool, Resize, Step
from zoolens.inventory.runtimes.outputs.embedded_notes import listed_names, listed_size, onnx_properties
from zoolens.inventory.runtimes.outputs.output_endings import Ending, endings
from zoolens.inventory.runtimes.runtime import TensorSpec

_STRIDES: Final = (8, 16, 32)  # of YOLO's three maps
_ANCHORS: Final = 3  # of each cell, before YOLOv8
_NUMBERS: Final = 4  # of a box
_POSE: Final = 4 + 1 + 3 * 17  # numbers of a person with COCO's points
_SIGMOID_CLASSES: Final = (80, 91)  # of detectors with sigmoids; DETR's softmax has 92
_WHOLE: Final = ("int32", "int64", "uint8", "int8")
_TENSORFLOW: Final = {
    "detection_boxes": "boxes",
    "detection_classes": "classes",
    "detection_scores": "scores",
    "num_detections": "count",
}
_DIVIDED: Final = Normalize(op="normalize", scale=1 / 255)  # Ultralytics subtracts no mean
_TASKS: Final = {"segment": "instance segmentation", "pose": "pose estimation", "obb": "detection of rotated boxes"}


def guessed_task(file: DraftedFile) -> TaskGuess | None:
    """The task of a file that is no plain classifier; None: nothing here recognises it."""
    folder = transformers_folder(file)
    if folder is not None and folder.outputs:
        return folder
    for guess in _TRIED:
        found = guess(file)
        if found is not None:
            return found if folder is None else _in_folder(found, folder)
    return folder


def _in_folder(found: TaskGuess, folder: TaskGuess) -> TaskGuess:
    """What is known of outputs by other means, with images as their folder says."""
    said, stated = (*folder.said, *found.said), (*folder.stated, *found.stated)
    return replace(found, said=said, stated=stated, steps=folder.steps)


# --- detectors


def _named_boxes(file: DraftedFile) -> TaskGuess | None:
    names = {spec.name.rpartition(":")[0] or spec.name: spec for spec in file.outputs}
    parts = {role: names[name].name for name, role in _TENSORFLOW.items() if name in names}
    if {"boxes", "classes", "scores"} <= set(parts):
        said = [
            "outputs have the names of TensorFlow's object detection: boxes are ymin, xmin, ymax, xmax from 0 to 1",
            f"classes count from 1 and their names are those of the dataset, by number ({UNCHECKED})",
        ]
        return detector(parts, ReadBoxes(op="boxes", format="yxyx", units="shares", background="first"), said)
    boxes, scores = names.get("pred_boxes"), names.get("logits")
    if boxes is not None and scores is not None and boxes.shape[-1:] == (_NUMBERS,):
        return _detr(file, boxes.name, scores)
    return None


def _detr(file: DraftedFile, boxes: str, scores: TensorSpec) -> TaskGuess:
    """DETR has a softmax whose last class is no object. Its followers (Deformable DETR, RT-DETR) give their outputs the
    same names and have sigmoids; those with COCO's 80 or 91 classes are known by their number."""
    ends = endings(file.format, file.path, len(file.outputs))
    end = ends[file.outputs.index(scores)] if len(ends) == len(file.outputs) else Ending.UNKNOWN
    softmax = end is not Ending.SIGMOID and scores.shape[-1] not in _SIGMOID_CLASSES
    activation = "none" if end in (Ending.SOFTMAX, Ending.SIGMOID) else "softmax" if softmax else "sigmoid"
    kind = "a softmax whose last class is no object" if softmax else "sigmoids without a class of no object"
    said = [
        "outputs have the names of DETR: centres and sides from 0 to 1",
        f"scores are {kind} ({UNCHECKED}: DETR has a softmax, RT-DETR and Deformable DETR sigmoids)",
        f"the names of the classes are those of the dataset, by number ({UNCHECKED})",
    ]
    reading = ReadBoxes(
        op="boxes",
        format="cxcywh",
        units="shares",
        activation=activation,  # type: ignore[arg-type]
        background="last" if softmax else "none",
        multi_label=not softmax,
    )
    return detector({"boxes": boxes, "scores": scores.name}, reading, said)


def _ultralytics(file: DraftedFile) -> TaskGuess | None:
    known = onnx_properties(file.path) if file.format == "onnx" else {}
    task = known.get("task", "")
    if "stride" not in known or "imgsz" not in known:
        return None
    labels = listed_names(known.get("names", ""))
    size = listed_size(known["imgsz"]) or _image_size(file.inputs)
    if task == "classify" and size is not None:
        return _ultralytics_classifier(size)
    if task != "detect":
        what = f", {_TASKS[task]}, which has no task here" if task in _TASKS else ""
        said = f"Ultralytics wrote the task {task[:40] or 'of no name'} into the file{what}"
        return _fitted(other(file, said), size)
    if labels is None or size is None or len(file.outputs) != 1:
        return _fitted(other(file, "Ultralytics wrote the task detect into the file, whose outputs are others"), size)
    shape = file.outputs[0].shape
    if len(shape) == 3 and shape[2] == _NUMBERS + 2:
        reading = ReadBoxes(op="boxes", format="xyxy", units="pixels", finished=True)
        return _yolo(file, reading, size, labels, "Ultralytics wrote it into the file; boxes are final", nms=False)
    if len(shape) == 3 and shape[1] == _NUMBERS + len(labels):
        reading = ReadBoxes(op="boxes", format="cxcywh", units="pixels", transposed=True, clip=True)
        return _yolo(file, reading, size, labels, "Ultralytics wrote it into the file")
    return _fitted(other(file, "Ultralytics wrote the task detect into the file, whose output has another shape"), size)


def _ultralytics_classifier(size: tuple[int, int]) -> TaskGuess:
    if size[0] != size[1]:
        steps: tuple[Step, ...] = (Resize(op="resize", size=size), _DIVIDED)
        said = f"images are stretched to {size[0]}×{size[1]}, from 0 to 1 ({UNCHECKED})"
    else:
        steps = (Resize(op="resize", size=size[0]), CenterCrop(op="center_crop", size=size), _DIVIDED)
        said = f"the middle {size[0]}×{size[1]} of images go in, from 0 to 1, as Ultralytics evaluates"
    return TaskGuess((), (said,), steps, ("Ultralytics wrote the task classify into the file",))


def _fitted(found: TaskGuess, size: tuple[int, int] | None) -> TaskGuess:
    """The guess with images as Ultralytics gives them to every network but its classifiers."""
    if size is None:
        said = f"images are not resized ({UNCHECKED}), and go in from 0 to 1"
        return replace(found, said=(*found.said, said), steps=(_DIVIDED,))
    said = f"images are fitted into {size[0]}×{size[1]} on grey 114, from 0 to 1"
    letterbox = Letterbox(op="letterbox", size=size, library="opencv")
    return replace(found, said=(*found.said, said), steps=(letterbox, _DIVIDED))


def _yolo_by_shape(file: DraftedFile) -> TaskGuess | None:
    """One tensor with as many boxes as the three maps of YOLO have cells for this size of image."""
    size = _image_size(file.inputs)
    if size is None or len(file.outputs) != 1 or len(file.outputs[0].shape) != 3:
        return None
    _, first, second = file.outputs[0].shape
    if first == _POSE:
        return None  # a person and 17 points, far more often than 52 classes
    cells = sum((size[0] // stride) * (size[1] // stride) for stride in _STRIDES)
    if second == cells and first is not None and _NUMBERS < first < cells:
        reading = ReadBoxes(op="boxes", format="cxcywh", units="pixels", transposed=True, clip=True)
        why = f"{first}×{second:,} numbers for an image of {size[0]}×{size[1]} are those of YOLOv8 and later"
        return _yolo_of_unnamed(file, reading, size, first - _NUMBERS, why)
    if first == _ANCHORS * cells and second is not None and second > _NUMBERS + 1:
        reading = ReadBoxes(op="boxes", format="cxcywh", units="pixels", objectness=True, clip=True)
        why = f"{first:,}×{second} numbers for an image of {size[0]}×{size[1]} are those of YOLOv5 and YOLOv7"
        return _yolo_of_unnamed(file, reading, size, second - _NUMBERS - 1, why)
    return None


def _yolo_of_unnamed(file: DraftedFile, reading: ReadBoxes, size: tuple[int, int], classes: int, why: str) -> TaskGuess:
    labels = usual_classes(classes)
    whose = "COCO's" if labels else "the dataset's, by number"
    return _yolo(file, reading, size, labels, f"{why}, with {classes} classes, taken for {whose} ({UNCHECKED})")


def _yolo(
    file: DraftedFile,
    reading: ReadBoxes,
    size: tuple[int, int],
    labels: tuple[str, ...] | None,
    why: str,
    *,
    nms: bool = True,
) -> TaskGuess:
    said = [f"the task is detection: {why}"]
    if nms:
        said.append("boxes that overlap by more than 0.7 are suppressed, as Ultralytics evaluates")
    found = detector({"predictions": file.outputs[0].name}, reading, said, labels=labels, nms=nms)
    return _fitted(found, size)


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
        return other(
            file,
            f"the task of {spec.name} is unknown, a map as large as the image: classes of pixels (task: segmentation), "
            "a picture, or one quantity a pixel such as depth",
        )
    masks = Masks(op="masks", layout=layout)  # type: ignore[arg-type]
    names = f"the names of the classes are unknown: they are taken to be the dataset's, by number ({UNCHECKED})"
    return TaskGuess((Output(name=spec.name, task="segmentation", postprocess=(masks,)),), (said, names))


def _tokens(file: DraftedFile) -> TaskGuess | None:
    """A network of tokens. One with a vector for each leaves open whether that is a hidden state or scores of tags."""
    if "input_ids" not in {spec.name for spec in file.inputs}:
        return None
    given, said = _text_beside(file)
    names = [spec.name for spec in file.outputs]
    if {"start_logits", "end_logits"} <= set(names):
        said.append("outputs have the names of question answering: begin and end of the answer, by token")
        return replace(other(file, "; ".join(said)), inputs=given.inputs, files=given.files)
    each = next((spec for spec in file.outputs if len(spec.shape) == 3), None)
    if each is None or len(file.outputs) != 1:
        return replace(given, said=tuple(said)) if given.inputs else None
    if given.inputs and each.name == "last_hidden_state":
        said.append(f"{each.name} holds hidden states, whose mean is the vector of a text ({UNCHECKED})")
        output = Output(name=each.name, task="embedding", postprocess=(Pool(op="pool"),))
        return replace(given, outputs=(output,), said=tuple(said))
    numbers = each.shape[2] or "several"
    open_ = (
        f"the task of {each.name} is unknown, {numbers} numbers for each token: hidden states (task: embedding, with "
        "pool), scores of tags, or scores of the next token"
    )
    return replace(other(file, "; ".join([*said, open_])), inputs=given.inputs, files=given.files)


def _text_beside(file: DraftedFile) -> tuple[TaskGuess, list[str]]:
    """The input as text, where the tokenizer lies beside the file, and what is said of it."""
    said: list[str] = []
    tokenizer = find_tokenizer(file.path, file.path.parent, said)
    if tokenizer is None:
        return TaskGuess((), ()), ["the input is numbers of tokens: declare it as text with its tokenizer"]
    made = text_input(file, {}, {}, said)
    if isinstance(made, str):
        return TaskGuess((), ()), [f"{made}: declare the input as text with its tokenizer"]
    said.append(f"texts are split by {tokenizer.location} with its special tokens ({UNCHECKED})")
    return TaskGuess((), (), inputs=(made,), files=(tokenizer,)), said


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


# What says most comes first: shapes are asked last.
_TRIED: Final = (
    tflite_words,
    tflite_detector,
    _ultralytics,
    _named_boxes,
    _yolo_by_shape,
    _map_of_classes,
    _tokens,
)
