"""Rows of measured models, kept from one query to the next: a row is worked out again when one of its runs changed.

What a row is made of: the runs of one model in one stack, the names of the model, the structure that belongs to it.
The file has a matrix of numbers, then a line for each row: what is always looked at, a tab, and its figures.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoolens.index.derived import read_derived, write_derived
from zoolens.index.figurematrix import KeptFigures, figures_text, matrix_of, unpacked
from zoolens.index.rows import Row

Group = tuple[str, str]  # fingerprints of a model and a stack


@dataclass(frozen=True)
class KeptRow:
    """`probe`: the run whose answers to the probes the row has. `structure`: the run of its structure.
    `architectures`: what structures it may have. `fleeting`: it depends on a file besides the store, so
    that it is not kept."""

    group: Group
    probe: str | None
    structure: str | None
    architectures: tuple[str, ...]
    row: Row
    fleeting: bool = False


def read_rows(path: Path, about: str) -> tuple[int, dict[Group, KeptRow]]:
    """The rows of a file, and the last change of the store that they know of. `about`: what else rows depend on."""
    kept = read_derived(path, about)
    if not kept.lines:
        return kept.mark, {}
    matrix = unpacked(base64.b64decode(kept.lines[0]))
    rows: dict[Group, KeptRow] = {}
    for column, line in enumerate(kept.lines[1:]):
        head, _, figures = line.partition("\t")
        model, stack, probe, structure, architectures, key, content, ref, attributes, signature = json.loads(head)
        row = Row(key, content, ref, attributes, KeptFigures(figures, matrix, column), signature)
        rows[model, stack] = KeptRow((model, stack), probe, structure, tuple(architectures), row)
    return kept.mark, rows


def write_rows(path: Path, about: str, mark: int, rows: Sequence[KeptRow]) -> None:
    matrix = matrix_of([kept.row.figures for kept in rows])
    lines = [base64.b64encode(matrix.packed()).decode(), *map(_line, rows)]
    write_derived(path, mark, lines, about)


def _line(kept: KeptRow) -> str:
    row = kept.row
    head = [*kept.group, kept.probe, kept.structure, kept.architectures, row.key, row.model, row.ref]
    return f"{json.dumps([*head, dict(row.attributes), row.signature])}\t{figures_text(row.figures)}"


def still_true(
    rows: dict[Group, KeptRow], models: set[str], structures: set[str], refs: set[str]
) -> Iterator[tuple[Group, KeptRow]]:
    """Those that nothing new is known of: neither of their model, nor of a structure that may be theirs."""
    for group, kept in rows.items():
        if group[0] in models or kept.row.ref in refs or not structures.isdisjoint(kept.architectures):
            continue
        yield group, kept
