"""A picture as data: marks in pixels, drawn in order by `vector` (SVG) and `raster` (PNG) alike.

A colour is "#rrggbb", or one of ROLES, which follow the reader's scheme in a page and are light in a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]

ROLES: Final = {"ink": "#1b1f24", "dim": "#5c6773", "line": "#d9dee4", "ground": "#ffffff", "soft": "#f4f6f8"}
SIDES: Final = ("#1f6feb", "#d9730d", "#2a9d6f", "#9254c8", "#c2255c", "#6b7280")  # one per framework, then again
DELTA: Final = "#a3164a"
LONGEST: Final = 110  # characters of a text

RAMP: Final = ((176, 194, 210), (233, 152, 62), (163, 15, 66))  # small to large: pale to dark, also without colour


@dataclass(frozen=True)
class Points:
    at: tuple[Point, ...]
    colour: str
    radius: float = 2.5
    opacity: float = 1.0


@dataclass(frozen=True)
class Line:
    through: tuple[Point, ...]
    colour: str = "ink"
    width: float = 1.0
    dash: tuple[float, float] | None = None
    opacity: float = 1.0


@dataclass(frozen=True)
class Polygon:
    corners: tuple[Point, ...]
    colour: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Text:
    """`at` is on the base line; `turned` reads upwards."""

    at: Point
    text: str
    colour: str = "ink"
    size: float = 12.0
    anchor: Anchor = "start"
    bold: bool = False
    turned: bool = False


Mark = Points | Line | Polygon | Text


@dataclass(frozen=True)
class Picture:
    """`name`: of its file. `title`: said to those who cannot see it."""

    name: str
    title: str
    width: float
    height: float
    marks: tuple[Mark, ...] = field(repr=False)


def box(left: float, top: float, right: float, bottom: float, colour: str, opacity: float = 1.0) -> Polygon:
    return Polygon(((left, top), (right, top), (right, bottom), (left, bottom)), colour, opacity)


def shortened(text: object, longest: int = LONGEST) -> str:
    """One line without control characters and without end."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def ramp(share: float) -> str:
    """The colour of a share from 0 to 1."""
    share = min(max(share, 0.0), 1.0)
    low, middle, high = RAMP
    start, end, part = (low, middle, 2 * share) if share < 0.5 else (middle, high, 2 * share - 1)
    return "#" + "".join(f"{round(one + (two - one) * part):02x}" for one, two in zip(start, end, strict=True))
