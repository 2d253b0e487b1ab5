"""The same facts as CSV files, one per table, for spreadsheets and data frames."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from zoolens.audit.document import ArchitectureRow, Audit, Conformance, Judged, Network, ZooRank
from zoolens.store.spreadsheets import spreadsheet_cell

Table = tuple[list[str], list[list[Any]]]


def write_csv(audit: Audit, folder: Path) -> list[Path]:
    """Write every table into the folder, made where it is absent; files of the same name are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, (columns, rows) in tables(audit):
        path = folder / f"{name}.csv"
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            writer.writerows([[spreadsheet_cell(cell) for cell in row] for row in rows])
        written.append(path)
    return written


def tables(audit: Audit) -> Iterator[tuple[str, Table]]:
    yield "architectures", _architectures(audit.architectures)
    networks = [network for row in audit.architectures for network in row.networks]
    yield "networks", _rows(Network, networks)
    yield "causes", _causes(audit)
    yield "findings", _findings(audit)
    yield "ranks", _rows(ZooRank, audit.ranks)
    yield "conformance", _rows(Conformance, audit.conformance)
    yield "judged", _rows(Judged, audit.judged)


def _architectures(rows: Sequence[ArchitectureRow]) -> Table:
    columns, cells = _rows(ArchitectureRow, rows)
    place = columns.index("networks")
    columns[place] = "zoos"
    for row, source in zip(cells, rows, strict=True):
        row[place] = " ".join(sorted({network.zoo for network in source.networks}))
    return columns, cells


def _causes(audit: Audit) -> Table:
    columns = ["severity", "rule", "family", "zoos", "architectures", "findings", "title", "gap"]
    return columns, [[_flat(cause.to_json()[column]) for column in columns] for cause in audit.causes]


def _findings(audit: Audit) -> Table:
    columns = ["id", "rule", "severity", "architecture", "models", "title", "evidence", "fix"]
    return columns, [[_flat(found.to_json()[column]) for column in columns] for found in audit.findings]


def _rows(kind: type, rows: Sequence[Any]) -> Table:
    columns = [field.name for field in fields(kind)]
    return columns, [[_flat(asdict(row)[column]) for column in columns] for row in rows]


def _flat(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return "; ".join(str(one) for one in value)
    return value
