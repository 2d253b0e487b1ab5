"""/runs/{run}/inputs: the inputs of a run for the eye.

Who asks names their places only: where the data lie is what the run says, and they are shown only as long as their
content is that of the run.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from zoolens.base.store.records import Run
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, File, NotFound, Query, RequestError, RunName, Shown, ShownText
from zoolens.faces.ui.input_reader import InputsSeen, InputState

MOST_INPUTS: Final = 100

Place = Annotated[int, Field(ge=0, lt=1 << 31)]


class InputsQuery(Query):
    run: RunName
    index: list[Place] = Field([], max_length=MOST_INPUTS, description="The places of the inputs, counted from 0.")


class InputItem(Answer):
    """One input of a run."""

    index: int
    name: Shown
    """What the dataset calls it now."""
    words: Shown
    """What it is, with its first numbers where it is no image."""
    picture: bool
    """Whether there is a picture at /runs/{run}/inputs/{index}."""
    width: int
    """`width` and `height` are those of the image in its own pixels, in which boxes are given; 0: it is none."""
    height: int
    tokens: list[Shown]
    """The words of a text that its dataset splits into words, which marks of an answer count."""
    more_tokens: int
    """How many words there are beside those."""
    texts: list[ShownText]
    """The two texts of a pair."""
    wave: list[float]
    """Of a sound: the largest sample of each of equal stretches, between 0 and 1."""
    seconds: float
    """How long a sound is."""


class SeenInputs(Answer):
    """Inputs as far as they can be seen."""

    state: InputState
    """While it is "opening", ask again in a second."""
    sentence: Shown
    """Why there are no inputs, or not yet."""
    rows: list[InputItem]


class RunInputs(SeenInputs):
    run: str


def inputs(context: Context, query: InputsQuery) -> RunInputs:
    run = context.store.run(query.run)
    return RunInputs(run=run.id, **dict(seen_inputs(context.inputs.look(run, query.index))))


def seen_inputs(seen: InputsSeen) -> SeenInputs:
    rows = [InputItem.of(shown, picture=shown.png is not None) for shown in seen.inputs]
    return SeenInputs.of(seen, rows=rows)


class PictureQuery(Query):
    run: RunName
    index: Place = Field(description="The place of the input, counted from 0.")


def picture(context: Context, query: PictureQuery) -> File:
    run = context.store.run(query.run)
    seen = context.inputs.look(run, [query.index])
    return picture_seen(seen, f"Input {query.index} of run {run.id[:8]}", lasting=_is_whole(query.run, run))


def picture_seen(seen: InputsSeen, name: str, *, lasting: bool) -> File:
    """The picture of the one input that was looked at."""
    if seen.state is not InputState.READY:
        raise RequestError(seen.sentence, status=503 if seen.state is InputState.OPENING else 409)
    (shown,) = seen.inputs
    if shown.png is None:
        raise NotFound(f"{name} is not an image: {shown.words}")
    return File(shown.png, "image/png", lasting=lasting)


def _is_whole(name: str, run: Run) -> bool:
    """The id of a run is made of the content of its data: what it names never changes, as 'last' does."""
    return name == run.id


ENDPOINTS: Final = (
    Endpoint("/runs/{run}/inputs", "Inputs of a run, as far as they can be seen", inputs),
    Endpoint("/runs/{run}/inputs/{index}", "One input of a run as a small image", picture),
)
