"""Pictures of circles, squares and triangles, with a box around each, drawn from a seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

CLASSES: Final = ("circle", "square", "triangle")
SIDE: Final = 64  # pixels of a picture
_MOST: Final = 4  # shapes of one picture
_SMALLEST, _LARGEST = 7, 28  # pixels of a shape's side
_CONTRAST: Final = 45  # by which the colour of a shape differs from the background, at least in one channel
_LEAST_SEEN: Final = 0.7  # share of a shape that later ones leave to be seen


@dataclass(frozen=True)
class Picture:
    """`boxes`: left, top, width and height of each shape, in pixels."""

    pixels: NDArray[np.uint8]
    boxes: NDArray[np.float64]
    classes: NDArray[np.int64]


def draw(random: np.random.Generator) -> Picture:
    """One picture: shapes that may touch each other on a plain background, with two lines that mean nothing."""
    ground = random.integers(0, 256, 3)
    image = Image.new("RGB", (SIDE, SIDE), tuple(int(value) for value in ground))
    owner = Image.new("L", (SIDE, SIDE), 0)  # which shape a pixel shows
    for _ in range(2):
        ends = [int(value) for value in random.integers(0, SIDE, 4)]
        ImageDraw.Draw(image).line(ends, fill=_colour(random, ground))
    drawn: list[tuple[int, tuple[int, int, int, int]] | None] = []
    areas: list[int] = []
    for number in range(1, int(random.integers(1, _MOST + 1)) + 1):
        kind, side = int(random.integers(len(CLASSES))), int(random.integers(_SMALLEST, _LARGEST + 1))
        left, top = (int(value) for value in random.integers(0, SIDE - side, 2))
        before = np.asarray(owner).copy()
        _shape(ImageDraw.Draw(owner), kind, (left, top, left + side - 1, top + side - 1), number)
        after = np.asarray(owner)
        hidden = [int((after == place).sum()) < _LEAST_SEEN * area for place, area in enumerate(areas, 1)]
        if any(hidden):
            owner = Image.fromarray(before)
            areas.append(0)
            drawn.append(None)
            continue
        _shape(ImageDraw.Draw(image), kind, (left, top, left + side - 1, top + side - 1), _colour(random, ground))
        areas.append(int((after == number).sum()))
        drawn.append((kind, (left, top, side, side)))
    kept = [shape for shape in drawn if shape is not None]
    boxes = np.array([box for _, box in kept], np.float64).reshape(-1, 4)
    return Picture(np.asarray(image), boxes, np.array([kind for kind, _ in kept], np.int64))


def _shape(canvas: Any, kind: int, corners: tuple[int, int, int, int], fill: Any) -> None:
    left, top, right, bottom = corners
    if CLASSES[kind] == "circle":
        canvas.ellipse(corners, fill=fill)
    elif CLASSES[kind] == "square":
        canvas.rectangle(corners, fill=fill)
    else:
        canvas.polygon([((left + right) // 2, top), (left, bottom), (right, bottom)], fill=fill)


def _colour(random: np.random.Generator, ground: NDArray[Any]) -> tuple[int, int, int]:
    while True:
        red, green, blue = (int(value) for value in random.integers(0, 256, 3))
        if max(abs(red - ground[0]), abs(green - ground[1]), abs(blue - ground[2])) >= _CONTRAST:
            return red, green, blue


def write_dataset(folder: Path, count: int, seed: int) -> None:
    """A folder of PNG files and their boxes as COCO's JSON."""
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    listed: list[dict[str, Any]] = []
    boxes: list[dict[str, Any]] = []
    for number in range(count):
        picture = draw(random)
        name = f"{number:03}.png"
        Image.fromarray(picture.pixels).save(images / name, optimize=True)
        listed.append({"id": number, "file_name": name, "width": SIDE, "height": SIDE})
        for box, kind in zip(picture.boxes.astype(int).tolist(), picture.classes.tolist(), strict=True):
            annotation = {"id": len(boxes) + 1, "image_id": number, "category_id": kind + 1, "bbox": box}
            boxes.append({**annotation, "area": box[2] * box[3], "iscrowd": 0})
    categories = [{"id": number + 1, "name": name} for number, name in enumerate(CLASSES)]
    content = {"images": listed, "categories": categories, "annotations": boxes}
    (folder / "boxes.json").write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
