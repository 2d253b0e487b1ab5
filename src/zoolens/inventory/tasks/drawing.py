"""What a page draws of one answer, or of what is right: boxes on an image, a map of classes, words with tags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class DrawnBox:
    """A box in pixels of the image, with what it is said to be."""

    left: float
    top: float
    width: float
    height: float
    name: str
    score: float | None = None


@dataclass(frozen=True)
class DrawnWord:
    """A word and its tag; an empty tag is that of a word that nothing is said of."""

    word: str
    tag: str


@dataclass(frozen=True)
class Drawing:
    """`classes`: the class of each pixel, height × width; −1 where nothing is to be seen, as on the background."""

    boxes: tuple[DrawnBox, ...] = ()
    classes: NDArray[Any] | None = None
    words: tuple[DrawnWord, ...] = ()
