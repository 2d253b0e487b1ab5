"""/studies and /study: studies of crosstrain, their trials and the space of hyperparameters, and explanations."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from pydantic import Field

from zoolens.base.present.charts import Spec, drawn_spec, themed
from zoolens.base.present.figures import figure, percent
from zoolens.base.present.tables import plain_words
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, NotFound, Paged, Query, RequestError, RowPage, Shown
from zoolens.faces.ui.page_figures import TileItem
from zoolens.faces.ui.resources.runs import Fact
from zoolens.training.crosstrain.study.analysis.analysis_tables import apart, deltas, summarise
from zoolens.training.crosstrain.study.explanation.share_chart import chart_of_shares
from zoolens.training.crosstrain.study.explanation.stored_explanations import FiledExplanation, filed_explanations
from zoolens.training.crosstrain.study.report.plane_chart import plane_chart, plane_names, trial_as_data
from zoolens.training.crosstrain.study.report.study_findings import DELTA, Findings, gather
from zoolens.training.crosstrain.study.report.study_page import study_lead, study_tiles
from zoolens.training.crosstrain.study.report.trial_charts import (
    accuracy_chart,
    delta_chart,
    pairs_chart,
    space_chart,
    training_chart,
)
from zoolens.training.crosstrain.study.stored_studies import read_study, study_names
from zoolens.training.crosstrain.training.trials import Trial

_LONGEST: Final = 500
_MOST_SETTINGS: Final = 40
_LARGEST_DELTA: Final = "-delta"


class StudiesQuery(Paged):
    q: str = Field("", max_length=_LONGEST, description="A part of the name of a study.")


class StudyItem(Answer):
    """Δ is the absolute difference of test accuracy between two sides of a trial."""

    name: Shown
    frameworks: list[Shown]
    trials: int
    trials_words: str
    with_delta: int
    """Trials with a Δ."""
    apart: int
    """Trials with a Δ of five points or more."""
    median_delta: Shown
    largest_delta: Shown
    source: Shown


class StudyList(RowPage[StudyItem]):
    pass


def studies(context: Context, query: StudiesQuery) -> StudyList:
    names = [name for name in study_names(context.store) if query.q.lower() in name.lower()]
    shown = names[query.page]
    return StudyList(
        total=len(names), offset=query.offset, rows=[_item(study_findings(context, name)) for name in shown]
    )


def study_findings(context: Context, name: str) -> Findings:
    """What is quickly known of a study, kept until a run or a trial is added to the store."""
    return context.runs.derived(("findings", name), lambda _: gather(read_study(context.store, name), deep=False))


def _item(findings: Findings) -> StudyItem:
    study = findings.study
    share, summary = apart([study]), summarise("delta", deltas(study))
    return StudyItem.of(
        study,
        trials=len(study.trials),
        trials_words=study.trial_count,
        with_delta=share.total,
        apart=share.count,
        median_delta=percent(summary.median),
        largest_delta=percent(summary.maximum),
    )


# --- one study


class StudyQuery(Query):
    name: str = Field(max_length=_LONGEST, description="The name of the study.")


class StudyTile(TileItem):
    kind: str


class ShareItem(Answer):
    """How much of the gap a semantic makes, with its 95 % interval where it has one."""

    name: Shown
    points: Shown
    share: Shown
    sure: bool
    """Whether the interval excludes zero."""


class ExplanationItem(Answer):
    """Which semantics make the gap of a trial."""

    study: Shown
    trial: Shown
    runs_in: Shown
    a: Shown
    b: Shown
    gap: Shown
    shares: list[ShareItem]
    chart: Spec | None
    lines: list[Shown]
    """All that `zoolens crosstrain explain` said."""


class StudyDetail(Answer):
    """One study with its charts and explanations."""

    study: StudyItem
    lead: Shown
    tiles: list[StudyTile]
    varied: list[Shown]
    """Hyperparameters that differ between trials."""
    axes: list[Shown]
    """The quantities that /study/plane can be drawn over."""
    distributions: list[Spec]
    space: Spec | None
    explanations: list[ExplanationItem]


def study_detail(context: Context, query: StudyQuery) -> StudyDetail:
    findings = study_findings(context, query.name)
    drawn = (accuracy_chart(findings), delta_chart(findings), pairs_chart(findings))
    return StudyDetail(
        study=_item(findings),
        lead=study_lead(findings),
        tiles=[StudyTile.of(tile, title=tile.caption) for tile in study_tiles(findings)],
        varied=list(findings.columns),
        axes=plane_names(findings),
        distributions=[themed(chart) for chart in drawn if chart is not None],
        space=drawn_spec(space_chart(findings)),
        explanations=[_explanation(explanation) for explanation in filed_explanations(context.store, query.name)],
    )


def _explanation(filed: FiledExplanation) -> ExplanationItem:
    return ExplanationItem.of(
        filed,
        gap=_points(filed.gap.value, filed.gap.interval),
        shares=[
            ShareItem(
                name=share.name,
                points=_points(share.points.value, share.points.interval),
                share=_share_words(share.share.value, share.share.interval),
                sure=share.points.excludes_zero,
            )
            for share in filed.shares
        ],
        chart=drawn_spec(chart_of_shares(filed.shares, filed.gap.value)),
    )


def _points(value: float, interval: tuple[float, float] | None) -> str:
    words = f"{100 * value:+.2f}"
    if interval is not None:
        words += f" [{100 * interval[0]:+.2f}, {100 * interval[1]:+.2f}]"
    return f"{words} points".replace("-", "−")


def _share_words(value: float, interval: tuple[float, float] | None) -> str:
    words = f"{100 * value:.0f} %"
    if interval is not None:
        words += f" [{100 * interval[0]:.0f}, {100 * interval[1]:.0f}]"
    return words.replace("-", "−")


class PlaneQuery(StudyQuery):
    x: str = Field("", max_length=_LONGEST, description="What goes to the right; empty: the first hyperparameter.")
    y: str = Field("", max_length=_LONGEST, description="What goes upwards; empty: the second one, or Δ.")


class StudyPlane(Answer):
    """Its data have the `trial` of each point."""

    x: Shown
    y: Shown
    chart: Spec


def study_plane(context: Context, query: PlaneQuery) -> StudyPlane:
    findings = study_findings(context, query.name)
    varied = [*findings.columns, DELTA]
    x, y = query.x or varied[0], query.y or varied[min(1, len(varied) - 1)]
    return StudyPlane(x=x, y=y, chart=themed(plane_chart(findings, x, y)))


# --- its trials


class TrialsQuery(Paged):
    name: str = Field(max_length=_LONGEST, description="The name of the study.")
    sort: str = Field(
        _LARGEST_DELTA, max_length=20, description="'delta', or 'trial'; with a minus sign, largest first."
    )


class TrialSideItem(Answer):
    framework: Shown
    status: Shown
    accuracy: Shown
    seconds: Shown
    run: Shown


class TrialItem(Answer):
    """One trial of a study."""

    trial: Shown
    hyperparameters: list[Fact]
    delta: Shown
    delta_value: float | None
    sides: list[TrialSideItem]
    notes: list[Shown]
    """Caveats about the trial's Δ."""


