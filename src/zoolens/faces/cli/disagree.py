"""`zoolens disagree A --with 5`: the inputs on which a model and its nearest equivalents disagree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoolens.base.present.terminal import echo_json, make_console, plain, print_table
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import OUT_FILE, json_option, trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.comparisons.disagreements import Disagreements


@click.command()
@click.argument("model", metavar="A", shell_complete=complete_models)
@click.option(
    "--with", "neighbours", type=click.IntRange(1), default=5, show_default=True, help="Number of nearest equivalents."
)
@click.option("--data", "-d", help="Dataset, by its name in the store or as `zoolens eval --data` takes it.")
@click.option("--runtime", "-r", help="Only runs in this runtime.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of inputs to show.")
@click.option("--picture", type=OUT_FILE, help="Write a contact sheet with the pictures, as .html.")
@click.option("--csv", "csv_file", type=OUT_FILE, help="Write the inputs as CSV.")
@store_option("reads")
@json_option
@trust_option
@wide_option
def command(
    model: str,
    neighbours: int,
    data: str | None,
    runtime: str | None,
    limit: int,
    picture: Path | None,
    csv_file: Path | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Inputs on which model A and its nearest equivalents do not all agree, the most contested first.

    The nearest are those that answer most like A on the same dataset, among all that were measured on it.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.findings.comparisons.disagreements import as_csv, as_data, disagree

    if picture is not None and picture.suffix != ".html":
        raise click.UsageError(f"A contact sheet is written as .html, not as {picture.name!r}.")
    with spinner(model, "compare with all that were measured"):
        panel = disagree(model, neighbours, data=data, runtime=runtime, limit=limit, store=store)
    if picture is not None:
        from zoolens.findings.comparisons.contact_sheet import html

        picture.write_text(html(panel), encoding="utf-8")
    if csv_file is not None:
        csv_file.write_text(as_csv(panel), encoding="utf-8")
    if as_json:
        echo_json(as_data(panel))
    else:
        print_disagreements(panel)


def print_disagreements(panel: Disagreements) -> None:
    from zoolens.findings.comparisons.disagreement_page import contested_table, headline, panel_lines

    console = make_console()
    console.print(f"[bold]{plain(panel.panel[0].name)}[/] in {plain(panel.run.stack.runtime)}, and nearest to it")
    for letter, words in panel_lines(panel):
        console.print(f"  [bold]{letter}[/] {plain(words)}")
    order = ", the most contested first\n" if panel.inputs else "\n"
    console.print(f"\n{plain(headline(panel))}{order}")
    if panel.inputs:
        table = contested_table(panel)
        print_table(table.columns, table.rows)
    for note in panel.notes:
        console.print(f"[dim]note: {plain(note)}[/]")
