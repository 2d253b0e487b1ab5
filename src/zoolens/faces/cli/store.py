"""`zoolens store`: the state of the store itself."""

from __future__ import annotations

import sys

import click

from zoolens.base.present.terminal import echo_prose
from zoolens.faces.cli.options import json_option
from zoolens.faces.cli.stores import store_option


@click.group(name="store")
def command() -> None:
    """Check and tidy the store that holds what was measured."""


@command.command()
@store_option("reads")
@json_option
def check(store: str | None, as_json: bool) -> None:
    """Hold every row and every file of the store against its checksum. Exit code 1 where something is damaged."""
    from dataclasses import asdict

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
def sweep(store: str | None, as_json: bool) -> None:
    """Remove files of bulk facts that a killed process left behind an hour ago or earlier. No fact refers to them.

    A folder is also swept when an evaluation begins; an object store only here, since listing it costs requests.
    """
    from zoolens.base.present.terminal import echo_json
    from zoolens.base.store.store import open_store

    with open_store(store) as opened:
        removed = opened.sweep()
        place = opened.bulk.place.name
    if as_json:
        echo_json({"bulk": place, "removed": removed})
        return
    for address in removed:
        click.echo(address)
    echo_prose(f"{place}: {len(removed):,} files removed.")
