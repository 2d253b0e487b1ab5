"""The 80 classes of COCO's boxes by their ids, which have gaps: models count them in four ways."""

from __future__ import annotations

from typing import Final

UNUSED: Final = "???"  # name of a number that stands for no class
# Ids 1 to 90. The ten that are not used belong to classes of the paper that were never annotated.
_NAMES: Final = (
    "person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, ???, stop sign, "
    "parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, ???, backpack, umbrella, "
    "???, ???, handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, "
    "skateboard, surfboard, tennis racket, bottle, ???, wine glass, cup, fork, knife, spoon, bowl, banana, apple, "
    "sandwich, orange, broccoli, carrot, hot dog, pizza, donut, cake, chair, couch, potted plant, bed, ???, dining "
    "table, ???, ???, toilet, ???, tv, laptop, mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, "
    "refrigerator, ???, book, clock, vase, scissors, teddy bear, hair drier, toothbrush"
)
BY_ID: Final = tuple(_NAMES.split(", "))
CLASSES: Final = tuple(name for name in BY_ID if name != UNUSED)

NUMBERINGS: Final = {
    "COCO's 80 classes in order": CLASSES,
    "COCO's 80 classes in order, from 1": ("background", *CLASSES),
    "COCO's ids less 1": BY_ID,
    "COCO's ids": ("background", *BY_ID),
}
