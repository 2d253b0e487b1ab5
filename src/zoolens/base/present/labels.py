"""Names beside points: as many as have room, so that no name covers another one or a point, or leaves the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from zoolens.base.present.charts import LETTER
from zoolens.base.present.text import shareable

LONGEST: Final = 34  # characters of a name beside a point
HEIGHT: Final = 13  # pixels of a line of text
ASIDE: Final = 7  # pixels from the middle of a point to its name
ABOVE: Final = 10  # pixels from the middle of a point to the middle of its name
RADIUS: Final = 7  # pixels of a point, about
MOST_OBSTACLES: Final = 300


class Box(NamedTuple):
    left: float
    right: float
    top: float
    bottom: float


@dataclass(frozen=True)
class Label:
    """A name that has room."""

    place: int  # of its point among those that were given
    text: str
    # Vega's words: "left" where the name begins right of its point, "right" where it ends left of it.
    align: Literal["left", "right"]


def fitting_labels(
    points: Sequence[tuple[float, float, str]], width: float, most: int, others: Sequence[tuple[float, float]] = ()
) -> list[Label]:
    """The names of the first points that have room, at most so many. Points are given in pixels from the upper left
    corner, those first whose names matter most. A name stands a little above its point. `others`: points without names,
    which are not to be covered either, unless they are very many."""
    unnamed = others if len(others) <= MOST_OBSTACLES else ()
    centres = [(x, y) for x, y, _ in points]
    circles = [_circle(x, y) for x, y in (*centres, *unnamed)]
    taken: list[Box] = []
    labels: list[Label] = []
    for place, (x, y, name) in enumerate(points):
        if len(labels) == most:
            break
        text = shareable(name, LONGEST)
        other_circles = circles[:place] + circles[place + 1 :]
        obstacles = [*taken, *other_circles]
        for align in _SIDES:
            box = _box(x, y, text, align)
            inside = box.left >= 0 and box.right <= width and box.top >= 0
            if inside and not any(_overlap(box, obstacle) for obstacle in obstacles):
                taken.append(box)
                labels.append(Label(place, text, align))
                break
    return labels


_SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")


def _circle(x: float, y: float) -> Box:
    return Box(x - RADIUS, x + RADIUS, y - RADIUS, y + RADIUS)


def _box(x: float, y: float, text: str, align: Literal["left", "right"]) -> Box:
    length = LETTER * len(text)
    left = x + ASIDE if align == "left" else x - ASIDE - length
    middle = y - ABOVE
    return Box(left, left + length, middle - HEIGHT / 2, middle + HEIGHT / 2)


def _overlap(a: Box, b: Box) -> bool:
    sideways = a.left < b.right and b.left < a.right
    upright = a.top < b.bottom and b.top < a.bottom
    return sideways and upright


def label_mark(align: Literal["left", "right"]) -> dict[str, object]:
    """The mark of the labels of one side."""
    shift = ASIDE if align == "left" else -ASIDE
    return {"type": "text", "align": align, "dx": shift, "dy": -ABOVE, "fontSize": 11}
