"""/runs/{run}/drawings: what a page draws of answers and of what is right: boxes, tagged words, maps of classes."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from zoolens.base.store.records import ANSWERING_KINDS
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, File, NotFound, Query, RunName, Shown
from zoolens.findings.comparisons.answer_pages import drawn_classes
from zoolens.inventory.datasets.previews import overlay_png
from zoolens.inventory.tasks.drawing import Drawing

MOST_BOXES: Final = 50  # drawn on one input
MOST_WORDS: Final = 400  # of one input
_LARGEST: Final = 1 << 31


class BoxItem(Answer):
    """A box in pixels of the image."""

    left: float
    top: float
    width: float
    height: float
    name: Shown
    score: float | None


class WordItem(Answer):
    """A word and its tag; an empty tag says nothing of the word."""

    word: Shown
    tag: Shown


class DrawnItem(Answer):
    """What is drawn on an input, or of it."""

    boxes: list[BoxItem]
    more_boxes: int
    """How many boxes there are beside those."""
    words: list[WordItem]
    overlay: bool
    """Whether there is a map of classes at /runs/{run}/drawings/{index}."""


def drawn_item(drawing: Drawing | None) -> DrawnItem | None:
    if drawing is None:
        return None
    return DrawnItem(
        boxes=[BoxItem.of(box) for box in drawing.boxes[:MOST_BOXES]],
        more_boxes=max(0, len(drawing.boxes) - MOST_BOXES),
        words=[WordItem.of(word) for word in drawing.words[:MOST_WORDS]],
        overlay=drawing.classes is not None,
    )


class DrawingQuery(Query):
    run: RunName
    index: int = Field(ge=0, lt=_LARGEST, description="The place of the input, counted from 0.")
    truth: bool = Field(False, description="What is right, instead of what the run answered.")


def drawing(context: Context, query: DrawingQuery) -> File:
    """The map of classes of one input as a transparent image."""
    run = context.store.measured_run(query.run, ANSWERING_KINDS)
    classes = drawn_classes(context.answers, run, query.index, truth=query.truth)
    if classes is None:
        raise NotFound(f"There is no map of classes for input {query.index} of run {run.id[:8]}.")
    return File(overlay_png(classes), "image/png", lasting=query.run == run.id)


ENDPOINTS: Final = (
    Endpoint("/runs/{run}/drawings/{index}", "The map of classes of one input as a small transparent image", drawing),
)
