"""The page above the reports of several studies: what each is, how far its sides are apart, and where its report is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from zoolens.crosstrain.analysis.tables import apart, deltas, summarise
from zoolens.crosstrain.report.page import document, safe
from zoolens.crosstrain.report.words import percent
from zoolens.crosstrain.study import Study

_HEADINGS: Final = ("study", "sides", "trials", "Δ ≥ 5 %", "median Δ", "largest Δ", "source")


def write_overview(reports: Mapping[str, Study], folder: Path) -> Path:
    """`reports`: the studies by the folder of their report, which lies in `folder`."""
    rows = "".join(_row(place, study) for place, study in reports.items())
    heads = "".join(f'<th class="{_side(place)}">{safe(name)}</th>' for place, name in enumerate(_HEADINGS))
    table = f'<div class="table"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    lead = f"<p>{len(reports)} studies. Δ is the absolute difference of test accuracy between two sides of a trial.</p>"
    path = folder / "index.html"
    body = f"<header><h1>Crosstrain studies</h1>{lead}</header><main>{table}</main>"
    path.write_text(document("Crosstrain studies", body), encoding="utf-8", errors="replace")
    return path


def _row(place: str, study: Study) -> str:
    found, share = summarise("delta", deltas(study)), apart([study])
    cells: Sequence[str] = (
        f'<a href="{escape(place)}/index.html">{safe(study.name, 120)}</a>',
        safe(", ".join(study.frameworks)),
        f"{len(study.trials):,}",
        f"{share.count:,} of {share.total:,}" if share.total else "–",
        "–" if found.median is None else percent(found.median),
        "–" if found.maximum is None else percent(found.maximum),
        safe(study.details.get("source", "")),
    )
    shown = "".join(f'<td class="{_side(at)}">{cell}</td>' for at, cell in enumerate(cells))
    return f"<tr>{shown}</tr>"


def _side(place: int) -> str:
    return "number" if 2 <= place <= 5 else "text"
