"""The page above the reports of several studies: what each is, how far its sides are apart, and where its report is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from zoolens.base.present.pages import Page, Section, page_html
from zoolens.base.present.tables import Column, Link, Table
from zoolens.training.crosstrain.study.analysis.analysis_tables import apart, deltas, summarise
from zoolens.training.crosstrain.training.trials import Study

_COLUMNS: Final = (
    Column("study", "link"), Column("sides"), Column("trials", "number"), Column("Δ ≥ 5 %", "number"),
    Column("median Δ", "percent"), Column("largest Δ", "percent"), Column("source"),
)  # fmt: skip


def write_overview(reports: Mapping[str, Study], folder: Path) -> Path:
    """`reports`: the studies by the folder of their report, which lies in `folder`."""
    table = Table("studies", _COLUMNS, tuple(_row(place, study) for place, study in reports.items()))
    lead = f"{len(reports)} studies. Δ is the absolute difference of test accuracy between two sides of a trial."
    path = folder / "index.html"
    page = Page("Crosstrain studies", lead, sections=(Section(tables=(("", table),)),))
    path.write_text(page_html(page), encoding="utf-8", errors="replace")
    return path


def _row(place: str, study: Study) -> tuple[Any, ...]:
    summary, share = summarise("delta", deltas(study)), apart([study])
    return (
        Link(study.name, f"{place}/index.html"),
        ", ".join(study.frameworks),
        study.trial_count,
        f"{share.count:,} of {share.total:,}" if share.total else None,
        summary.median,
        summary.maximum,
        study.source,
    )
