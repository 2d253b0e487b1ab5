"""An audit as one page: charts, sortable tables and findings, with nothing fetched from anywhere."""

from __future__ import annotations

from zoolens.base.present.pages import Tile, render
from zoolens.findings.audit.audit_findings import Severity
from zoolens.findings.audit.document import Audit
from zoolens.findings.audit.report.charts import ratio_views, spread_views


def html(audit: Audit) -> str:
    ratios, spreads = ratio_views(audit), spread_views(audit)
    return render(
        "audit.html",
        title="zoolens audit",
        charts=[view.chart for view in (*ratios, *spreads) if view.chart],
        data=audit.as_data(),
        script="audit.js",
        lead=audit.facts.get("summary", ""),
        figures=_tiles(audit),
        ratios=ratios,
        spreads=spreads,
    )


def _tiles(audit: Audit) -> list[Tile]:
    return [
        Tile(str(len(audit.shared)), "shared architectures"),
        Tile(str(len(audit.zoos)), "zoos"),
        Tile(str(sum(row.groups > 1 for row in audit.shared)), "names with several networks"),
        *(Tile(str(audit.count(severity)), severity.label, severity.label) for severity in reversed(Severity)),
    ]
