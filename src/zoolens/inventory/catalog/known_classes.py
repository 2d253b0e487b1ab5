"""Names of classes that many files leave out, because everybody who uses them is taken to know them."""

from __future__ import annotations

from typing import Final

UNUSED: Final = "???"  # a number that has no class
# COCO's categories by id, from 1 on. Models of TensorFlow answer the id less 1.
COCO_BY_ID: Final = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", UNUSED, "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow",
    "elephant", "bear", "zebra", "giraffe", UNUSED, "backpack", "umbrella", UNUSED, UNUSED, "handbag", "tie",
    "suitcase", "frisbee", "skis", "snowboard", "sports ball", "kite", "baseball bat", "baseball glove", "skateboard",
    "surfboard", "tennis racket", "bottle", UNUSED, "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana",
    "apple", "sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch",
    "potted plant", "bed", UNUSED, "dining table", UNUSED, UNUSED, "toilet", UNUSED, "tv", "laptop", "mouse", "remote",
    "keyboard", "cell phone", "microwave", "oven", "toaster", "sink", "refrigerator", UNUSED, "book", "clock", "vase",
    "scissors", "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip
FIRST_OF_IMAGENET: Final = "tench"  # its first class, which goes by several names: "tench, Tinca tinca"
COCO: Final = tuple(name for name in COCO_BY_ID if name != UNUSED)
_BY_COUNT: Final = {len(COCO): COCO, len(COCO_BY_ID): COCO_BY_ID}
BACKGROUND: Final = ("background", "__background__", UNUSED, "unlabeled", "")


def usual_classes(count: int | None) -> tuple[str, ...] | None:
    """The names that a detector with so many classes most likely means: 80 and 90 are COCO's."""
    return _BY_COUNT.get(count or 0)


def without_background(names: tuple[str, ...], classes: int | None) -> tuple[str, ...] | None:
    """Names for classes that count from 0 without a background; None where there are not as many."""
    if classes is None or len(names) == classes:
        return names
    if len(names) == classes + 1 and names[0].lower() in BACKGROUND:
        return names[1:]
    return None
