"""Metrics of your own: a plug-in of the group `zoolens.resources` is a function from a row to a figure."""

from __future__ import annotations

from collections.abc import Callable

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import Provenance
from zoolens.findings.index.tables.row_table import RowTable
from zoolens.findings.index.tables.rows import Figure, Row

Resource = Callable[[Row], Figure | float | None]


def installed_resources() -> dict[str, Resource]:
    return {name: plugins.load(plugins.RESOURCES, name) for name in plugins.names(plugins.RESOURCES)}


def with_resources(rows: RowTable, resources: dict[str, Resource] | None = None) -> RowTable:
    """The rows with the figures that plug-ins give them. A name that the store has already stays the store's. A bare
    number is an estimate, worked out from something else; a plug-in that knows better gives a `Figure`."""
    functions = installed_resources() if resources is None else resources
    return rows.with_figures({place: _given(row, functions) for place, row in enumerate(rows)}) if functions else rows


def _given(row: Row, functions: dict[str, Resource]) -> dict[str, Figure]:
    given = {name: _figure(name, function, row) for name, function in functions.items() if name not in row.figures}
    return {name: figure for name, figure in given.items() if figure is not None}


def _figure(name: str, function: Resource, row: Row) -> Figure | None:
    try:
        value = function(row)
        if value is None or isinstance(value, Figure):
            return value
        return Figure(float(value), provenance=Provenance.ESTIMATED, source=name)
    except ZoolensError:
        raise
    except Exception as error:
        raise ZoolensError(
            f"The resource metric plug-in {name!r} failed for {row.ref}: {type(error).__name__}: {error}.",
            hint="Correct it, or remove the package that brings it.",
        ) from error
