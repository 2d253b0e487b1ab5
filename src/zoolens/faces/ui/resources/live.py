"""/live: one image, or some texts, through one model, now. Pages ask several models at once, each by itself."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zoolens.base.errors import ZoolensError
from zoolens.base.present.figures import figure, percent, probability
from zoolens.base.safety.untrusted import parse_json
from zoolens.base.store.browsing import RunsWanted, page_of_runs
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, File, Query, RequestError, Shown
from zoolens.faces.ui.jobs.permissions import check_model, check_runtime
from zoolens.faces.ui.live import ClassScore, LiveAnswer, TextAnswer
from zoolens.faces.ui.resources.run_drawings import DrawnItem, drawn_item
from zoolens.findings.comparisons.signatures import task_of
from zoolens.findings.measure.class_order import data_classes
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.previews import WORDS, overlay_png
from zoolens.inventory.tasks.vectors import cosine, shown_vector
from zoolens.inventory.zoos.zoo import Entry, Weights

UPLOAD_BYTES: Final = 16 << 20
TEXT_BYTES: Final = 4 << 20
MOST_TEXTS: Final = 5
MOST_OFFERED: Final = 200
EXAMPLES: Final = 8


class LiveQuery(Query):
    model: str = Field(max_length=1000, description="zoo:name, as the page of models has it.")
    runtime: str = Field("", max_length=100, description="Empty: the one that reads the fewest other formats.")
    most: int = Field(5, ge=1, le=50, description="How many classes to give.")


class OfferedQuery(Query):
    takes: Literal["image", "text"] = "image"
    q: str = Field("", max_length=200, description="What the name must hold.")
    limit: int = Field(50, ge=1, le=MOST_OFFERED)


class Offered(Answer):
    """Models that take an image or a text: those that were measured first, then those whose files
    are on this machine."""

    models: list[Shown]


class ExampleQuery(Query):
    index: int = Field(ge=0, lt=EXAMPLES)


class LiveClass(Answer):
    """`label` is the name of the class, or its number where nobody names it; `named` tells the two apart."""

    label: Shown
    named: bool
    probability: float
    words: str


class LiveResult(Answer):
    """What a model says of an image: `classes` of a classifier, else `words` and what is `drawn`.

    `took` is the time of this one call, with the way to the process of the model: it measures nothing.
    """

    model: Shown
    runtime: Shown
    task: Shown
    classes: list[LiveClass]
    words: Shown
    drawn: DrawnItem | None
    overlay: str
    """The map of classes as a transparent PNG in base64; empty where there is none."""
    key: str
    """Names the answer for /live/agreement; empty where it cannot be compared."""
    took: str
    opened: bool
    image: str
    fitting: Shown
    """How the image was resized for the model."""
    named_by: Shown
    """The dataset whose names the classes have, where the manifest names none; otherwise empty."""
    width: int
    """`width` and `height` are those of the image, in whose pixels boxes are given."""
    height: int


def live(context: Context, query: LiveQuery, content: bytes) -> LiveResult:
    check_model(query.model, context.settings.allowed)
    if query.runtime:
        check_runtime(query.runtime)
    if not content:
        raise RequestError("The request has no image.", hint="Send the bytes of a file as the body.")
    pixels = context.live.decode(content)
    answer = context.live.answer(query.model, query.runtime or None, pixels, query.most)
    drawing = answer.drawing
    shown_map = None if drawing is None or drawing.classes is None else overlay_png(drawing.classes)
    data, names = _names_of_data(context, answer)
    return LiveResult.of(
        answer,
        drawn=drawn_item(drawing),
        overlay="" if shown_map is None else base64.b64encode(shown_map).decode(),
        width=pixels.shape[1],
        height=pixels.shape[0],
        classes=[
            _shown_class(replace(score, label=names[score.index]) if names else score) for score in answer.classes
        ],
        named_by=data,
        took=figure(answer.seconds, "s"),
        image=f"{pixels.shape[1]} × {pixels.shape[0]}, {'grey' if pixels.shape[2] == 1 else 'colour'}",
    )


def _names_of_data(context: Context, answer: LiveAnswer) -> tuple[str, Sequence[str]]:
    """The dataset on which a model without names of its own was evaluated last, and its classes: the evaluation took
    the first output for the first class, and so on. Nothing where there are not as many."""
    if not answer.unnamed:
        return "", ()
    newest = page_of_runs(context.runs, RunsWanted(models=(answer.model,)), limit=1).ids
    for run in context.store.runs_of(newest, stages=False):
        names = data_classes(run) or ()
        if run.ref == answer.model and task_of(run) == answer.task and len(names) == answer.unnamed:
            return run.dataset.name, names
    return "", ()


class LiveText(Answer):
    """What became of one text, and what the model says of it: `classes`, in `vector` its first numbers, or `words` and
    what is `drawn` upon the words of `split`."""

    tokens: int
    """How many tokens the model was given."""
    cut: bool
    """Whether the text has more tokens than the model takes."""
    unknown: int | None
    """How many of them the tokenizer does not know."""
    pieces: list[Shown]
    classes: list[LiveClass]
    vector: str
    length: str
    words: Shown
    drawn: DrawnItem | None
    split: list[Shown]
    """The words of the text, which marks count; a text is split at spaces and at signs."""
    more_words: int
    """How many words there are beside those."""
    key: str
    """Names the answer for /live/agreement; empty where it cannot be compared."""


class LiveTextResult(Answer):
    """What a model says of several texts."""

    model: Shown
    runtime: Shown
    task: Shown
    pair: bool
    """Whether the model takes two texts together: `texts` then has one answer to both."""
    texts: list[LiveText]
    most_tokens: int
    numbers: int
    """How many numbers each vector has; 0 for classifiers."""
    alike: list[list[str]]
    """The cosine similarity of the vectors of each two texts, where angles mean something."""
    took: str
    opened: bool


def live_texts(context: Context, query: LiveQuery, content: bytes) -> LiveTextResult:
    check_model(query.model, context.settings.allowed)
    if query.runtime:
        check_runtime(query.runtime)
    answer = context.live.answer_texts(query.model, query.runtime or None, _texts(content), query.most)
    vectors = [text_answer.vector for text_answer in answer.texts if text_answer.vector is not None]
    return LiveTextResult.of(
        answer,
        texts=[_shown_text(text_answer) for text_answer in answer.texts],
        numbers=len(vectors[0]) if vectors else 0,
        alike=_alike(vectors) if answer.directional else [],
        took=figure(answer.seconds, "s"),
    )


def _texts(content: bytes) -> list[str]:
    """The texts of a body. They are not cleaned: a model reads what was written."""
    try:
        given = parse_json(content)
    except ValueError as error:
        raise RequestError("The body is not JSON.", hint='Send a list of texts, such as ["a good film"].') from error
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise RequestError("The body is not a list of texts.", hint='Send a list such as ["a good film"].')
    if not 1 <= len(given) <= MOST_TEXTS:
        raise RequestError(f"1 to {MOST_TEXTS} texts are answered at once, not {len(given)}.")
    return given


def _shown_text(answer: TextAnswer) -> LiveText:
    vector = answer.vector
    return LiveText.of(
        answer,
        classes=[_shown_class(score) for score in answer.classes],
        drawn=drawn_item(answer.drawing),
        split=list(answer.split[:WORDS]),
        more_words=max(0, len(answer.split) - WORDS),
        vector="" if vector is None else shown_vector(vector),
        length="" if vector is None else f"{np.linalg.norm(vector.astype(np.float64)):.4g}",
    )


def _alike(vectors: Sequence[NDArray[np.float32]]) -> list[list[str]]:
    rows = np.array(vectors, np.float64)
    if len(rows) < 2:
        return []
    return [[f"{value:.3f}" for value in cosine(np.broadcast_to(row, rows.shape), rows)] for row in rows]


def _shown_class(score: ClassScore) -> LiveClass:
    return LiveClass.of(
        score,
        label=score.label or f"class {score.index}",
        named=bool(score.label),
        words=probability(score.probability),
    )


class AgreementQuery(Query):
    a: str = Field(max_length=64, description="The key of an answer.")
    b: str = Field(max_length=64, description="The key of another answer to the same image or text.")


class LiveAgreement(Answer):
    """How far two models agree on what they were given."""

    name: Shown
    """What is told: the mean overlap of boxes, the share of pixels with the same class."""
    value: float | None
    words: Shown
    reason: Shown
    """Why it is not known."""


def agreement(context: Context, query: AgreementQuery) -> LiveAgreement:
    try:
        name, value = context.live.agreement(query.a, query.b)
    except ZoolensError as error:
        return LiveAgreement(name="", value=None, words="", reason=str(error))
    return LiveAgreement(name=name, value=value, words=percent(value, 1), reason="")


def offered(context: Context, query: OfferedQuery) -> Offered:
    part = query.q.lower()
    named = [row for row in context.models.models().rows if part in row.ref.lower()]
    fitting = [row for row in named if row.entry is not None and _takes(row.entry, query.takes)]
    measured = (row for row in fitting if row.runs)
    here = (row for row in fitting if not row.runs and row.weights == Weights.PRESENT.value)
    return Offered(models=[row.ref for row in islice(chain(measured, here), query.limit)])


def _takes(entry: Entry, modality: str) -> bool:
    manifest = entry.manifest
    return entry.described and len(manifest.inputs) == 1 and manifest.inputs[0].modality == modality


def example(_: Context, query: ExampleQuery) -> File:
    from PIL import Image

    dataset = open_dataset("demo", limit=EXAMPLES)
    try:
        pixels = dataset.read(query.index).value
    finally:
        dataset.close()
    stream = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels).save(stream, "PNG")
    return File(stream.getvalue(), "image/png")


ENDPOINTS: Final = (
    Endpoint("/live", "Run one image (the body) through one model", live, method="POST", upload_bytes=UPLOAD_BYTES),
    Endpoint(
        "/live/text",
        "Run some texts (the body, a JSON list) through one model",
        live_texts,
        method="POST",
        upload_bytes=TEXT_BYTES,
    ),
    Endpoint("/live/agreement", "How far two models agree on one image or text", agreement),
    Endpoint("/live/models", "Models that can be given an image or a text", offered),
    Endpoint("/live/examples/{index}", "An image of the built-in dataset, to try with", example),
)
