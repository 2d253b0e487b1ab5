"""Pages in a notebook: one piece of HTML without a script, which fetches nothing, and the same as plain text.

Charts and drawings are pictures within the HTML. A picture runs nothing and changes no style around it, and it is kept
when a notebook is saved and read where nobody trusts it.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from zoolens.base.present import images
from zoolens.base.present.charts import Chart
from zoolens.base.present.pages import Page, Section, fragment
from zoolens.base.present.tables import Table, cell_words
from zoolens.base.present.text import clean, shareable

MOST_ROWS: Final = 40  # of a table; a notebook is for looking
_TEXT_ROWS: Final = 15
_LONGEST: Final = 60  # characters of a cell in plain text


@dataclass(frozen=True)
class Shown:
    """A page as a notebook shows it; printed elsewhere, it is text."""

    page: Page

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": repr(self)}

    def _repr_html_(self) -> str:
        return fragment("notebook.html", page=self.page, picture=_picture, drawing=_drawing, shortened=_shortened)

    def __repr__(self) -> str:
        return page_text(self.page)


def _picture(chart: Chart) -> Markup:
    """A chart as a picture; a sentence where the library that draws it is not installed."""
    title = shareable(chart.title, 200)
    if not images.can_draw():
        return Markup("<p>{} (charts need the extra <code>{}</code>)</p>").format(title, images.EXTRA)
    return _embedded(images.svg(chart), title)


def _drawing(svg: str) -> Markup:
    return _embedded(svg, "")


def _embedded(svg: str, title: str) -> Markup:
    data = base64.b64encode(svg.encode()).decode()
    return Markup('<img alt="{}" src="data:image/svg+xml;base64,{}">').format(title, data)


def _shortened(table: Table) -> tuple[Table, int]:
    """The first rows of a table, and how many are left out."""
    return Table(table.name, table.columns, table.rows[:MOST_ROWS]), max(len(table.rows) - MOST_ROWS, 0)


# --- as text


def page_text(page: Page) -> str:
    """A page in plain text: what it says and its tables; of charts their titles."""
    lines = [clean(page.title, 200)]
    lines += [shareable(text) for text in (page.verdict, *page.coverage, page.lead) if text]
    lines += [f"{shareable(tile.figure)}: {shareable(tile.caption)}" for tile in page.tiles]
    for section in page.sections:
        lines += ["", *_section_text(section)]
    return "\n".join(lines)


def _section_text(section: Section) -> list[str]:
    lines = [clean(section.title, 200)] if section.title else []
    lines += [shareable(text) for text in (*section.paragraphs, *section.warnings)]
    lines += [f"- {shareable(text)}" for text in section.items]
    lines += [f"[chart: {shareable(chart.title, 200)}]" for chart in section.charts]
    for title, table in section.tables:
        lines += [*([clean(title, 200)] if title else []), *_table_text(table)]
    return lines


def _table_text(table: Table) -> list[str]:
    if not table.rows:
        return []
    columns = [(place, table.columns[place]) for place in table.filled]
    rows = [
        [shareable(cell_words(column, row[place]), _LONGEST) for place, column in columns]
        for row in table.rows[:_TEXT_ROWS]
    ]
    cells = [[clean(column.name, _LONGEST) for _, column in columns], *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = [
        "  ".join(
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, (_, column) in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in cells
    ]
    more = len(table.rows) - len(rows)
    return [*lines, *([f"… and {more:,} more rows"] if more else [])]
