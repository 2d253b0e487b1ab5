"""Cells of CSV files that a spreadsheet may open: names in them are untrusted and must not be evaluated as formulas."""

from __future__ import annotations

import re
from typing import Any, Final

# How a spreadsheet's formula begins; the wide forms count in some languages.
_FORMULA: Final = re.compile(r"[\s\0]*[=+\-@\t\r＝＋－＠]")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?%?|[+-]?(inf|nan)")


def spreadsheet_cell(cell: Any) -> Any:
    """The cell, with an apostrophe before a text that a spreadsheet would take for a formula. Numbers stay numbers."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
