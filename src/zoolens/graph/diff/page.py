"""The diff as one page that needs nothing else: verdict, figures, differences, picture."""

from __future__ import annotations

from typing import Final

from zoolens.graph.diff.phrases import amount
from zoolens.graph.diff.picture import svg
from zoolens.graph.diff.report import Diff
from zoolens.present.pages import Page, Section, page_html
from zoolens.present.tables import Column, Table

_DIFFERENCES: Final = (
    Column("#", "number"), Column("cause", "key"), Column("what differs"), Column("MACs", "number"),
    Column("share", "number"), Column("parameters", "number"),
)  # fmt: skip


def html(diff: Diff) -> str:
    return page_html(diff_page(diff))


def diff_page(diff: Diff) -> Page:
    tables = [_figures(diff)] if diff.same else [_figures(diff), _differences(diff)]
    return Page(
        " and ".join(diff.names),
        verdict=diff.headline,
        good=diff.same,
        sections=(Section(tables=tuple(("", table) for table in tables), drawing=svg(diff, legend=False)),),
    )


def _figures(diff: Diff) -> Table:
    columns = (Column(""), *(Column(name, "number") for name in diff.names), Column("difference", "number"))
    pairs = {
        "multiply-accumulates": (diff.cost_a.macs, diff.cost_b.macs),
        "parameters": (diff.cost_a.parameters, diff.cost_b.parameters),
    }
    rows = tuple((what, a, b, f"{b - a:+,}") for what, (a, b) in pairs.items())
    return Table("figures", columns, rows)


def _differences(diff: Diff) -> Table:
    rows = tuple(
        (
            number,
            difference.cause,
            difference.text,
            amount(difference.macs) if difference.macs else "",
            f"{100 * difference.macs / diff.macs_gap:.1f} %" if diff.macs_gap and difference.macs else "",
            f"{difference.parameters:+,}" if difference.parameters else "",
        )
        for number, difference in enumerate(diff.differences, 1)
    )
    return Table("differences", _DIFFERENCES, rows)
