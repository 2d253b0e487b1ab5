"""Tables that stay readable: on a narrow terminal the least important columns go, never the names of things.

All text from models, data and users passes through here or through `plain`: it is shown as it is, whatever brackets
and colons it holds.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zoolens.base.present.streams import open_console
from zoolens.base.present.tables import Column

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 200  # a pipe has no width: leave the lines whole
TABLE_WIDTH = 100  # what a table may take where no terminal says how much there is
_WIDE = "zoolens.wide"
_WHOLE_WORDS: Final[Mapping[str, Any]] = {"break_long_words": False, "break_on_hyphens": False}
GAP = 2
FOLDED = 24  # cells that a column of sentences needs at least


def make_console(*, stderr: bool = False) -> Console:
    console = open_console(stderr=stderr, emoji=False, highlight=False)
    return (
        console if console.is_terminal else open_console(stderr=stderr, emoji=False, highlight=False, width=PIPED_WIDTH)
    )


def echo_prose(text: str) -> None:
    """Print a line of text: broken between words on a terminal, whole in a pipe. It continues as far in as it began."""
    if not sys.stdout.isatty():
        click.echo(text)
        return
    indent = " " * (len(text) - len(text.lstrip()))
    width = shutil.get_terminal_size().columns
    for line in textwrap.wrap(text, width, subsequent_indent=f"{indent}  " if indent else "", **_WHOLE_WORDS) or [""]:
        click.echo(line)


def echo_json(data: Any) -> None:
    """Print JSON: dates and paths as text, letters of all languages as they are."""
    import json

    from zoolens.base.store.json_columns import as_plain

    click.echo(json.dumps(data, indent=2, ensure_ascii=False, default=as_plain))


def plain(text: object) -> str:
    """Text for a console, without being read as markup."""
    from rich.markup import escape

    return escape(str(text))


def show_every_column(context: click.Context) -> None:
    """Let the tables of this command have all their columns."""
    context.meta[_WIDE] = True


def _table_width(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    """How wide a table may become: as the terminal, or 100 columns in a pipe; with `--wide` as it needs to be."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_WIDE):
        needed = sum(_needed(column, [row[i] for row in rows]) + GAP for i, column in enumerate(columns))
        return max(console.width, needed)
    return console.width if console.is_terminal else min(console.width, TABLE_WIDTH)


def fitting_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Which columns to show, so that every one shown is whole; the two most important stay in any case. Names so long
    that no figure would be left are broken."""
    widths = [_needed(column, [row[i] for row in rows]) + GAP for i, column in enumerate(columns)]
    shown = _within(columns, widths, width)
    if any(column.right for column in columns) and not any(columns[i].right for i in shown):
        broken = [
            needed if column.right else min(needed, FOLDED + GAP)
            for column, needed in zip(columns, widths, strict=True)
        ]
        return _within(columns, broken, width)
    return shown


def _within(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    shown = list(range(len(columns)))
    while sum(widths[i] for i in shown) - GAP > width and len(shown) > 2:
        shown.remove(min(shown, key=lambda i: (columns[i].keep, -i)))
    return shown


def _needed(column: Column, cells: Sequence[str]) -> int:
    longest = max(_width(text) for text in (column.name, *cells))
    return min(longest, FOLDED) if column.folds else longest


def print_blocks(columns: Sequence[Column], blocks: Iterable[Sequence[Sequence[str]]]) -> None:
    """A table of very many rows, printed as they come: rich takes half a millisecond for a row, and wants all at once.
    A column grows where a later block has longer cells; the first block decides which columns there is room for."""
    console = make_console()
    all_columns, shown = columns, list(range(len(columns)))
    widths: list[int] = []
    for number, block in enumerate(blocks):
        if number == 0:
            shown = fitting_columns(all_columns, block, _table_width(console, all_columns, block))
            columns = [all_columns[i] for i in shown]
            widths = [_width(column.name) for column in columns]
        rows = [[row[i] for i in shown] for row in block]
        header = [[column.name for column in columns]] if number == 0 else []
        cells = [*header, *([text.replace("\n", " ") for text in row] for row in rows)]
        widths = [max([width, *(_width(row[i]) for row in cells)]) for i, width in enumerate(widths)]
        for row in cells:
            padded = [
                f"{' ' * (width - _width(text))}{text}" if column.right else f"{text}{' ' * (width - _width(text))}"
                for column, text, width in zip(columns, row, widths, strict=True)
            ]
            click.echo((" " * GAP).join(padded).rstrip())
    _name_hidden(console, all_columns, shown)


def _width(text: str) -> int:
    from rich.cells import cell_len

    return len(text) if text.isascii() else cell_len(text)


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    console: Console | None = None,
    *,
    header: bool = True,
    width: int | None = None,
) -> None:
    """Print as many columns as the terminal has room for, or as fit into `width`, and name those that do not."""
    from rich.table import Table

    console = console or make_console()
    table: Any = Table(box=None, header_style="bold", pad_edge=False, show_header=header)
    width = width or _table_width(console, columns, rows)
    shown = fitting_columns(columns, rows, width)
    for i in shown:
        table.add_column(
            plain(columns[i].name),
            justify="right" if columns[i].right else "left",
            style="dim" if columns[i].kind == "key" else None,
            overflow="fold",
            no_wrap=columns[i].right or (not columns[i].folds and any(columns[j].folds for j in shown)),
        )
    for row in rows:
        table.add_row(*(_markup(row[i]) for i in shown))
    before, console.width = console.width, max(console.width, width)
    console.print(table, width=width)
    console.width = before
    _name_hidden(console, columns, shown)


def _name_hidden(console: Console, columns: Sequence[Column], shown: Sequence[int]) -> None:
    hidden = [column.name for i, column in enumerate(columns) if i not in shown]
    if hidden:
        console.print(f"[dim]Columns hidden for lack of width: {plain(', '.join(hidden))}.{_how_to_see_all()}[/]")


def _how_to_see_all() -> str:
    context = click.get_current_context(silent=True)
    known = context is not None and any("--wide" in parameter.opts for parameter in context.command.params)
    return " --wide shows all." if known else ""


def print_facts(facts: Mapping[str, str], console: Console) -> None:
    """Names and what is said of each, in two columns without a head."""
    print_table(
        [Column("", "key"), Column("", folds=True)], list(facts.items()), console, header=False, width=console.width
    )


class Styled(str):
    """A cell in a style of rich's, such as "red" or "dim"."""

    style: str

    def __new__(cls, text: str, style: str) -> Styled:
        cell = super().__new__(cls, text)
        cell.style = style
        return cell


def _markup(cell: str) -> str:
    return f"[{cell.style}]{plain(cell)}[/]" if isinstance(cell, Styled) else plain(cell)
