"""What a page draws of one answer, or of what is right: boxes or a map of classes on an image, words that are marked
in a text, stretches of a sound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class DrawnBox:
    """A box in pixels of the image, with what it is said to be. `number`: of its class, which decides its colour."""

    left: float
    top: float
    width: float
    height: float
    name: str
    score: float | None = None
    number: int = 0


@dataclass(frozen=True)
class DrawnClass:
    """A class of a map, and the share of the pixels that it has."""

    number: int
    name: str
    share: float


@dataclass(frozen=True)
class DrawnMark:
    """Words of the input from `first` to `last`, counted from 0, that belong together, and what they are said to be.

    The words themselves are the dataset's: answers do not hold them.
    """

    first: int
    last: int
    name: str


@dataclass(frozen=True)
class DrawnSpan:
    """A stretch of a sound, in seconds from its beginning."""

    begin: float
    end: float


@dataclass(frozen=True)
class Drawing:
    """`classes`: the class of each pixel, height × width; −1 where nothing is to be seen, as on the background.
    `marks` and `spans` are None where the answer is about no words or no moments, and empty where none was found.
    `texts`: words of the input that answer a question; any of them is right."""

    boxes: tuple[DrawnBox, ...] = ()
    classes: NDArray[Any] | None = None
    legend: tuple[DrawnClass, ...] = ()  # of `classes`, the largest first
    marks: tuple[DrawnMark, ...] | None = None
    texts: tuple[str, ...] = ()
    spans: tuple[DrawnSpan, ...] | None = None
