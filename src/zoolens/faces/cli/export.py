"""`zoolens export`: observations and predictions as files."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import click

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.stores import store_option


@click.command()
@click.option(
    "--format",
    "format_",
    type=click.Choice(["csv", "json", "parquet"]),
    help="Format; default: by the suffix of -o, or csv.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File to write; without it, CSV and JSON are printed."
)
@click.option("--run", "names", multiple=True, help="Only this run: id, prefix, 'last' or 'last~1'. Repeatable.")
@click.option(
    "--predictions", is_flag=True, help="Write every prediction, too, to OUTPUT with .predictions before its suffix."
)
@store_option("reads")
def command(
    format_: str | None, output: Path | None, names: tuple[str, ...], predictions: bool, store: str | None
) -> None:
    """Write what was measured as CSV, JSON or Parquet: one row an observation, with what it is about."""
    from zoolens.base.present.bars import spinner
    from zoolens.base.store.export import FORMATS, export, export_to_stream
    from zoolens.base.store.store import open_store

    suffix = output.suffix.lstrip(".").lower() if output else ""
    if suffix and suffix not in FORMATS and format_ is None:
        choice = " or ".join(f"--format {name}" for name in FORMATS)
        raise ZoolensError(f"There is no export format {suffix!r}.", hint=f"Add {choice}.")
    chosen = format_ or suffix or "csv"
    if predictions and output is None:
        raise ZoolensError("Predictions go to a file of their own.", hint="Name one with -o.")
    with open_store(store) as opened:
        runs = list(dict.fromkeys(opened.run(name).id for name in names)) if names else None
        if output is None:
            # Where rows are seen on the terminal, they show themselves that something goes on.
            with nullcontext() if sys.stdout.isatty() else spinner("export", "write"):
                export_to_stream(opened, sys.stdout, chosen, runs=runs)
            return
        with spinner(str(output), "write"):
            written = export(opened, output, chosen, runs=runs, kinds=["predictions"] if predictions else [])
    for path in written:
        click.echo(f"Wrote {path}", err=True)
    if predictions and len(written) == 1:
        click.echo("There are no predictions of these runs.", err=True)
