"""The diff as one page that needs nothing else: verdict, figures, differences, picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zoolens.base.present.pages import Page, Section, page_html
from zoolens.base.present.tables import Column, Table
from zoolens.base.verdicts import at_least
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.diff.phrases import amount
from zoolens.findings.graph.diff.picture import svg
from zoolens.findings.graph.diff.report import Diff

_DIFFERENCES: Final = (
    Column("#", "number"), Column("cause", "key"), Column("what differs"), Column("MACs", "number"),
    Column("share", "number"), Column("parameters", "number"),
)  # fmt: skip


def html(diff: Diff) -> str:
    return page_html(diff_page(diff))


def diff_page(diff: Diff) -> Page:
    tables = [("", _figures(diff))]
    if diff.differences:
        tables.append(("", _differences(diff, diff.differences)))
    if diff.unproved:
        tables.append(("Not proved, beside operators that are not understood", _differences(diff, diff.unproved)))
    return Page(
        " and ".join(diff.names),
        verdict=diff.headline,
        judged=diff.decision,
        sections=(Section(tables=tuple(tables), drawing=svg(diff, legend=False)),),
    )


def _figures(diff: Diff) -> Table:
    columns = (Column(""), *(Column(name, "number") for name in diff.names), Column("difference", "number"))
    macs = (diff.cost_a.macs, diff.cost_b.macs)
    parameters = (diff.cost_a.parameters, diff.cost_b.parameters)
    macs_whole = diff.cost_a.macs_whole, diff.cost_b.macs_whole
    parameters_whole = diff.cost_a.parameters_whole, diff.cost_b.parameters_whole
    rows = _row("multiply-accumulates", macs, macs_whole), _row("parameters", parameters, parameters_whole)
    return Table("figures", columns, rows)


def _row(what: str, counts: tuple[int, int], whole: tuple[bool, bool]) -> tuple[str, ...]:
    """Totals, or what is at least counted; the difference of two lower bounds says nothing."""
    of_a = at_least(f"{counts[0]:,}", whole=whole[0])
    of_b = at_least(f"{counts[1]:,}", whole=whole[1])
    gap = f"{counts[1] - counts[0]:+,}" if all(whole) else "not known"
    return what, of_a, of_b, gap


def _differences(diff: Diff, differences: Sequence[Difference]) -> Table:
    rows = tuple(
        (
            number,
            difference.cause,
            difference.text,
            amount(difference.macs) if difference.macs else "",
            f"{100 * difference.macs / diff.macs_gap:.1f} %" if diff.has_shares and difference.macs else "",
            f"{difference.parameters:+,}" if difference.parameters else "",
        )
        for number, difference in enumerate(differences, 1)
    )
    return Table("differences", _DIFFERENCES, rows)
