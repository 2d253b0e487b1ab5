"""Tables that stay readable: on a narrow terminal the least important columns go, never the names of things.

All text from models, data and users passes through here or through `plain`: it is shown as it is, whatever brackets
and colons it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from zoolens.present.streams import open_console
from zoolens.present.tables import Column

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 200  # a pipe has no width: leave the lines whole
GAP = 2
FOLDED = 24  # cells that a column of sentences needs at least


def make_console(*, stderr: bool = False) -> Console:
    console = open_console(stderr=stderr, emoji=False, highlight=False)
    return (
        console if console.is_terminal else open_console(stderr=stderr, emoji=False, highlight=False, width=PIPED_WIDTH)
    )


def plain(text: object) -> str:
    """Text for a console, without being read as markup."""
    from rich.markup import escape

    return escape(str(text))


def fitting_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Which columns to show, so that every one shown is whole; the two most important stay in any case."""
    widths = [_needed(column, [row[i] for row in rows]) + GAP for i, column in enumerate(columns)]
    shown = list(range(len(columns)))
    while sum(widths[i] for i in shown) - GAP > width and len(shown) > 2:
        shown.remove(min(shown, key=lambda i: (columns[i].keep, -i)))
    return shown


def _needed(column: Column, cells: Sequence[str]) -> int:
    longest = max(_width(text) for text in (column.name, *cells))
    return min(longest, FOLDED) if column.folds else longest


def print_blocks(columns: Sequence[Column], blocks: Iterable[Sequence[Sequence[str]]]) -> None:
    """A table of very many rows, printed as they come: rich takes half a millisecond for a row, and wants all at once.
    A column grows where a later block has longer cells."""
    widths = [_width(column.name) for column in columns]
    for number, rows in enumerate(blocks):
        header = [[column.name for column in columns]] if number == 0 else []
        cells = [*header, *([text.replace("\n", " ") for text in row] for row in rows)]
        widths = [max([width, *(_width(row[i]) for row in cells)]) for i, width in enumerate(widths)]
        for row in cells:
            padded = [
                f"{' ' * (width - _width(text))}{text}" if column.right else f"{text}{' ' * (width - _width(text))}"
                for column, text, width in zip(columns, row, widths, strict=True)
            ]
            click.echo((" " * GAP).join(padded).rstrip())


def _width(text: str) -> int:
    from rich.cells import cell_len

    return len(text) if text.isascii() else cell_len(text)


def print_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], console: Console | None = None, *, header: bool = True
) -> None:
    """Print as many columns as the terminal has room for, and name those that it has no room for."""
    from rich.table import Table

    console = console or make_console()
    table: Any = Table(box=None, header_style="bold", pad_edge=False, show_header=header)
    shown = fitting_columns(columns, rows, console.width)
    for i in shown:
        table.add_column(
            plain(columns[i].name),
            justify="right" if columns[i].right else "left",
            style="dim" if columns[i].kind == "key" else None,
            overflow="fold",
            no_wrap=not columns[i].folds and any(columns[j].folds for j in shown),
        )
    for row in rows:
        table.add_row(*(_markup(row[i]) for i in shown))
    console.print(table)
    hidden = [columns[i].name for i in range(len(columns)) if i not in shown]
    if hidden:
        console.print(f"[dim]Not shown for want of width: {plain(', '.join(hidden))}.[/]")


def print_facts(facts: Mapping[str, str], console: Console) -> None:
    """Names and what is said of each, in two columns without a head."""
    print_table([Column("", "key"), Column("", folds=True)], list(facts.items()), console, header=False)


class Styled(str):
    """A cell in a style of rich's, such as "red" or "dim"."""

    style: str

    def __new__(cls, text: str, style: str) -> Styled:
        cell = super().__new__(cls, text)
        cell.style = style
        return cell


def _markup(cell: str) -> str:
    return f"[{cell.style}]{plain(cell)}[/]" if isinstance(cell, Styled) else plain(cell)
