"""`zoolens store`: the state of the store itself."""

from __future__ import annotations

import sys
from dataclasses import asdict

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
    from zoolens.base.present.terminal import echo_json
    from zoolens.base.store.checking import check_store
    from zoolens.base.store.store import open_store

    def say(table: str, rows: int) -> None:
        click.echo(f"{table}: {rows:,} rows", err=True)

    with open_store(store) as opened:
        checked = check_store(opened, say)
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
@store_option("reads")
@json_option
def clean(store: str | None, as_json: bool) -> None:
    """Remove files of bulk facts that a killed process left behind an hour ago or earlier. No fact refers to them.

    Files of runs that the store does not have are left. Exit code 1 where a file cannot be removed.

    In a folder this is also done when an evaluation begins; in an object store only here: listing it costs requests.
    """
    from zoolens.base.present.terminal import echo_json
    from zoolens.base.store.store import open_store

    with open_store(store) as opened:
        swept = opened.sweep()
        place = opened.bulk.place.name
    if as_json:
        echo_json({"bulk": place, **asdict(swept)})
    else:
        for address in swept.removed:
            click.echo(address)
        echo_prose(f"{place}: {len(swept.removed):,} files removed.")
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
    with open_store(source, bulk=from_bulk) as opened, open_store(target, bulk=to_bulk) as other, Bars() as bars:
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
