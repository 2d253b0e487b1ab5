"""How many disturbed runs measure how far rounding moves a quantity."""

from __future__ import annotations

from typing import Final

RUNS: Final = 4
MORE_RUNS: Final = 16  # before a side is accused of what no semantic explains
