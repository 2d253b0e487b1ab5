"""How figures read in the report."""

from __future__ import annotations

from typing import Any

import numpy as np

NOTHING = "–"


def short(value: float) -> str:
    """A number on an axis or a hyperparameter in a table: 0.05, 1e-8, 512."""
    if value == 0:
        return "0"
    if abs(value) >= 1e5 or abs(value) < 1e-3:
        digits, power = f"{value:.2e}".split("e")
        digits = digits.rstrip("0").rstrip(".")
        return f"{digits}e{int(power)}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def percent(value: float | None, digits: int = 2) -> str:
    return NOTHING if value is None or not np.isfinite(value) else f"{100 * value:.{digits}f} %"


def nats(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def p_value(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1g}"


def cell(value: Any) -> str:
    """Any value that has no words of its own."""
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return NOTHING
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else short(value)
