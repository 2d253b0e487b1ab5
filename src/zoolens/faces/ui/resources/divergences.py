"""/divergences: at which layer two environments diverge, and why. Each is a job, which keeps what it found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from zoolens.base.present.charts import Spec, themed
from zoolens.base.verdicts import Outcome
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, File, NotFound, Paged, Query, RowPage, Shown
from zoolens.faces.ui.input_reader import InputSource, InputsSeen, InputState
from zoolens.faces.ui.jobs.folder import JobFolder
from zoolens.faces.ui.resources.jobs import Job, JobList, job_of, jobs, printed_by_kind
from zoolens.faces.ui.resources.run_inputs import MOST_INPUTS, Place, SeenInputs, picture_seen, seen_inputs
from zoolens.faces.ui.verdict_items import VerdictItem, printed_verdict
from zoolens.faces.ui.word_tables import WordTable, word_table
from zoolens.findings.comparisons.origins import DataOrigin
from zoolens.findings.divergence.divergence_page import growth_chart
from zoolens.findings.divergence.divergence_words import layer_table

_KIND: Final = "diverge"
_MOST_SENTENCES: Final = 100
_UNKNOWN: Final = InputsSeen(
    InputState.UNAVAILABLE, "An earlier version of zoolens made this comparison and did not note where its inputs lie."
)


def divergences(context: Context, query: Paged) -> JobList:
    """Comparisons of two environments that were started from the explorer, newest first."""
    return jobs(context, query, _KIND)


class DivergenceQuery(Query):
    id: str = Field(max_length=50, description="The id of the job.")


class DivergedSide(Answer):
    """One of the two sides: a model in a runtime."""

    title: Shown
    runtime: Shown
    version: Shown
    precision: Shown
    layers: int
    """How many values inside the model can be read and found in its graph."""


class DivergenceCause(Answer):
    """Why the two part."""

    kind: Shown
    sentence: Shown
    layer: Shown
    proved: bool
    """Whether the difference vanished with the change."""
    proof: Shown
    """What was changed and what became of the difference; empty where nothing was tried."""


class DivergenceFacts(Answer):
    """What `zoolens diverge` found."""

    job: Job
    a: DivergedSide
    b: DivergedSide
    runs: list[Shown]
    data: Shown
    inputs: int
    verdict: Shown
    judged: VerdictItem
    """The verdict with its coverage."""
    agrees: bool
    """Whether the two are known to agree."""
    flips: int
    first: Shown
    """The first layer whose difference exceeds rounding; empty if there is none."""
    sentences: list[Shown]
    causes: list[DivergenceCause]
    growth: Spec | None
    """The difference of the two, layer by layer; null where no layers could be compared."""
    floor: Shown
    layers: WordTable


def divergence(context: Context, query: DivergenceQuery) -> DivergenceFacts:
    folder, printed = _divergence(context, query.id)
    layers, answers, first = printed["layers"], printed["answers"], printed["first"]
    parameters = folder.asked().get("parameters") or {}
    return DivergenceFacts.of(
        printed,
        job=job_of(folder),
        a=DivergedSide.of(printed["a"]),
        b=DivergedSide.of(printed["b"]),
        runs=[run for run in (parameters.get("a"), parameters.get("b")) if isinstance(run, str)],
        inputs=answers["inputs"],
        judged=printed_verdict(printed["verdict"], printed),
        agrees=printed["agrees"] and printed.get("outcome", Outcome.SAME.value) == Outcome.SAME.value,
        flips=answers["flips"],
        first="" if first is None else first["layer"],
        sentences=printed["sentences"][:_MOST_SENTENCES],
        causes=[_cause(cause) for cause in printed["causes"]],
        growth=themed(growth_chart(layers)) if layers else None,
        layers=word_table(layer_table(layers)),
    )


def _cause(cause: Mapping[str, Any]) -> DivergenceCause:
    proof = cause["proof"]
    return DivergenceCause.of(cause, layer=cause["label"], proof=None if proof is None else proof["sentence"])


class FlipsQuery(Paged):
    id: str = Field(max_length=50, description="The id of the job.")


class FlippedInput(Answer):
    """An input that the two answer differently."""

    index: int | None
    """Its place, by which /divergences/{id}/inputs knows it; null of comparisons by earlier versions. Classes are
    numbers; null where there is none."""
    input: Shown
    label: int | None
    a: int | None
    b: int | None
    apart: str
    """The maximum difference of the two answers."""


class FlipPage(RowPage[FlippedInput]):
    pass


def flips(context: Context, query: FlipsQuery) -> FlipPage:
    _, printed = _divergence(context, query.id)
    flipped = printed["answers"]["flipped"]
    return FlipPage(total=len(flipped), offset=query.offset, rows=[_flipped(row) for row in flipped[query.page]])


def _flipped(row: Mapping[str, Any]) -> FlippedInput:
    # A negative number is the store's mark for "no class".
    classes = {name: row[name] if row[name] >= 0 else None for name in ("label", "a", "b")}
    error = row["error"]
    apart = "not finite" if error is None else f"{error:.2g}"
    return FlippedInput(index=row.get("index"), input=row["input"], apart=apart, **classes)


def _divergence(context: Context, job_id: str) -> tuple[JobFolder, dict[str, Any]]:
    folder, printed = printed_by_kind(context, job_id, _KIND, "This job is not a comparison of two environments.")
    if "sentences" not in printed:
        raise NotFound("This job was done by an earlier version of zoolens.", hint="Start it again.")
    return folder, printed


# --- the inputs themselves


class FlipInputsQuery(DivergenceQuery):
    index: list[Place] = Field([], max_length=MOST_INPUTS, description="The places of the inputs, counted from 0.")


def flip_inputs(context: Context, query: FlipInputsQuery) -> SeenInputs:
    source = _source(context, query.id)
    seen = _UNKNOWN if source is None else context.inputs.look_into(source, query.index)
    return seen_inputs(seen)


class FlipPictureQuery(DivergenceQuery):
    index: Place = Field(description="The place of the input, counted from 0.")


def flip_picture(context: Context, query: FlipPictureQuery) -> File:
    source = _source(context, query.id)
    seen = _UNKNOWN if source is None else context.inputs.look_into(source, [query.index])
    return picture_seen(seen, f"Input {query.index} of this comparison", lasting=True)


def _source(context: Context, job_id: str) -> InputSource | None:
    """Where the inputs of a comparison lie; None where it does not say so, as those of earlier versions do not."""
    _, printed = _divergence(context, job_id)
    origin = printed.get("origin")
    if not isinstance(origin, dict):
        return None
    where = DataOrigin(str(origin["data"]), origin["limit"], origin["seed"])
    return InputSource("this comparison", where, str(origin["fingerprint"]), int(printed["answers"]["inputs"]))


ENDPOINTS: Final = (
    Endpoint("/divergences", "Comparisons of two environments, newest first", divergences),
    Endpoint("/divergences/{id}", "Where two environments diverge, and why", divergence),
    Endpoint("/divergences/{id}/flips", "Inputs that two environments answer differently", flips),
    Endpoint("/divergences/{id}/inputs", "Inputs of a comparison, as far as they can be seen", flip_inputs),
    Endpoint("/divergences/{id}/inputs/{index}", "One input of a comparison as a small image", flip_picture),
)
