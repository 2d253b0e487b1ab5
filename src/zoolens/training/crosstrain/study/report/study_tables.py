"""The tables of a report: everything that its page or a chart shows is in one of them, unrounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from zoolens.base.present.tables import Column, Table
from zoolens.training.crosstrain.study.analysis.analysis_tables import summarise
from zoolens.training.crosstrain.study.report.study_findings import Findings, TrialFigure, side_of, warnings
from zoolens.training.crosstrain.training.trials import Trial


def trials_table(findings: Findings, trials: Sequence[int] | None = None, *, brief: bool = False) -> Table:
    """One row for each trial, or for those at the positions `trials`. `brief`: only the columns that fit on a page."""
    study = findings.study
    given = dict.fromkeys(name for trial in study.trials for name in trial.hyperparameters)
    names = list(findings.columns) if brief else list(given)
    columns = [Column("trial"), *(Column(name, "number") for name in names)]
    for framework in study.frameworks:
        columns.append(Column(framework if brief else f"{framework} accuracy", "percent"))
        if not brief:
            columns += [Column(f"{framework} {what}") for what in ("status", "exact", "correct", "total", "seconds")]
    columns += [] if brief else [Column(f"Δ {a} – {b}", "percent") for a, b in findings.pairs]
    columns += [Column("Δ", "percent"), Column("notes")]
    rows = []
    for position in range(len(study.trials)) if trials is None else trials:
        trial = study.trials[position]
        pairs = [] if brief else [figure.values[position] for figure in findings.pairs.values()]
        notes = "; ".join((*warnings(findings, trial), *trial.notes))
        hyper = [trial.hyperparameters.get(name) for name in names]
        sides = _sides(trial, study.frameworks, brief)
        rows.append((trial.id, *hyper, *sides, *pairs, findings.delta.values[position], notes))
    return Table("trials", tuple(columns), tuple(rows))


def _sides(trial: Trial, frameworks: Sequence[str], brief: bool) -> Iterator[Any]:
    for framework in frameworks:
        side = side_of(trial, framework)
        yield None if side is None else side.accuracy
        if not brief:
            yield from (
                (None,) * 5 if side is None else (side.status, side.exact, side.correct, side.total, side.seconds)
            )


_SUMMARY = ("min", "max", "median", "mean")


def accuracies_table(findings: Findings) -> Table:
    columns = [Column("side"), Column("trials", "number"), *(Column(name, "percent") for name in _SUMMARY)]
    columns += [Column("collapsed", "number"), Column("not finished", "number")]
    rows = []
    for name, figure in findings.accuracies.items():
        sides = [side for trial in findings.study.trials if (side := side_of(trial, name))]
        collapsed = sum(flag.certain and flag.framework == name for flag in findings.flags)
        broken = sum(side.status != "finished" for side in sides)
        rows.append((name, len(figure.known), *_summary(figure), collapsed, broken))
    return Table("accuracies", tuple(columns), tuple(rows))


def deltas_table(findings: Findings) -> Table:
    columns = [Column("pair"), Column("trials", "number"), *(Column(name, "percent") for name in _SUMMARY)]
    columns += [Column("≥ 5 %", "number"), Column("share ≥ 5 %", "percent"), Column("first − second, mean", "percent")]
    columns.append(Column("churn, mean", "percent"))
    rows = []
    for (a, b), figure in findings.pairs.items():
        signed = findings.accuracies[a].values - findings.accuracies[b].values
        churn = [float(share) for trial in findings.study.trials if (share := _churn(trial, a, b)) is not None]
        rows.append((figure.name, *_delta_row(figure), _mean(signed), _mean(np.array(churn))))
    if len(findings.pairs) > 1:
        rows.append(("largest of each trial", *_delta_row(findings.delta), None, None))
    return Table("deltas", tuple(columns), tuple(rows))


def _delta_row(figure: TrialFigure) -> tuple[Any, ...]:
    n = len(figure.known)
    return n, *_summary(figure), figure.apart, figure.apart / n if n else None


def _churn(trial: Trial, a: str, b: str) -> float | None:
    churn: Mapping[tuple[str, str], float] = trial.churn
    return churn.get((a, b), churn.get((b, a)))


def _summary(figure: TrialFigure) -> tuple[float | None, ...]:
    summary = summarise(figure.name, figure.values)
    return summary.minimum, summary.maximum, summary.median, summary.mean


def _mean(values: Any) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def densities_table(findings: Findings) -> Table:
    shown = [*findings.accuracies.values(), *findings.pairs.values()]
    rows = [
        (figure.name, figure.density.rule, figure.density.bandwidth, float(at), float(height))
        for figure in shown
        if figure.density is not None
        for at, height in zip(figure.density.grid, figure.density.height, strict=True)
    ]
    return Table("densities", tuple(map(Column, ("figure", "rule", "bandwidth", "value", "density"))), tuple(rows))


def information_table(findings: Findings) -> Table:
    names = ("target", "first", "second", "nats", "chance", "p", "synergy", "synergy_chance", "trials", "estimator")
    rows: list[tuple[Any, ...]] = []
    for about in findings.information:
        tail = (about.n, about.estimator)
        rows += [
            (about.target, single.name, None, single.nats, single.chance, single.p_value, None, None, *tail)
            for single in about.singles
        ]
        rows += [
            (about.target, *pair.names, pair.nats, pair.chance, pair.p_value, pair.synergy, pair.synergy_chance, *tail)
            for pair in about.joints
        ]
    return Table("information", tuple(map(Column, names)), tuple(rows))


def dependence_tables(findings: Findings) -> Iterator[Table]:
    dependence = findings.dependence
    if dependence is None:
        return
    fits = [
        (
            given.name,
            length,
            given.log,
            dependence.surrogate.noise,
            dependence.surrogate.r_squared,
            dependence.surrogate.n,
        )
        for given, length in zip(dependence.surrogate.inputs, dependence.surrogate.lengths, strict=True)
    ]
    yield _columns("surrogate", ("hyperparameter", "length", "log", "noise", "r_squared", "trials"), fits)
    curves = [
        (curve.input.name, value, *map(float, rest))
        for curve in dependence.curves
        for value, *rest in zip(curve.values, curve.mean, curve.low, curve.high, strict=True)
    ]
    yield _columns("dependence", ("hyperparameter", "value", "delta", "low", "high"), curves)
    pairs = [(*(given.name for given in pair.inputs), pair.h, pair.strength) for pair in dependence.interactions]
    yield _columns("interactions", ("first", "second", "h", "strength"), pairs)
    if dependence.surface is not None:
        names = tuple(given.name for given in dependence.surface.inputs)
        cells = [
            (row, column, float(dependence.surface.mean[i, j]))
            for i, row in enumerate(dependence.surface.rows)
            for j, column in enumerate(dependence.surface.columns)
        ]
        yield _columns("interaction", (*names, "delta"), cells)


def _columns(name: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Table:
    return Table(name, tuple(map(Column, columns)), tuple(rows))
