"""One model of an answer: the figures that were asked for, beside the reference's, and what rejects it if it misses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from zoolens.base.store.records import Provenance
from zoolens.findings.index.tables.rows import Attribute, Figure, Row
from zoolens.findings.queries.language.syntax import EQUIVALENCE
from zoolens.findings.queries.planning.guarantees import Guarantee
from zoolens.findings.queries.planning.metrics import ACCURACY, EQUIVALENCE_LEAST, ResolvedMetric
from zoolens.findings.queries.planning.query_plan import Plan


@dataclass(frozen=True)
class Rejection:
    """One predicate that a model fails. `by`: how far beyond the threshold, as a share of it, or in points / 100 of
    metrics that are fractions; None where the figure is unknown, or where a clause just does not hold."""

    predicate: str
    value: float | None
    threshold: float | None
    unit: str
    by: float | None
    sentence: str


@dataclass(frozen=True)
class Match:
    """One model in one runtime, as an answer to a query."""

    row: Row
    equivalence: float | None
    # lower bound of the agreement on inputs like the probes, at the answer's confidence
    equivalence_lower: float | None
    figures: Mapping[str, Figure]  # those asked for, by the names they were asked by
    ratios: Mapping[str, float]  # to the reference's own figure, where that makes sense
    rejections: tuple[Rejection, ...] = ()
    attributes: Mapping[str, Attribute | None] = field(default_factory=dict)  # those that SHOW names
    # what `equivalence` is at least, where too little is kept of answers to know it; else the same
    equivalence_least: float | None = None

    @property
    def ref(self) -> str:
        return self.row.ref

    @property
    def runtime(self) -> str | None:
        return self.row.runtime

    @property
    def fits(self) -> bool:
        """False: a near miss, which an answer holds only where ELSE NEAREST asked for it."""
        return not self.rejections

    def __getitem__(self, metric: str) -> float | None:
        """The value of a figure, by the name it was asked by."""
        figure = self.figures.get(metric)
        return None if figure is None else figure.value

    def as_data(self) -> dict[str, Any]:
        return {
            "model": self.ref,
            **{name: self.row.attributes.get(name) for name in ("twin_of", "donor", "segments")},
            "runtime": self.runtime,
            "run": self.row.key,
            "fits": self.fits,
            **({"attributes": dict(self.attributes)} if self.attributes else {}),
            "equivalence": self.equivalence,
            "equivalence_lower": self.equivalence_lower,
            **({"equivalence_least": self.equivalence_least} if self.equivalence_least != self.equivalence else {}),
            "figures": {name: _figure_data(figure, self.ratios.get(name)) for name, figure in self.figures.items()},
            "rejections": [asdict(rejection) for rejection in self.rejections],
        }

    def record(self) -> dict[str, Any]:
        """Return a flat record: one column for each figure, its provenance and its ratio to the reference's."""
        record: dict[str, Any] = {
            "model": self.ref,
            "runtime": self.runtime,
            **self.attributes,
            "equivalence": self.equivalence,
            "equivalence_lower": self.equivalence_lower,
        }
        for name, figure in self.figures.items():
            record |= {name: figure.value, f"{name}_provenance": str(figure.provenance)}
            if name in self.ratios:
                record[f"{name}_ratio"] = self.ratios[name]
        return record | {"fits": self.fits, "why_not": "; ".join(rejection.sentence for rejection in self.rejections)}


def _figure_data(figure: Figure, ratio: float | None) -> dict[str, Any]:
    return {
        "value": figure.value,
        "unit": figure.unit,
        "provenance": str(figure.provenance),
        "low": figure.low,
        "high": figure.high,
        "error": figure.error,
        "ratio": ratio,
        **({"disturbed": True} if figure.disturbed else {}),
    }


def match_of(plan: Plan, row: int, guarantee: Guarantee | None = None, rejections: tuple[Rejection, ...] = ()) -> Match:
    """`guarantee`: what its lower bound is made from; None: it has none."""
    known = {name: figure_of(plan, metric, row) for name, metric in shown(plan).items()}
    figures = {name: figure for name, figure in known.items() if figure is not None}
    return Match(
        row=plan.view.index.rows[row],
        equivalence=_known(plan.relation.values(EQUIVALENCE)[row]) if plan.reference else None,
        equivalence_lower=None if guarantee is None else _known(guarantee.lower(row)),
        figures=figures,
        ratios=_ratios(plan, figures),
        rejections=rejections,
        attributes={name: plan.view.index.rows[row].attributes.get(name) for name in shown_attributes(plan)},
        equivalence_least=_known(plan.relation.values(EQUIVALENCE_LEAST)[row]) if plan.reference else None,
    )


def shown_attributes(plan: Plan) -> list[str]:
    """The attributes that SHOW names."""
    return [name for name in plan.query.show if plan.view.is_attribute(name)]


def record_names(plan: Plan) -> list[str]:
    """The names of what `Match.record` holds where every figure is known."""
    names = list(dict.fromkeys(["model", "runtime", *shown_attributes(plan), "equivalence", "equivalence_lower"]))
    for name, metric in shown(plan).items():
        names += [name, f"{name}_provenance"]
        names += [f"{name}_ratio"] if plan.reference is not None and _has_ratio(metric) else []
    return [*names, "fits", "why_not"]


def _has_ratio(metric: ResolvedMetric) -> bool:
    return not metric.derived and metric.unit != "fraction"


def shown(plan: Plan) -> dict[str, ResolvedMetric]:
    """The metrics of an answer: those that SHOW names; else those asked for, and accuracy where it is known."""
    if plan.query.show:
        return {name: plan.metric(name) for name in plan.query.show if not plan.view.is_attribute(name)}
    asked = {name: metric for name, metric in plan.metrics.items() if metric.column != EQUIVALENCE}
    quality = plan.view.quality
    if quality in plan.view.units and not any(metric.column == quality for metric in asked.values()):
        asked["accuracy" if quality == ACCURACY else quality] = plan.metric(quality)
    return asked


def figure_of(plan: Plan, metric: ResolvedMetric, row: int) -> Figure | None:
    if not metric.derived:
        figure = plan.view.index.rows[row].figures.get(metric.column)
        return figure if figure is not None and math.isfinite(figure.value) else None
    value = _known(plan.values(metric)[row])
    return None if value is None else Figure(value, metric.unit, Provenance.MEASURED)


def _ratios(plan: Plan, figures: Mapping[str, Figure]) -> dict[str, float]:
    if plan.reference is None:
        return {}
    ratios = {}
    for name, metric in shown(plan).items():
        own = figure_of(plan, metric, plan.reference.row)
        if name in figures and own is not None and own.value and _has_ratio(metric):
            ratios[name] = figures[name].value / own.value
    return ratios


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
