"""Tables of reports as the API gives them: every cell in the words that a terminal and a page show."""

from __future__ import annotations

from zoolens.base.present.tables import Table
from zoolens.faces.ui.endpoint import MOST_ROWS, Answer, Shown


class WordColumn(Answer):
    title: Shown
    number: bool


class WordTable(Answer):
    """A table whose cells are words."""

    columns: list[WordColumn]
    rows: list[list[Shown]]
    total: int
    """How many rows there are, of which no more than 500 are given."""


def word_table(table: Table) -> WordTable:
    return WordTable(
        columns=[WordColumn(title=column.name, number=column.right) for column in table.columns],
        rows=table.words(MOST_ROWS),
        total=len(table.rows),
    )
