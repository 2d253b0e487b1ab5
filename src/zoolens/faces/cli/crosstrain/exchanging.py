"""`zoolens crosstrain import`, `export` and `submit`: studies from and for others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.options import OUT_FOLDER
from zoolens.faces.cli.stores import check_store, store_option

if TYPE_CHECKING:
    from zoolens.base.store.store import Store
    from zoolens.training.crosstrain.exchange.merge import Merged

_there = click.Path(exists=True, file_okay=False, path_type=Path)
PROBLEMS_SHOWN = 20


@click.command(name="import")
@click.argument("source", type=_there, metavar="FOLDER")
@store_option("makes")
def import_(source: Path, store: str | None) -> None:
    """Take studies over from FOLDER: the published CSV files, or what `export` wrote. Again changes nothing."""
    from zoolens.base.store.store import open_store
    from zoolens.training.crosstrain.study.published import published_study

    with open_store(store) as opened:
        if published_study().is_in(source):
            _import_published(opened, source)
        else:
            _merge(opened, source, None)


@click.command()
@click.argument("study")
@click.argument("target", type=OUT_FOLDER, metavar="FOLDER")
@store_option("reads")
def export(study: str, target: Path, store: str | None) -> None:
    """Write STUDY to a new FOLDER that explains itself: Parquet, JSON schema, checksums, datasheet, kept weights."""
    from zoolens.base.store.store import open_store
    from zoolens.training.crosstrain.exchange.exchange_export import export_study
    from zoolens.training.crosstrain.exchange.seeds import replicates_of
    from zoolens.training.crosstrain.study.store_training import REPLICATES

    with open_store(store) as opened:
        export_study(opened, study, target)
        replicates = replicates_of(opened, study)
    click.echo(f"Wrote {study} to {target}.")
    if replicates:
        command = f"zoolens crosstrain export {replicates} {target.parent / f'{target.name}{REPLICATES}'}"
        click.echo(f"Its replicates are a study of their own, and not in it: {command}")


@click.command()
@click.argument("source", type=_there, metavar="FOLDER")
@click.option("--check", is_flag=True, help="Check the folder and merge nothing.")
@click.option("--into", default=None, metavar="STUDY", help="Merge the study under this name instead of its own.")
@store_option(None)
def submit(source: Path, check: bool, into: str | None, store: str | None) -> None:
    """Check a FOLDER from somebody else (files, checksums, schema, figures recomputed from its answers) and merge it.

    Where anything is wrong, nothing is changed.
    """
    from zoolens.base.store.store import open_store
    from zoolens.training.crosstrain.exchange.check import check_submission

    if not check:
        check_store(store, "makes")
        with open_store(store) as opened:
            _merge(opened, source, into)
        return
    checked = check_submission(source)
    _print_problems(checked.problems)
    if not checked.fine:
        raise ZoolensError(f"{source} is not in order; see above.", hint="Export it again from where it was made.")
    click.echo(f"{source} is in order: {', '.join(f'{count:,} {what}' for what, count in checked.counts.items())}.")


def _import_published(store: Store, source: Path) -> None:
    from zoolens.base.present.bars import Bars
    from zoolens.training.crosstrain.study.published import import_published

    with Bars(lines=True) as bars:

        def step(done: int, total: int) -> None:
            if done == 1:
                bars.begin("published trials", "import", total)
            bars.advance(1)

        imported = import_published(store, source, progress=step)
    click.echo(f"{', '.join(imported.studies)}: {imported.written:,} trials are new, {imported.kept:,} were there.")


def _merge(store: Store, source: Path, into: str | None) -> None:
    from zoolens.training.crosstrain.exchange.merge import SubmissionRefused, submit

    try:
        merged: Merged = submit(store, source, into=into)
    except SubmissionRefused as refused:
        _print_problems(refused.problems)
        raise
    click.echo(f"{merged.study}: {merged.written:,} trials are new, {merged.kept:,} were there.")


def _print_problems(problems: tuple[str, ...]) -> None:
    for problem in problems[:PROBLEMS_SHOWN]:
        click.echo(f"- {problem}", err=True)
    if len(problems) > PROBLEMS_SHOWN:
        click.echo(f"… and {len(problems) - PROBLEMS_SHOWN} more.", err=True)
