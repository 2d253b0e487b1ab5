"""Trials as a pandas DataFrame, and trials found by hyperparameters that are nearly right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zoolens.base.errors import UnknownName
from zoolens.base.present.results import frame
from zoolens.training.crosstrain.training.trials import Hyperparameter, Study, TrainedSide, Trial


def trials_frame(study: Study) -> Any:
    """One row for each trial and pair of its sides: hyperparameters, then figures of side a and side b. A
    hyperparameter that is named like a figure has "hyperparameter." before its name."""
    return frame((row for trial in study.trials for row in _rows(study.name, trial)), "trials_frame")


def find_trials(study: Study, tolerance: float = 0.05, **hyperparameters: Hyperparameter) -> tuple[Trial, ...]:
    """The trials whose hyperparameters are all within this share of those given, nearest first. Words must be equal;
    names with dots are given as `**{"optimizer.epsilon": 1e-7}`."""
    known = dict.fromkeys(name for trial in study.trials for name in trial.hyperparameters)
    for name in hyperparameters:
        if name not in known:
            raise UnknownName("hyperparameter", name, known)
    near = []
    for trial in study.trials:
        distances = [_distance(trial.hyperparameters.get(name), wanted) for name, wanted in hyperparameters.items()]
        if all(distance <= tolerance for distance in distances):
            near.append((max(distances, default=0.0), trial))
    return tuple(trial for _, trial in sorted(near, key=lambda distance: distance[0]))


def _distance(value: Hyperparameter | None, wanted: Hyperparameter) -> float:
    """Relative to the larger of the two."""
    if value is None or isinstance(value, str) or isinstance(wanted, str):
        return 0.0 if value == wanted else float("inf")
    largest = max(abs(value), abs(wanted))
    return abs(value - wanted) / largest if largest else 0.0


def _rows(study: str, trial: Trial) -> Iterator[dict[str, Any]]:
    for a, b in trial.pairs:
        both = a.accuracy is not None and b.accuracy is not None
        churn = trial.churn.get((a.framework, b.framework), trial.churn.get((b.framework, a.framework)))
        figures = {
            **_figures(a, "a"),
            **_figures(b, "b"),
            "delta": abs((a.accuracy or 0.0) - (b.accuracy or 0.0)) if both else None,
            "churn": churn,
            "notes": "; ".join(trial.notes),
        }
        taken = {"study", "trial", *figures}
        settings = {
            f"hyperparameter.{name}" if name in taken else name: value for name, value in trial.hyperparameters.items()
        }
        yield {"study": study, "trial": trial.id, **settings, **figures}


def _figures(side: TrainedSide, which: str) -> dict[str, Any]:
    figures = {
        "framework": side.framework,
        "status": side.status,
        "accuracy": side.accuracy,
        "exact": side.exact,
        "correct": side.correct,
        "total": side.total,
        "collapsed": side.collapsed if side.answered else None,
        "seconds": side.seconds,
        "run": side.run,
    }
    return {f"{name}_{which}": value for name, value in figures.items()}
