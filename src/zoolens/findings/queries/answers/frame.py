"""An answer as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zoolens.base.errors import MissingDependency
from zoolens.findings.queries.answers.matches import Match


def frame_of(matches: Sequence[Match], columns: Sequence[str]) -> Any:
    """One row for each match: a column for each figure, its provenance, and its ratio to the reference."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingDependency("Answer.frame", "pandas", "pandas") from error
    return pd.DataFrame([match.record() for match in matches], columns=list(columns))
