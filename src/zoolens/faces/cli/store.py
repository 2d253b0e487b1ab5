"""`zoolens store`: the state of the store itself."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.terminal import echo_prose
from zoolens.faces.cli.options import json_option
from zoolens.faces.cli.stores import store_option


@click.group(name="store")
def command() -> None:
    """Check, copy and tidy the store that holds what was measured."""


@command.command()
@store_option("reads")
@json_option
def check(store: str | None, as_json: bool) -> None:
    """Hold every row and every file of the store against its checksum. Exit code 1 where something is damaged."""
    from zoolens.base.present.bars import Bars
    from zoolens.base.present.terminal import echo_json
    from zoolens.base.store.checking import check_store
    from zoolens.base.store.store import open_store

    with Bars() as bars, open_store(store, must_exist=True) as opened:
        checked = check_store(opened, bars)
        name = opened.name
    if as_json:
        echo_json({"store": name, **asdict(checked)})
    else:
        for sentence in checked.damage:
            click.echo(sentence)
        state = f"{len(checked.damage)} damages found" if checked.damage else "nothing is damaged"
        echo_prose(f"{name}: {checked.rows:,} rows and {checked.files:,} files looked at, {state}.")
    if checked.damage:
        click.echo("Restore the store from a backup, or measure again what is damaged with --fresh.", err=True)
        sys.exit(1)


@command.command()
@click.option(
    "--jobs-older-than",
    "days",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="DAYS",
    help="Also remove records and logs of jobs on other machines that ended so long ago, and passes of plans, but for "
    "the last of each.",
)
@store_option("reads")
@click.option(
    "--travelled-older-than",
    "travelled",
    type=click.FloatRange(0),
    metavar="DAYS",
    help="Also remove files of models and datasets that were put into $ZOOLENS_BULK so long ago, to travel to nodes. A "
    "job that still needs one gets it again.",
)
@json_option
def clean(days: float, store: str | None, travelled: float | None, as_json: bool) -> None:
    """Remove files of bulk facts that a killed process left behind an hour ago or earlier. No fact refers to them.

    Files of runs that the store does not have are left. Exit code 1 where a file cannot be removed.

    In a folder this is also done when an evaluation begins; in an object store only here: listing it costs requests.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.base.present.terminal import echo_json
    from zoolens.base.store.jobs import forget_jobs
    from zoolens.base.store.passes import forget_passes
    from zoolens.base.store.shared_files import sweep_travelled
    from zoolens.base.store.store import open_store

    with (
        spinner("the store", "look for files that nothing refers to"),
        open_store(store, must_exist=True) as opened,
    ):
        gone = ((), ()) if travelled is None else sweep_travelled(travelled * 86_400)
        swept = opened.sweep()
        forgotten, old_passes = forget_jobs(opened, days * 86_400), forget_passes(opened, days * 86_400)
        place = opened.bulk.place.name
    swept = replace(swept, removed=(*swept.removed, *gone[0]), stuck=(*swept.stuck, *gone[1]))
    if as_json:
        echo_json({"bulk": place, **asdict(swept), "jobs": forgotten, "passes": old_passes})
    else:
        for address in swept.removed:
            click.echo(address)
        echo_prose(f"{place}: {len(swept.removed) - len(gone[0]):,} files removed.")
        if forgotten:
            echo_prose(f"{forgotten:,} records of jobs removed.")
        if old_passes:
            echo_prose(f"{old_passes:,} passes of plans removed.")
        if travelled is not None:
            echo_prose(f"{len(gone[0]):,} files of models and datasets removed that had travelled.")
        if swept.unknown:
            echo_prose(
                f"{len(swept.unknown):,} files of runs that this store does not have were left, such as "
                f"{swept.unknown[0]}: another database with the same id, or a copy that was stopped, wrote them."
            )
    if swept.stuck:
        click.echo(
            f"{len(swept.stuck):,} files could not be removed, such as {swept.stuck[0]}. "
            "Check the right to delete there (s3:DeleteObject in an object store).",
            err=True,
        )
        sys.exit(1)


@command.command()
@store_option("reads")
@click.option("--force", is_flag=True, help="Also where files are missing: they count as lost from then on.")
def moved(store: str | None, force: bool) -> None:
    """Record that the bulk facts of a PostgreSQL store lie in $ZOOLENS_BULK, after you moved them there.

    Every file that the store names is looked for first. `zoolens store copy` with --to-bulk moves them and records it.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.base.store.bulk_record import missing_files
    from zoolens.base.store.store import open_store

    with open_store(store, must_exist=True) as opened:
        place = opened.bulk.place
        with spinner(place.name, "look for every file of the store"):
            missing = missing_files(opened, place)
        if missing and not force:
            raise ZoolensError(
                f"{len(missing):,} files of the store are not in {place.name}, such as {missing[0]}.",
                hint="Move them first, or set ZOOLENS_BULK to where they are.",
            )
        opened.record_place()
        echo_prose(f"{opened.name} keeps its bulk facts in {place.name}.")


@command.command()
@click.argument("source")
@click.argument("target")
@click.option("--from-bulk", help="Where a PostgreSQL SOURCE keeps its bulk facts, instead of $ZOOLENS_BULK.")
@click.option("--to-bulk", help="The same for TARGET: a folder, or s3://bucket/prefix.")
@json_option
def copy(source: str, target: str, from_bulk: str | None, to_bulk: str | None, as_json: bool) -> None:
    """Add everything that the store SOURCE holds to TARGET, which is made if it is not there.

    Each is an SQLite file or a postgresql:// URL. A copy that was stopped goes on when it is made again. What is in
    TARGET already stays as it is; a run that was measured otherwise there is named, and the exit code is 1.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.base.present.terminal import echo_json
    from zoolens.base.store.copying import copy_store
    from zoolens.base.store.store import open_store
    from zoolens.base.store.target import missing_file

    if path := missing_file(source):
        raise ZoolensError(f"There is no store at {path}.", hint="SOURCE comes first, TARGET second.")
    with (
        Bars() as bars,
        open_store(source, bulk=from_bulk, must_exist=True) as opened,
        open_store(target, bulk=to_bulk) as other,
    ):
        copied = copy_store(opened, other, progress=bars)
        name = other.name
    if as_json:
        echo_json({"target": name, **asdict(copied), "refused_runs": sorted(copied.refused_runs)})
    else:
        for sentence in copied.refused:
            click.echo(sentence)
        echo_prose(
            f"{name}: {copied.runs_added:,} of {copied.runs:,} runs and {copied.files_added:,} files were added; "
            f"{copied.studies:,} studies and {copied.trials:,} trials were compared."
        )
    if copied.refused:
        click.echo("Everything else was copied. What was left out is unchanged in both stores.", err=True)
        sys.exit(1)
