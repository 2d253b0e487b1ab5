"""How a trial reads: each side's accuracy, how far apart they are, curves, classes, and what was odd."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from zoolens.base.present.figures import NOTHING, figure, percent
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import print_table
from zoolens.base.statistics.intervals import wilson

if TYPE_CHECKING:
    from zoolens.training.crosstrain.training.trials import Hyperparameter, TrainedSide, Trial

EPOCHS_SHOWN: Final = 12
CLASSES_SHOWN: Final = 10


def print_trial(trial: Trial) -> None:
    print_sides(trial.sides)
    _print_curves(trial.sides)
    _print_classes(trial.sides)
    _print_semantics(trial.sides)
    for note in trial.notes:
        click.echo(f"Note: {note}")


def trial_data(trial: Trial) -> dict[str, Any]:
    """A trial as plain data. Churn is a list, since a pair cannot be a key in JSON."""
    sides = [{**asdict(side), "collapsed": side.collapsed} for side in trial.sides]
    churn = [{"a": a, "b": b, "share": share} for (a, b), share in trial.churn.items()]
    return {**asdict(trial), "sides": sides, "churn": churn, "delta": trial.delta}


def settings_line(hyperparameters: Mapping[str, Hyperparameter]) -> str:
    return ", ".join(f"{name} {value_text(value)}" for name, value in hyperparameters.items())


def value_text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def accuracies_line(trial: Trial) -> str:
    """0007: torch 81.20 %, jax 74.00 %, Δ 7.20 points."""
    sides = ", ".join(
        f"{side.framework} {percent(side.accuracy)}{'' if side.status == 'finished' else f' ({side.status})'}"
        for side in trial.sides
    )
    return f"{trial.id}: {sides}, Δ {points(trial.delta)}"


def points(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.2f} points"


def print_sides(sides: Sequence[TrainedSide]) -> None:
    columns = [
        Column("side", keep=4),
        Column("accuracy", "number", keep=3),
        Column("right", "number"),
        Column("status", keep=2),
        Column("time", "number"),
    ]
    print_table(columns, [_side_row(side) for side in sides])


def _side_row(side: TrainedSide) -> list[str]:
    accuracy = percent(side.accuracy)
    right = NOTHING
    if side.correct is not None and side.total:
        low, high = wilson(side.correct, side.total)
        accuracy += f" [{100 * low:.2f}, {100 * high:.2f}]"
        right = f"{side.correct:,} of {side.total:,}"
    status = f"{side.status}, collapsed" if side.collapsed else side.status
    return [side.framework, accuracy, right, status, figure(side.seconds, "s")]


def _print_curves(sides: Sequence[TrainedSide]) -> None:
    epochs = max((len(side.losses) for side in sides), default=0)
    if epochs < 2:
        return
    columns = [Column("epoch", "number", keep=9)]
    for side in sides:
        columns += [Column(f"{side.framework} loss", kind="number"), Column("accuracy", "number", keep=1)]
    rows = []
    for epoch in _some(epochs):
        row = [str(epoch + 1)]
        for side in sides:
            loss, accuracy = _at(side.losses, epoch), _at(side.accuracies, epoch)
            row += [NOTHING if loss is None else f"{loss:.4f}", percent(accuracy)]
        rows.append(row)
    click.echo()
    print_table(columns, rows)


def _some(count: int) -> list[int]:
    """The numbers to show: all, or `EPOCHS_SHOWN` at even distances with the first and the last."""
    shown = min(count, EPOCHS_SHOWN)
    return sorted({round(step * (count - 1) / max(shown - 1, 1)) for step in range(shown)})


def _at(values: Sequence[float | None], place: int) -> float | None:
    return values[place] if place < len(values) else None


def _print_classes(sides: Sequence[TrainedSide]) -> None:
    known = [side for side in sides if side.class_accuracy]
    if len(known) < 2:
        return
    rows = []
    for number, accuracies in enumerate(zip(*(side.class_accuracy for side in known), strict=True)):
        there = [value for value in accuracies if value is not None]
        rows.append((max(there) - min(there) if there else 0.0, number, accuracies))
    rows.sort(key=lambda row: (-row[0], row[1]))
    click.echo(f"\nClasses, the most different first{f' ({CLASSES_SHOWN})' if len(rows) > CLASSES_SHOWN else ''}")
    columns = [Column("class", "number", keep=3)]
    columns += [Column(side.framework, kind="number", keep=2) for side in known]
    columns += [Column(f"answered by {side.framework}", kind="number") for side in known]
    table = []
    for _, number, accuracies in rows[:CLASSES_SHOWN]:
        answered = [f"{side.answered[number]:,}" if side.answered else NOTHING for side in known]
        table.append([str(number), *(percent(value, 1) for value in accuracies), *answered])
    print_table(columns, table)


def _print_semantics(sides: Iterable[TrainedSide]) -> None:
    """Print the semantics that the frameworks decided differently."""
    known = [side for side in sides if side.semantics]
    names = dict.fromkeys(name for side in known for name in side.semantics)
    rows = [[name, *(value_text(side.semantics.get(name, NOTHING)) for side in known)] for name in names]
    rows = [row for row in rows if len(set(row[1:])) > 1]
    if rows:
        click.echo("\nDecided differently")
        print_table([Column("semantic", keep=2), *(Column(side.framework, keep=1) for side in known)], rows)
