"""`zoolens equiv A B`: how interchangeable two models are; for more than two, a matrix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, make_console, plain, print_table
from zoolens.base.verdicts import NotKnown, enforce
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import OUT_FILE, json_option, trust_option, wide_option
from zoolens.faces.cli.stores import check_store, store_option

if TYPE_CHECKING:
    from zoolens.findings.comparisons.equivalence import Equivalence, OnData
    from zoolens.findings.comparisons.equivalence_words import FoundLine
    from zoolens.findings.comparisons.matrix import Matrix


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="A B…", shell_complete=complete_models)
@click.option("--data", "-d", help="Dataset: the name of one in the store, or one to measure on now.")
@click.option("--runtime", "-r", help="Only runs in this runtime; for a matrix a pattern, '*' for all.")
@click.option(
    "--confidence",
    type=click.FloatRange(50, 99.999),
    default=95,
    show_default=True,
    help="Confidence of the bounds, in percent.",
)
@click.option(
    "--bound",
    type=click.Choice(["paired", "off", "arora"]),
    default="paired",
    show_default=True,
    help="'arora': the margin bound of Arora et al. 2018 as well, flagged where it is vacuous.",
)
@click.option(
    "--fail-on",
    "conditions",
    multiple=True,
    help="Exit with 3 if it holds: 'agreement < 95%'; 'unknown': with 4. Repeatable.",
)
@click.option("--picture", type=OUT_FILE, help="Write the matrix as .svg or .html.")
@click.option("--csv", "csv_file", type=OUT_FILE, help="Write the matrix as CSV.")
@store_option(None)
@json_option
@trust_option
@wide_option
def command(
    models: tuple[str, ...], data: str | None, runtime: str | None, store: str | None, as_json: bool, **chosen: Any
) -> None:
    """How interchangeable models A and B are, from what they answered to the same inputs.

    A model is named zoo:name, by a name that only one measured model has, by a path, or by a run's id. Without --data
    every dataset that both were measured on counts. More than two models, or a pattern such as 'demo:*': a matrix.
    """
    patterns = any(set(name) & set("*?") for name in models)
    wants_matrix = len(models) != 2 or patterns or chosen["picture"] or chosen["csv_file"]
    check_store(store, "reads" if wants_matrix or data is None else "makes")
    if wants_matrix and (chosen["conditions"] or chosen["bound"] == "arora"):
        raise click.UsageError("--fail-on and --bound are about two models, not about a matrix.")
    asked: dict[str, Any] = {"data": data, "runtime": runtime, "store": store}
    if wants_matrix:
        _show_matrix(models, asked, chosen["picture"], chosen["csv_file"], as_json)
    else:
        asked |= {"confidence": chosen["confidence"] / 100, "bound": chosen["bound"]}
        _show_pair(models, asked, chosen["conditions"], as_json)


# --- two models


def _show_pair(models: tuple[str, ...], asked: dict[str, Any], conditions: tuple[str, ...], as_json: bool) -> None:
    from zoolens.base.present.bars import Bars
    from zoolens.findings.comparisons.equivalence import as_data, equiv
    from zoolens.findings.comparisons.equivalence_words import refusal
    from zoolens.findings.comparisons.gate import parse_equivalence_gate

    gates = [parse_equivalence_gate(text) for text in conditions]
    with Bars() as bars:
        report = equiv(*models, **asked, progress=bars)
    if as_json:
        echo_json(as_data(report))
    else:
        print_report(report)
    if report.reasons:
        raise NotKnown(refusal(report))
    enforce(gates, report)


def print_report(report: Equivalence) -> None:
    from zoolens.findings.comparisons.equivalence_words import (
        MARGIN_BOUND,
        MARGIN_BOUND_MEANING,
        guarantee_line,
        margin_lines,
    )

    console = make_console()
    for compared in report.on:
        _print_data(console, compared, report.tolerance)
    guarantee = guarantee_line(report)
    if guarantee is not None:
        console.print()
        _print_line(console, guarantee)
    if report.arora is not None:
        console.print(f"\n[bold]{MARGIN_BOUND}[/] ({MARGIN_BOUND_MEANING})")
        for text in margin_lines(report.arora):
            console.print(f"  {plain(text)}")


def _print_data(console: Any, pair: OnData, tolerance: float) -> None:
    from zoolens.findings.comparisons.equivalence_words import data_lines, side_lines, size_words

    for side, words in side_lines(pair):
        console.print(f"[bold]{side}[/] {plain(words)}")
    console.print(f"  {plain(size_words(pair))}\n")
    for line in data_lines(pair, tolerance):
        _print_line(console, line)
    for note in pair.fit.notes:
        console.print(f"[dim]note: {plain(note)}[/]")


def _print_line(console: Any, line: FoundLine) -> None:
    from rich.text import Text

    text = Text(line.text)
    text.highlight_words(line.bold, "bold")
    console.print(text)


# --- many models


def _show_matrix(
    models: tuple[str, ...], asked: dict[str, Any], picture: Path | None, csv_file: Path | None, as_json: bool
) -> None:
    from zoolens.findings.comparisons.matrix import agreement_matrix, as_csv, as_data

    if picture is not None and picture.suffix not in (".svg", ".html"):
        raise click.UsageError(f"A picture is written as .svg or .html, not as {picture.name!r}.")
    matrix = agreement_matrix(models, **asked)
    if picture is not None:
        from zoolens.findings.comparisons import matrix_chart as drawing

        picture.write_text(drawing.svg(matrix) if picture.suffix == ".svg" else drawing.html(matrix), encoding="utf-8")
    if csv_file is not None:
        csv_file.write_text(as_csv(matrix), encoding="utf-8")
    if as_json:
        echo_json(as_data(matrix))
    else:
        print_matrix(matrix)


def print_matrix(matrix: Matrix) -> None:
    """Rows in the order of families; columns are numbered, so that they stay narrow."""
    from zoolens.findings.comparisons.equivalence_words import hundredths, percent_words

    console = make_console()
    console.print(f"{plain(matrix.title)}, % of {matrix.n:,} inputs of {plain(matrix.dataset)}; families together\n")
    numbers = [str(i + 1) for i in range(len(matrix.names))]
    columns = [
        Column("", "number", keep=1000),
        Column("model", keep=1000),
        Column("accuracy", "number", keep=999),
    ]
    columns += [Column(number, "number", keep=len(numbers) - i) for i, number in enumerate(numbers)]
    rows = [
        [
            numbers[i],
            name,
            "–" if matrix.accuracy[i] != matrix.accuracy[i] else percent_words(matrix.accuracy[i]),
            *("–" if value != value else hundredths(value) for value in matrix.agreement[i]),
        ]
        for i, name in enumerate(matrix.names)
    ]
    print_table(columns, rows)
    for note in matrix.notes:
        console.print(f"[dim]note: {plain(note)}[/]")
