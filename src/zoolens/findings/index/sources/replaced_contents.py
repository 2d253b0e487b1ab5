"""Rows of contents that were replaced under their name: they are no candidates, and that is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.store.store import Store
from zoolens.findings.comparisons.contents import content_of, replaced_contents
from zoolens.findings.index.tables.row_table import RowTable
from zoolens.findings.index.tables.rows import Row

_TOLD: Final = 3  # names with a note of their own


def current_rows(store: Store, rows: RowTable) -> tuple[NDArray[np.bool_], list[str]]:
    """Which rows are of contents that count, and notes about those that are not."""
    disputed = [rows[place] for place in _disputed(rows)]
    runs = {run.id: run for run in store.runs_of([row.key for row in disputed], stages=False)}
    flags = replaced_contents([replace(content_of(runs[row.key]), ref=row.ref) for row in disputed])
    replaced = [row for row, gone in zip(disputed, flags, strict=True) if gone]
    return ~rows.columns["key"].rows_among([row.key for row in replaced]), _notes(replaced)


def _disputed(rows: RowTable) -> list[int]:
    """Measured rows under whose name, in one format and one folder, there are several contents. Trainings of one
    recipe share a name, and none replaces another."""
    places = zip(
        rows.columns["ref"].codes.tolist(), rows.attribute("format").codes.tolist(),
        rows.attribute("folder").codes.tolist(), strict=True,
    )  # fmt: skip
    by_place: dict[tuple[int, ...], list[int]] = {}
    evaluated = (rows.attribute("runtime").codes >= 0) & (rows.attribute("training").codes < 0)
    for number, (place, ran) in enumerate(zip(places, evaluated.tolist(), strict=True)):
        if ran:
            by_place.setdefault(place, []).append(number)
    contents = rows.columns["model"].codes
    return [row for members in by_place.values() if len(set(contents[members].tolist())) > 1 for row in members]


def _notes(replaced: Sequence[Row]) -> list[str]:
    by_name: dict[str, list[str]] = {}
    for row in replaced:
        by_name.setdefault(row.ref, []).append(row.key[:8])
    if len(by_name) > _TOLD:
        return [f"{len(replaced):,} runs of {len(by_name):,} models are left out: their file or manifest was replaced."]
    return [
        f"{ref} was replaced: what was measured before ({_some(runs)}) is left out." for ref, runs in by_name.items()
    ]


def _some(runs: Sequence[str]) -> str:
    return ", ".join([*runs[:_TOLD], *(["…"] if len(runs) > _TOLD else [])])
