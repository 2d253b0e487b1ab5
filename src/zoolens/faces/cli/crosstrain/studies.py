"""`zoolens crosstrain list` and `show`: what was trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from zoolens.base.present.figures import NOTHING, percent
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, print_table
from zoolens.faces.cli.crosstrain.trialtext import print_trial, settings_line, trial_data, value_text
from zoolens.faces.cli.options import json_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.base.store.store import Store
    from zoolens.training.crosstrain.training.trials import Study, Trial

TRIALS_SHOWN: Final = 20


@click.command(name="list")
@store_option("reads")
@json_option
@wide_option
def list_(store: str | None, as_json: bool) -> None:
    """List the studies."""
    from zoolens.base.store.store import open_store
    from zoolens.training.crosstrain.study.stored_studies import read_study, study_names

    with open_store(store) as opened:
        studies = [read_study(opened, name) for name in study_names(opened)]
    if as_json:
        echo_json([_about(study) for study in studies])
    elif studies:
        _print_list(studies)
    else:
        click.echo("No studies yet: try `zoolens crosstrain train` or `zoolens crosstrain run`.", err=True)


@click.command()
@click.argument("study")
@store_option("reads")
def remove(study: str, store: str | None) -> None:
    """Take STUDY off the list. Its trainings stay in the store; training into it again brings it back."""
    from zoolens.base.errors import UnknownName
    from zoolens.base.store.store import open_store
    from zoolens.training.crosstrain.study.stored_studies import remove_study, study_names

    with open_store(store) as opened:
        if study not in (known := study_names(opened)):
            raise UnknownName("study", study, known)
        remove_study(opened, study)
    click.echo(f"{study} is no longer listed. Its trainings are kept.")


@click.command()
@click.argument("study")
@click.argument("trial", required=False)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help=f"Show all trials, not only the {TRIALS_SHOWN} with the largest difference between their sides.",
)
@store_option("reads")
@json_option
@wide_option
def show(study: str, trial: str | None, everything: bool, store: str | None, as_json: bool) -> None:
    """Show STUDY with its trials, or one TRIAL of it in full."""
    from zoolens.base.store.store import open_store
    from zoolens.training.crosstrain.study.stored_studies import read_study

    with open_store(store) as opened:
        read = read_study(opened, study)
        if trial is not None:
            _show_trial(opened, read, trial_of(read, trial), as_json)
            return
    if as_json:
        echo_json({**_about(read), "details": read.details, "trials": [trial_data(listed) for listed in read.trials]})
    else:
        _print_study(read, everything)


def trial_of(study: Study, name: str) -> Trial:
    from zoolens.base.errors import UnknownName

    for trial in study.trials:
        if trial.id == name:
            return trial
    raise UnknownName(f"trial of {study.name}", name, (trial.id for trial in study.trials))


def _show_trial(store: Store, study: Study, trial: Trial, as_json: bool) -> None:
    from zoolens.faces.cli.crosstrain.pairtext import noises_of, pairs_data, print_pairs
    from zoolens.training.crosstrain.study.side_comparison import paired_sides
    from zoolens.training.crosstrain.study.store_training import replicates

    pairs = paired_sides(store, trial)
    trials = trial, *replicates(store, study.name).get(trial.id, ())
    noises = noises_of(trials, pairs)
    if as_json:
        echo_json({**trial_data(trial), **pairs_data(pairs, noises)})
        return
    click.echo(f"Trial {trial.id} of {study.name}: {settings_line(trial.hyperparameters)}")
    print_trial(trial)
    print_pairs(pairs, noises, trials)


def _about(study: Study) -> dict[str, Any]:
    from zoolens.training.crosstrain.study.analysis.analysis_tables import apart, deltas, summarise

    summary = summarise("delta", deltas(study))
    share = apart([study])
    return {
        "study": study.name,
        "frameworks": list(study.frameworks),
        "trials": len(study.trials),
        "expected_trials": study.expected,
        "with_delta": share.total,
        "apart": share.count,
        "largest_delta": summary.maximum,
        "median_delta": summary.median,
        "source": study.source,
    }


def _print_list(studies: list[Study]) -> None:
    columns = [
        Column("study", keep=5),
        Column("sides", keep=3),
        Column("trials", "number", keep=4),
        Column("Δ ≥ 5 %", "number", keep=2),
        Column("median Δ", "number"),
        Column("largest Δ", "number", keep=2),
        Column("source"),
    ]
    rows = []
    for study in studies:
        about = _about(study)
        share = f"{about['apart']:,} of {about['with_delta']:,}" if about["with_delta"] else NOTHING
        figures = [share, percent(about["median_delta"]), percent(about["largest_delta"])]
        rows.append([about["study"], ", ".join(about["frameworks"]), study.trial_count, *figures, about["source"]])
    print_table(columns, rows)


def _print_study(study: Study, everything: bool) -> None:
    _print_list([study])
    if not study.trials:
        return
    ordered = sorted(study.trials, key=lambda trial: -1.0 if trial.delta is None else trial.delta, reverse=True)
    shown = study.trials if everything else tuple(ordered[:TRIALS_SHOWN])
    if len(shown) < len(study.trials):
        click.echo(f"\nThe {len(shown)} with the largest difference; --all shows every trial")
    else:
        click.echo()
    varied = study.hyperparameters
    columns = [Column("trial", keep=9), Column("Δ", "number", keep=8)]
    columns += [Column(name, "number", keep=6) for name in study.frameworks]
    columns += [Column(name, "number", keep=4) for name in varied]
    print_table([*columns, Column("notes", folds=True)], [_trial_row(study, trial) for trial in shown])


def _trial_row(study: Study, trial: Trial) -> list[str]:
    sides = {side.framework: side for side in trial.sides}
    accuracies = [percent(sides[name].accuracy) if name in sides else NOTHING for name in study.frameworks]
    settings = [value_text(trial.hyperparameters.get(name, NOTHING)) for name in study.hyperparameters]
    collapsed = [f"{side.framework} collapsed." for side in trial.sides if side.collapsed]
    return [trial.id, percent(trial.delta), *accuracies, *settings, " ".join((*collapsed, *trial.notes))]
