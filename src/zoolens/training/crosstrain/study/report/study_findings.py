"""All numbers of a report, computed once: pictures, tables and the page only show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import MissingDependency
from zoolens.training.crosstrain.study.analysis.analysis_tables import APART, ROUNDING, deltas
from zoolens.training.crosstrain.study.analysis.collapsed import Flag, flag
from zoolens.training.crosstrain.study.analysis.densities import Density, density
from zoolens.training.crosstrain.study.analysis.dependence import Dependence, dependence
from zoolens.training.crosstrain.study.analysis.information import Information, TooFewTrials, information
from zoolens.training.crosstrain.study.analysis.scales import logarithmic
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial

Values = NDArray[np.float64]

DELTA: Final = "Δ"


@dataclass(frozen=True)
class TrialFigure:
    """A figure of every trial (a side's accuracy, a pair's Δ), NaN where a trial has none."""

    name: str
    values: Values
    density: Density | None

    @property
    def known(self) -> Values:
        return self.values[np.isfinite(self.values)]

    @property
    def apart(self) -> int:
        """How many are 5 % or more, for a Δ."""
        return int((self.known >= APART - ROUNDING).sum())


@dataclass(frozen=True)
class Findings:
    """Everything that a report shows of a study."""

    study: Study
    columns: Mapping[str, NDArray[Any]]
    log: frozenset[str]  # the hyperparameters that are shown on a logarithmic scale
    accuracies: Mapping[str, TrialFigure]
    pairs: Mapping[tuple[str, str], TrialFigure]  # the Δ of every pair of frameworks
    delta: TrialFigure  # the largest Δ of each trial
    statuses: Counter[str]
    flags: tuple[Flag, ...]  # sides that always answer the same class, or may do so
    information: tuple[Information, ...]
    dependence: Dependence | None
    troubles: Mapping[str, str]  # why a part of the report is absent

    @property
    def pair_count(self) -> int:
        return sum(len(figure.known) for figure in self.pairs.values())

    @property
    def collapsed(self) -> int:
        return sum(flag.certain for flag in self.flags)

    @property
    def apart(self) -> int:
        return sum(figure.apart for figure in self.pairs.values())


def gather(study: Study, *, flags: Sequence[Flag] | None = None, seed: int = 0, deep: bool = True) -> Findings:
    """Compute all figures of a report. `flags`: collapsed sides from `analysis.collapsed.flag`; None: look for them in
    the answers that the trials have. `deep`: also what takes seconds, which is information and dependence."""
    columns = {name: study.column(name) for name in study.hyperparameters}
    log = logarithmic(columns, study)
    troubles: dict[str, str] = {}
    accuracies = {name: _figure(name, _accuracy(study, name), troubles) for name in study.frameworks}
    pairs = {
        (a, b): _figure(f"{a} – {b}", np.abs(accuracies[a].values - accuracies[b].values), troubles)
        for a, b in combinations(study.frameworks, 2)
    }
    if len(pairs) == 1:
        pairs = {pair: _figure(figure.name, deltas(study), troubles) for pair, figure in pairs.items()}
    delta = _figure(DELTA, _largest([figure.values for figure in pairs.values()], len(study.trials)), troubles)
    sides = [side for trial in study.trials for side in trial.sides]
    return Findings(
        study,
        columns,
        log,
        accuracies,
        pairs,
        delta,
        Counter(side.status for side in sides),
        tuple(flag(study) if flags is None else flags),
        _information(columns, [delta, *accuracies.values()], seed, troubles) if deep else (),
        _dependence(columns, log, delta, seed, troubles) if deep else None,
        troubles,
    )


def side_of(trial: Trial, framework: str) -> TrainedSide | None:
    return next((side for side in trial.sides if side.framework == framework), None)


def warnings(findings: Findings, trial: Trial) -> list[str]:
    """What a reader must know before trusting a trial's Δ."""
    notes = [str(flag) for flag in findings.flags if flag.trial == trial.id]
    notes += [f"{side.framework} {side.status}" for side in trial.sides if side.status != "finished"]
    return [*notes, *(f"{side.framework}: {side.message}" for side in trial.sides if side.message)]


def _accuracy(study: Study, framework: str) -> Values:
    sides = [side_of(trial, framework) for trial in study.trials]
    return np.array([np.nan if side is None or side.accuracy is None else side.accuracy for side in sides], np.float64)


def _figure(name: str, values: Values, troubles: dict[str, str]) -> TrialFigure:
    try:
        return TrialFigure(name, values, density(values))
    except MissingDependency as trouble:
        troubles["densities"] = str(trouble)
        return TrialFigure(name, values, None)


def _largest(deltas: list[Values], n: int) -> Values:
    if not deltas:
        return np.full(n, np.nan)
    stacked = np.stack(deltas)
    largest: Values = np.where(np.isnan(stacked), -np.inf, stacked).max(axis=0)
    return np.where(np.isfinite(largest), largest, np.nan)


def _information(
    columns: Mapping[str, NDArray[Any]], targets: list[TrialFigure], seed: int, troubles: dict[str, str]
) -> tuple[Information, ...]:
    measured = []
    for target in targets if columns else ():
        try:
            measured.append(information(columns, target.values, target.name, seed=seed))
        except TooFewTrials as trouble:
            troubles.setdefault("information", f"{target.name}: {trouble}")
    if not columns:
        troubles["information"] = "No hyperparameter varies between the trials."
    return tuple(measured)


def _dependence(
    columns: Mapping[str, NDArray[Any]], log: frozenset[str], delta: TrialFigure, seed: int, troubles: dict[str, str]
) -> Dependence | None:
    if not columns:
        troubles["dependence"] = "No hyperparameter varies between the trials."
        return None
    try:
        return dependence(columns, delta.values, DELTA, log=log, seed=seed)
    except (TooFewTrials, MissingDependency) as trouble:
        troubles["dependence"] = str(trouble)
        return None
