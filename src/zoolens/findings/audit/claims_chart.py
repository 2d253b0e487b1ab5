"""What is claimed about a model beside what was measured here, as data and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from zoolens.base.present.charts import DIM, INK, SERIES, Chart, Spec, axis, heading, quantity, series, values
from zoolens.base.present.figures import percent, stack_label
from zoolens.base.store.records import Provenance
from zoolens.base.store.store import Store
from zoolens.findings.audit.claim_verdicts import ACCURACIES, Judgement, verdict_on
from zoolens.findings.audit.claims import ClaimRow, claims_of, first_claims
from zoolens.findings.measure.class_order import judged_right
from zoolens.inventory.zoos.zoo import Entry

WIDTH: Final = 420
STEP: Final = 26
MOST_RUNS: Final = 12  # of a claim; the newest are shown
_COLOURS: Final = {
    Judgement.CONSISTENT: SERIES[2], Judgement.INCONSISTENT: SERIES[4], Judgement.NOT_COMPARABLE: SERIES[5],
}  # fmt: skip
_CLAIMED: Final = "claimed"
_COUNTED: Final = {"params": "parameters", "parameters": "parameters", "file_size": "file_size", "size": "file_size"}


@dataclass(frozen=True)
class MeasuredBeside:
    """A figure of one run. `judgement` and `sentence`: whether the claim holds; both empty where none is passed."""

    run: str
    stack: str
    dataset: str
    value: float
    low: float | None
    high: float | None
    judgement: str = ""
    sentence: str = ""


@dataclass(frozen=True)
class ClaimBeside:
    """A claim and the runs that measured the same, newest first. `dataset`: what the claim is about; "" for counts."""

    metric: str
    value: float
    unit: str
    dataset: str
    source: str
    measured: tuple[MeasuredBeside, ...]


def claims_beside(store: Store, entry: Entry) -> list[ClaimBeside]:
    """Every figure that is claimed about a model, each with the same figure of its runs. Accuracies are judged by the
    rule of `claim_verdicts`; figures of size have no interval and are shown without a verdict."""
    # Not its preprocessing, which is claimed too.
    figures = {claim.metric for claim in entry.manifest.claims}
    claims = first_claims(
        _in_store_unit(claim) for claim in claims_of(entry) if claim.metric in figures and claim.value is not None
    )
    runs = store.runs(model=entry.ref)
    wanted = {*ACCURACIES, *_COUNTED.values()}
    observations = store.observations_by_run([run.id for run in runs], metrics=wanted)
    beside = []
    for claim in claims.values():
        metric = _COUNTED.get(claim.metric, claim.metric)
        measured = []
        for run in runs:
            for figure in judged_right(run, observations.get(run.id, [])):
                if figure.metric != metric or figure.scope or figure.value is None:
                    continue
                if figure.provenance is not Provenance.MEASURED:
                    continue
                verdict = verdict_on(claim, run, figure) if metric in ACCURACIES else None
                judged = ("", "") if verdict is None else (str(verdict.judgement), verdict.sentence)
                ends = figure.value, figure.low, figure.high
                measured.append(MeasuredBeside(run.id, stack_label(run), run.dataset.name, *ends, *judged))
        beside.append(_beside(claim, measured))
    return beside


def _in_store_unit(claim: ClaimRow) -> ClaimRow:
    """The claim with a percentage as a fraction, as the store has accuracies."""
    if claim.value is None or claim.unit.lower() not in ("%", "percent"):
        return claim
    return replace(claim, value=claim.value / 100, unit="fraction")


def _beside(claim: ClaimRow, measured: list[MeasuredBeside]) -> ClaimBeside:
    assert claim.value is not None
    return ClaimBeside(claim.metric, claim.value, claim.unit, claim.dataset, claim.source, tuple(measured[:MOST_RUNS]))


def claims_chart(claims: list[ClaimBeside]) -> Chart | None:
    """Claimed accuracies as diamonds, measured ones as points with intervals below each; None where there are none."""
    accuracies = [claim for claim in claims if claim.metric in ACCURACIES]
    if not any(claim.measured for claim in accuracies):
        return None
    rows = [row for claim in accuracies for row in _rows(claim)]
    ends = [end for row in rows for end in (row["x"], row.get("low"), row.get("high")) if end is not None]
    room = 0.08 * (max(ends) - min(ends)) or 1.0
    x = quantity("x", max(0.0, min(ends) - room), min(100.0 + room, max(ends) + room), axis("%", tickCount=6))
    drawn = [{**row, "place": place} for place, row in enumerate(rows)]
    y: Spec = {"field": "place", "type": "ordinal", "axis": None}
    names = [_CLAIMED, *(str(each) for each in _COLOURS if any(row["of"] == str(each) for row in rows))]
    colours = [INK, *(hue for each, hue in _COLOURS.items() if str(each) in names)]
    colour = series("of", names, colours)
    # The legend has the shapes, too.
    del colour["legend"]["symbolType"]
    shapes = {"domain": names, "range": ["diamond", *["circle"] * 3][: len(names)]}
    shape = {"field": "of", "type": "nominal", "scale": shapes, "legend": colour["legend"]}
    left = {"type": "text", "align": "right", "dx": -8, "color": INK, "fontSize": 12, "limit": 330}
    right = {"type": "text", "align": "left", "dx": 8, "color": DIM, "fontSize": 11}
    layers: list[Spec] = [
        {
            "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 85, "opacity": 1},
            "encoding": {
                "y": y,
                "x": x,
                "color": colour,
                "shape": shape,
                "tooltip": {"field": "hint", "type": "nominal", "title": "verdict"},
            },
        },
        {"mark": left, "encoding": {"y": y, "x": {"value": 0}, "text": {"field": "name"}}},
        {"mark": right, "encoding": {"y": y, "x": {"value": WIDTH}, "text": {"field": "words"}}},
    ]
    title = "Claimed and measured accuracy"
    subtitle = "Runs on other inputs than the claim's say nothing about it, unless those are a random part of them."
    spec = {"title": heading(title, subtitle), "width": WIDTH, "height": STEP * len(rows), "data": values(drawn)}
    return Chart("claims", title, {**spec, "layer": layers})


def _rows(claim: ClaimBeside) -> Iterator[dict[str, Any]]:
    """The claim, and below it every run that measured the same."""
    about = f" on {claim.dataset}" if claim.dataset else ""
    yield {
        "name": f"{claim.metric} claimed{about}",
        "x": 100 * claim.value,
        "of": _CLAIMED,
        "words": percent(claim.value),
        "hint": f"{percent(claim.value)}, says {claim.source}",
    }
    for run in claim.measured:
        yield {
            "name": f"{run.stack} on {run.dataset}",
            "x": 100 * run.value,
            "low": None if run.low is None else 100 * run.low,
            "high": None if run.high is None else 100 * run.high,
            "of": run.judgement or str(Judgement.NOT_COMPARABLE),
            "words": percent(run.value),
            "hint": run.sentence,
        }
