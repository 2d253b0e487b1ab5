"""`zoolens disagree A --with 5`: the inputs on which a model and its nearest equivalents disagree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.present.terminal import echo_json, make_console, plain, print_table
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import OUT_FILE, json_option, trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.comparisons.disagreements import Disagreements
    from zoolens.findings.comparisons.text_disagreements import TextDisagreements


@click.command()
@click.argument("model", metavar="A", shell_complete=complete_models)
@click.option(
    "--with", "neighbours", type=click.IntRange(1), default=5, show_default=True, help="Number of nearest equivalents."
)
@click.option("--data", "-d", help="Dataset, by its name in the store or as `zoolens eval --data` takes it.")
@click.option("--runtime", "-r", help="Only runs in this runtime.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of inputs to show.")
@click.option(
    "--picture",
    type=OUT_FILE,
    help="Write a page with the pictures, or texts with coloured tokens, as .html.",
)
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

    The nearest are those that answer most like A on the same dataset, among all that were measured on it. Of language
    models the texts are listed on which they agree least about the next token.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.findings.comparisons.disagreements import disagree
    from zoolens.findings.comparisons.text_disagreements import TextDisagreements

    if picture is not None and picture.suffix != ".html":
        raise click.UsageError(f"A contact sheet is written as .html, not as {picture.name!r}.")
    with spinner(model, "compare with all that were measured"):
        found = disagree(model, neighbours, data=data, runtime=runtime, limit=limit, store=store)
    told = _texts(found) if isinstance(found, TextDisagreements) else _inputs(found)
    if picture is not None:
        picture.write_text(told.sheet(), encoding="utf-8")
    if csv_file is not None:
        csv_file.write_text(told.csv(), encoding="utf-8")
    if as_json:
        echo_json(told.data())
    else:
        _print(found)


@dataclass(frozen=True)
class _Told:
    """What can be written of disagreements of one kind."""

    sheet: Callable[[], str]
    csv: Callable[[], str]
    data: Callable[[], Any]


def _inputs(found: Disagreements) -> _Told:
    from zoolens.findings.comparisons.contact_sheet import html
    from zoolens.findings.comparisons.disagreements import as_csv, as_data

    return _Told(partial(html, found), partial(as_csv, found), partial(as_data, found))


def _texts(found: TextDisagreements) -> _Told:
    from zoolens.findings.comparisons.text_disagreements import as_csv, as_data
    from zoolens.findings.comparisons.token_sheet import token_sheet

    return _Told(partial(token_sheet, found), partial(as_csv, found), partial(as_data, found))


def _print(found: Disagreements | TextDisagreements) -> None:
    from zoolens.findings.comparisons.disagreement_page import disagreement_words

    words = disagreement_words(found)
    console = make_console()
    console.print(f"[bold]{plain(found.panel[0].name)}[/] in {plain(found.run.stack.runtime)}, and nearest to it")
    for letter, said in words.panel:
        console.print(f"  [bold]{letter}[/] {plain(said)}")
    console.print(f"\n{plain(words.headline)}{f', {words.order}' if words.table.rows else ''}\n")
    if words.table.rows:
        print_table(words.table.columns, words.table.rows)
    for note in found.notes:
        console.print(f"[dim]note: {plain(note)}[/]")
