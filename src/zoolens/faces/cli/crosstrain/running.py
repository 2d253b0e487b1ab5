"""`zoolens crosstrain run PLAN.yaml`: a study, begun or gone on with."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.present.terminal import echo_json
from zoolens.faces.cli.crosstrain.options import manner, manner_options, yaml_file
from zoolens.faces.cli.crosstrain.trialtext import settings_line
from zoolens.faces.cli.options import json_option, on_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.training.crosstrain.study.plan_runner import Studied
    from zoolens.training.crosstrain.study.search.budget import Budget
    from zoolens.training.crosstrain.training.manner import Manner


@click.command()
@click.argument("plan", type=yaml_file, metavar="PLAN.yaml")
@click.option(
    "--trials", type=click.IntRange(1), default=None, help="Number of trials in all; default: that of the plan."
)
@click.option(
    "--time", "device_time", default=None, help="Stop when all calls together have trained this long, such as 20m."
)
@click.option("--slice", "wall_time", default=None, help="Stop this call cleanly after this time, such as 9m.")
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=None,
    help="Trials at the same time; default: 1, on a cluster as many as fit.",
)
@on_option
@click.option(
    "--backend",
    type=click.Choice(["auto", "local", "ray"]),
    default="auto",
    show_default=True,
    help="The older way to say --on; auto: on Ray if RAY_ADDRESS is set.",
)
@click.option(
    "--fresh", is_flag=True, help="Set the journal aside and start a new search; finished trials stay in the study."
)
@manner_options
@store_option("makes")
@json_option
def run(plan: Path, store: str | None, as_json: bool, **chosen: Any) -> None:
    """Run the study that PLAN.yaml describes, or go on with it.

    Interrupt it or kill it at any moment: the same command goes on from there, and repeats nothing that was finished.
    """
    from zoolens.faces.cli.crosstrain.progress import StudyBar
    from zoolens.training.crosstrain.study.plan_runner import run_plan
    from zoolens.training.crosstrain.study.yaml_files import load_plan

    how = _shared_out(manner(chosen), chosen["workers"])
    budget = _budget(chosen["trials"], chosen["wall_time"], chosen["device_time"])
    planned = load_plan(plan)
    seeds = planned.replicates + 1
    with StudyBar(planned.name, seeds) as bar:
        studied = run_plan(
            planned,
            store,
            budget=budget,
            workers=chosen["workers"],
            backend=chosen["backend"],
            fresh=chosen["fresh"],
            manner=how,
            watch=bar,
        )
    if as_json:
        echo_json(_as_data(studied))
    else:
        _print(studied, seeds)


def _shared_out(how: Manner, workers: int | None) -> Manner:
    """Trials at once share the cores of this machine, unless the user says otherwise."""
    from zoolens.base.engine.executors.current_executor import current_executor

    if how.threads is not None or workers in (None, 1) or how.device != "cpu" or current_executor().elsewhere:
        return how
    return replace(how, threads=max(1, (os.cpu_count() or 1) // (workers or 1)))


def _budget(trials: int | None, wall_time: str | None, device_time: str | None) -> Budget:
    from zoolens.training.crosstrain.study.search.budget import Budget, parse_duration

    return Budget(
        trials=trials,
        seconds=parse_duration(wall_time) if wall_time else None,
        device_seconds=parse_duration(device_time) if device_time else None,
    )


def _print(studied: Studied, seeds: int) -> None:
    from zoolens.faces.cli.crosstrain.progress import delta_text

    search = studied.search
    for warning in search.warnings:
        click.echo(f"Warning: {warning}", err=True)
    again = f", {len(search.pending)} begun and not finished" if search.pending else ""
    click.echo(f"Study {studied.study}: {len(search.finished)} trials done, {search.new} of them now{again}.")
    unusual = Counter(trial.told.status for trial in search.finished if trial.told.status != "finished")
    if unusual:
        click.echo(f"Not finished as usual: {', '.join(f'{count} {status}' for status, count in unusual.items())}.")
    if search.best is not None:
        size, settings = delta_text(search.best.told.delta, seeds), settings_line(search.best.asked.hyperparameters)
        click.echo(f"Largest Δ: {size} in trial {studied.best} ({settings}).")
    if search.reason:
        click.echo(f"Stopped: {search.reason}")
    else:
        click.echo(f"Look at it: zoolens crosstrain report {studied.study} --output FOLDER")


def _as_data(studied: Studied) -> dict[str, Any]:
    search = studied.search
    return {
        "study": studied.study,
        "journal": str(studied.journal),
        "done": len(search.finished),
        "new": search.new,
        "pending": [begun.trial for begun in search.pending],
        "complete": search.complete,
        "reason": search.reason,
        "warnings": list(search.warnings),
        "best": {"trial": studied.best, **search.best.told.model_dump()} if search.best else None,
    }
