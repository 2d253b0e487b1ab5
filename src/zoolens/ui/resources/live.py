"""/live: one image through one model, now. Pages ask for several models at once, each with a request of its own."""

from __future__ import annotations

import io
from typing import Final

from pydantic import Field

from zoolens.datasets.opening import open_dataset
from zoolens.present.figures import figure, probability
from zoolens.ui.context import Context
from zoolens.ui.endpoint import Answer, Endpoint, File, Query, RequestError, Shown
from zoolens.ui.jobs.permissions import check_model, check_runtime

UPLOAD_BYTES: Final = 16 << 20
EXAMPLES: Final = 8


class LiveQuery(Query):
    model: str = Field(max_length=1000, description="zoo:name, as the page of models has it.")
    runtime: str = Field("", max_length=100, description="Empty: the one that reads the fewest other formats.")
    most: int = Field(5, ge=1, le=50, description="How many classes to give.")


class ExampleQuery(Query):
    index: int = Field(ge=0, lt=EXAMPLES)


class LiveClass(Answer):
    """`label` is the name of the class, or its number where the manifest names none."""

    label: Shown
    probability: float
    words: str


class LiveResult(Answer):
    """What a classifier says of an image. `took` is the time of this one call, with the way to the model's process: it
    measures nothing."""

    model: Shown
    runtime: Shown
    classes: list[LiveClass]
    took: str
    opened: bool
    image: str


def live(context: Context, query: LiveQuery, content: bytes) -> LiveResult:
    check_model(query.model, context.settings.allowed)
    if query.runtime:
        check_runtime(query.runtime)
    if not content:
        raise RequestError("The request has no image.", hint="Send the bytes of a file as the body.")
    pixels = context.live.decode(content)
    answer = context.live.answer(query.model, query.runtime or None, pixels, query.most)
    return LiveResult(
        model=answer.model,
        runtime=answer.runtime,
        classes=[
            LiveClass(
                label=one.label or f"class {one.index}", probability=one.probability, words=probability(one.probability)
            )
            for one in answer.classes
        ],
        took=figure(answer.seconds, "s"),
        opened=answer.opened,
        image=f"{pixels.shape[1]} × {pixels.shape[0]}, {'grey' if pixels.shape[2] == 1 else 'colour'}",
    )


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
    Endpoint(
        "/live", "Run one image (the body) through one model", LiveQuery, LiveResult, live, method="POST",
        upload_bytes=UPLOAD_BYTES,
    ),
    Endpoint("/live/examples/{index}", "An image of the built-in data, to try with", ExampleQuery, File, example),
)  # fmt: skip
