"""One self-contained HTML page: charts, sortable tables and findings, with nothing fetched from anywhere."""

from __future__ import annotations

import json
from importlib import resources

from zoolens.audit.document import Audit


def html(audit: Audit) -> str:
    # "<" cannot end the script element or open a comment once it is written as an escape of JSON.
    data = json.dumps(audit.to_json(), ensure_ascii=False, default=str, allow_nan=False).replace("<", "\\u003c")
    page = _part("audit.html").replace("@@CSS@@", _part("audit.css")).replace("@@JS@@", _part("audit.js"))
    return page.replace("@@DATA@@", data)


def _part(name: str) -> str:
    return resources.files("zoolens.audit.report").joinpath("page", name).read_text(encoding="utf-8")