class TrialPage(RowPage[TrialItem]):
    pass


def study_trials(context: Context, query: TrialsQuery) -> TrialPage:
    findings = study_findings(context, query.name)
    by, descending = query.sort.removeprefix("-"), query.sort.startswith("-")
    if by not in ("delta", "trial"):
        raise RequestError("sort: name 'delta' or 'trial'.")
    places = np.arange(len(findings.study.trials))
    if by == "delta":
        values = findings.delta.values
        places = np.argsort(-values if descending else values, kind="stable")  # those without one come last
    elif descending:
        places = places[::-1]
    shown = places[query.page].tolist()
    return TrialPage(
        total=len(places), offset=query.offset, rows=[_trial_item(trial_as_data(findings, place)) for place in shown]
    )


def _trial_item(data: dict[str, Any]) -> TrialItem:
    settings = list(data["hyperparameters"].items())[:_MOST_SETTINGS]
    return TrialItem.of(
        data,
        hyperparameters=[Fact(name=name, value=plain_words(value)) for name, value in settings],
        delta=percent(data["delta"]),
        delta_value=data["delta"],
        sides=[
            TrialSideItem.of(side, accuracy=percent(side["accuracy"]), seconds=figure(side["seconds"], "s"))
            for side in data["sides"]
        ],
    )


class TrialQuery(StudyQuery):
    trial: str = Field(max_length=_LONGEST, description="The id of the trial.")


class TrialDetail(Answer):
    """One trial with its curves and explanations."""

    trial: TrialItem
    curves: Spec | None
    """Loss and accuracy of every side over the epochs; null where fewer than two epochs were recorded."""
    explanations: list[ExplanationItem]
    unexplained: Shown
    """Why the gap of the trial cannot be explained here; empty where a job can try."""


def study_trial(context: Context, query: TrialQuery) -> TrialDetail:
    findings = study_findings(context, query.name)
    place = next((at for at, trial in enumerate(findings.study.trials) if trial.id == query.trial), None)
    if place is None:
        raise NotFound(f"The study {query.name} has no trial {query.trial!r}.")
    explanations = filed_explanations(context.store, query.name)
    trial = findings.study.trials[place]
    return TrialDetail(
        trial=_trial_item(trial_as_data(findings, place)),
        curves=drawn_spec(training_chart([trial], "Learning curves of both sides")),
        explanations=[
            _explanation(explanation)
            for explanation in explanations
            if (explanation.study, explanation.trial) == (query.name, query.trial)
        ],
        unexplained=_unexplained(trial),
    )


def _unexplained(trial: Trial) -> str:
    if trial.details.get("recipe") is None:
        return "The trial was published without its recipe, so that its gap cannot be explained here."
    if not any(a.accuracy is not None and b.accuracy is not None for a, b in trial.pairs):
        return "The trial has no two sides with an accuracy, so that there is no gap to explain."
    return ""


ENDPOINTS: Final = (
    Endpoint("/studies", "Studies of training in several frameworks", studies),
    Endpoint("/study", "One study", study_detail),
    Endpoint("/study/plane", "The trials of a study over two quantities", study_plane),
    Endpoint("/study/trials", "The trials of a study", study_trials),
    Endpoint("/study/trial", "One trial of a study", study_trial),
)
