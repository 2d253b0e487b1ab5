"""A picture as PNG, drawn with Pillow at twice its size, smoothed by drawing larger still.

A system's sans-serif font is used where there is one; Pillow's own has little beyond ASCII, so signs that it lacks
are spelt.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from math import hypot
from pathlib import Path
from typing import Any, Final

from PIL import Image, ImageColor, ImageDraw, ImageFont

from zoolens.crosstrain.report.marks import ROLES, Line, Mark, Picture, Point, Points, Polygon, Text, shortened

SCALE: Final = 2
SMOOTH: Final = 2  # times larger while it is drawn
LARGER: Final = SCALE * SMOOTH
LARGEST: Final = 4000  # pixels of a picture's side, unscaled

FONTS: Final = {
    False: ("DejaVuSans.ttf", "LiberationSans-Regular.ttf", "Arial.ttf", "arial.ttf"),
    True: ("DejaVuSans-Bold.ttf", "LiberationSans-Bold.ttf", "Arial Bold.ttf", "arialbd.ttf"),
}
NARROWER: Final = 0.94  # DejaVu runs wider than what pages are set in
SPELT: Final = {"Δ": "Delta", "≥": ">=", "≤": "<=", "×": "x", "−": "-", "–": "-", "…": "...", "²": "2"}


def write_png(picture: Picture, path: Path) -> None:
    if max(picture.width, picture.height) > LARGEST:
        raise ValueError(f"{picture.name}: a side is longer than {LARGEST} pixels")
    size = (round(picture.width * LARGER), round(picture.height * LARGER))
    image = Image.new("RGB", size, ROLES["ground"])
    canvas = ImageDraw.Draw(image, "RGBA")
    for mark in picture.marks:
        _draw(mark, canvas, image)
    image.reduce(SMOOTH).save(path, optimize=True)


def _draw(mark: Mark, canvas: ImageDraw.ImageDraw, image: Image.Image) -> None:
    match mark:
        case Points():
            reach, paint = mark.radius * LARGER, _paint(mark.colour, mark.opacity)
            for x, y in map(_placed, mark.at):
                canvas.ellipse((x - reach, y - reach, x + reach, y + reach), fill=paint)
        case Line():
            paint, width = _paint(mark.colour, mark.opacity), max(1, round(mark.width * LARGER))
            parts = _dashes(mark.through, mark.dash) if mark.dash else [mark.through]
            for part in parts:
                canvas.line([_placed(point) for point in part], fill=paint, width=width, joint="curve")
        case Polygon():
            canvas.polygon([_placed(point) for point in mark.corners], fill=_paint(mark.colour, mark.opacity))
        case Text():
            _write(mark, canvas, image)


def _write(mark: Text, canvas: ImageDraw.ImageDraw, image: Image.Image) -> None:
    font, whole = _font(round(mark.size * LARGER * NARROWER), mark.bold)
    text = shortened(mark.text)
    if not whole:
        text = "".join(SPELT.get(sign, sign if sign.isascii() else "?") for sign in text)
    paint = _paint(mark.colour, 1.0)
    x, y = _placed(mark.at)
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[mark.anchor]
    if not mark.turned:
        canvas.text((x, y), text, fill=paint, font=font, anchor=anchor)
        return
    left, top, right, bottom = (round(one) for one in font.getbbox(text, anchor=anchor))
    mask = Image.new("L", (max(1, right - left), max(1, bottom - top)))
    ImageDraw.Draw(mask).text((-left, -top), text, fill=255, font=font, anchor=anchor)
    turned = mask.transpose(Image.Transpose.ROTATE_90)
    image.paste(paint[:3], (round(x + top), round(y - right)), turned)


@cache
def _font(size: int, bold: bool) -> tuple[Any, bool]:
    """The font, and whether it has more than ASCII."""
    for name in FONTS[bold]:
        try:
            return ImageFont.truetype(name, size), True
        except OSError:
            continue
    return ImageFont.load_default(size), False


def _dashes(through: tuple[Point, ...], dash: tuple[float, float]) -> Iterator[tuple[Point, Point]]:
    """The drawn pieces of a dashed line; the pattern runs on around corners."""
    at, drawing = 0.0, True
    for (x, y), (to_x, to_y) in pairwise(through):
        length = hypot(to_x - x, to_y - y)
        done = 0.0
        while done < length:
            part = min(dash[0 if drawing else 1] - at, length - done)
            if drawing:
                start, end = done / length, (done + part) / length
                yield (
                    (x + (to_x - x) * start, y + (to_y - y) * start),
                    (x + (to_x - x) * end, y + (to_y - y) * end),
                )
            done += part
            at += part
            if at >= dash[0 if drawing else 1] - 1e-9:
                at, drawing = 0.0, not drawing


def _paint(colour: str, opacity: float) -> tuple[int, int, int, int]:
    red, green, blue = ImageColor.getrgb(ROLES.get(colour, colour))[:3]
    return red, green, blue, round(255 * opacity)


def _placed(point: Point) -> Point:
    return point[0] * LARGER, point[1] * LARGER
