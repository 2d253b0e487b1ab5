"""The facts of an audit as tables, one for each CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from zoolens.base.present import tables as present
from zoolens.base.present.tables import Column, Table
from zoolens.findings.audit.document import ArchitectureRow, Audit, AuditedNetwork, Conformance, JudgedClaim, ZooRank

_CAUSE = ("severity", "rule", "family", "zoos", "architectures", "findings", "title", "gap")
_FINDING = ("id", "rule", "severity", "architecture", "models", "title", "evidence", "fix")


def write_csv(audit: Audit, folder: Path) -> list[Path]:
    """Write every table into the folder, made where it is absent; files of the same name are replaced."""
    return present.write_csv(tables(audit), folder)


def tables(audit: Audit) -> Iterator[Table]:
    yield _architectures(audit.architectures)
    networks = [network for row in audit.architectures for network in row.networks]
    yield _table("networks", _names(AuditedNetwork), [asdict(network) for network in networks])
    yield _table("causes", _CAUSE, [cause.as_data() for cause in audit.causes])
    yield _table("findings", _FINDING, [finding.as_data() for finding in audit.findings])
    yield _table("ranks", _names(ZooRank), [asdict(rank) for rank in audit.ranks])
    yield _table("conformance", _names(Conformance), [asdict(network) for network in audit.conformance])
    yield _table("judged", _names(JudgedClaim), [asdict(claim) for claim in audit.judged])


def _architectures(rows: Sequence[ArchitectureRow]) -> Table:
    """A table of architectures, which shows the zoos of their networks in place of the networks."""
    names = ["zoos" if name == "networks" else name for name in _names(ArchitectureRow)]
    zoos = [" ".join(sorted({network.zoo for network in row.networks})) for row in rows]
    return _table("architectures", names, [asdict(row) | {"zoos": of} for row, of in zip(rows, zoos, strict=True)])


def _names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


def _table(name: str, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> Table:
    cells = tuple(tuple(_flat(row[column]) for column in columns) for row in rows)
    return Table(name, tuple(map(Column, columns)), cells)


def _flat(value: Any) -> Any:
    return "; ".join(map(str, value)) if isinstance(value, list | tuple) else value
