"""/runs/{run}/drawings: what a page draws of answers and truths: boxes, maps of classes, marked words, spans."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from zoolens.base.present.figures import percent
from zoolens.base.store.records import ANSWERING_KINDS
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, File, NotFound, Query, RunName, Shown
from zoolens.findings.comparisons.answer_pages import drawn_classes
from zoolens.inventory.datasets.previews import PALETTE, STYLES, overlay_png
from zoolens.inventory.tasks.drawing import Drawing

MOST_BOXES: Final = 50  # drawn on one input
MOST_MARKS: Final = 400  # in one text, and stretches of one sound
MOST_CLASSES: Final = 20  # of a map that are named
MOST_TEXTS: Final = 5  # right answers to one question
_LARGEST: Final = 1 << 31


class BoxItem(Answer):
    """A box in pixels of the image. `style` is 0 to 15, the same for the same class; from 8 on its line is dashed."""

    left: float
    top: float
    width: float
    height: float
    name: Shown
    score: float | None
    style: int


class ClassShare(Answer):
    """A class of a map, with its share of the pixels in words. From style 8 on its pixels are striped."""

    name: Shown
    words: Shown
    style: int


class MarkItem(Answer):
    """Words from `first` to `last`, counted from 0, and what they are said to be."""

    first: int
    last: int
    name: Shown
    style: int


class SpanItem(Answer):
    """A stretch of a sound, in seconds."""

    begin: float
    end: float


class DrawnItem(Answer):
    """What is drawn on an input, or of it."""

    boxes: list[BoxItem]
    more_boxes: int
    """How many boxes there are beside those."""
    overlay: bool
    """Whether there is a map of classes at /runs/{run}/drawings/{index}."""
    legend: list[ClassShare]
    """The classes of the map, the largest first."""
    marks: list[MarkItem] | None
    """Words of the input that are marked; null where the answer is not about words."""
    texts: list[Shown]
    """Words of the input that answer a question; of what is right, any of them is."""
    spans: list[SpanItem] | None
    """Stretches of a sound; null where the answer is not about moments."""


def drawn_item(drawing: Drawing | None) -> DrawnItem | None:
    if drawing is None:
        return None
    marks, spans = drawing.marks, drawing.spans
    return DrawnItem(
        boxes=[BoxItem.of(box, style=box.number % STYLES) for box in drawing.boxes[:MOST_BOXES]],
        more_boxes=max(0, len(drawing.boxes) - MOST_BOXES),
        overlay=drawing.classes is not None,
        legend=[
            ClassShare.of(shown, words=percent(shown.share, 1), style=shown.number % STYLES)
            for shown in drawing.legend[:MOST_CLASSES]
        ],
        marks=None if marks is None else [MarkItem.of(mark, style=_style(mark.name)) for mark in marks[:MOST_MARKS]],
        texts=list(drawing.texts[:MOST_TEXTS]),
        spans=None if spans is None else [SpanItem.of(span) for span in spans[:MOST_MARKS]],
    )


def _style(name: str) -> int:
    """Types of entities have no numbers; PER, LOC, ORG and MISC differ by this."""
    return sum(map(ord, name)) % len(PALETTE)


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
