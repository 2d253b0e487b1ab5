"""Rows of measured models, kept from one query to the next: a row is worked out again when one of its runs changed.

What a row is made of: the runs of one model in one stack, the names of the model, the structure that belongs to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoolens.index.derived import read_derived, write_derived
from zoolens.index.rows import Figure, Row
from zoolens.store.records import Provenance

Group = tuple[str, str]  # fingerprints of a model and a stack


@dataclass(frozen=True)
class KeptRow:
    """`probe`: the run whose answers to the probes the row has. `architectures`: what structures it may have. `line`:
    as it stands in the file, where it was read from there."""

    group: Group
    probe: str | None
    architectures: tuple[str, ...]
    row: Row
    line: str | None = None


def read_rows(path: Path, about: str) -> tuple[int, dict[Group, KeptRow]]:
    """The rows of a file, and the last change of the store that they know of. `about`: what else rows depend on."""
    kept = read_derived(path, about)
    rows = map(_parsed, kept.lines)
    return kept.mark, {row.group: row for row in rows}


def write_rows(path: Path, about: str, mark: int, rows: Iterable[KeptRow]) -> None:
    write_derived(path, mark, (kept.line or _text(kept) for kept in rows), about)


def still_true(
    rows: dict[Group, KeptRow], models: set[str], structures: set[str], refs: set[str]
) -> Iterator[tuple[Group, KeptRow]]:
    """Those that nothing new is known of: neither of their model, nor of a structure that may be theirs."""
    for group, kept in rows.items():
        if group[0] in models or kept.row.ref in refs or not structures.isdisjoint(kept.architectures):
            continue
        yield group, kept


def _text(kept: KeptRow) -> str:
    row = kept.row
    figures = {name: _told(figure) for name, figure in row.figures.items()}
    told = [*kept.group, kept.probe, kept.architectures, row.key, row.model, row.ref, dict(row.attributes), figures]
    return json.dumps([*told, row.signature])


def _parsed(line: str) -> KeptRow:
    model, stack, probe, architectures, key, content, ref, attributes, figures, signature = json.loads(line)
    row = Row(key, content, ref, attributes, {name: _figure(told) for name, told in figures.items()}, signature)
    return KeptRow((model, stack), probe, tuple(architectures), row, line)


def _told(figure: Figure) -> list[Any]:
    interval = [figure.low, figure.high, figure.error]
    return [figure.value, figure.unit, str(figure.provenance), *interval, figure.source]


def _figure(told: list[Any]) -> Figure:
    value, unit, provenance, low, high, error, source = told
    return Figure(value, unit, _PROVENANCE[provenance], low, high, error, source)


_PROVENANCE = {str(one): one for one in Provenance}
