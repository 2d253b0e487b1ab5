"""Attributes of rows, arranged so that a condition is decided once for each value and not once for each row."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from zoolens.index.coded import Coded
from zoolens.index.rowtable import RowTable

# What may be asked of any model, even where no row of this index tells: `license IS KNOWN` is no typing mistake.
COMMON: Final = frozenset({
    "zoo", "name", "version", "ref", "format", "task", "runtime", "runtime_version", "device", "precision", "threads",
    "element_type", "license", "framework", "dataset", "description", "twin_of", "donor",
})  # fmt: skip


class Attributes:
    """Columns of attributes; names in any case. `ref` is an attribute like the others."""

    def __init__(self, rows: RowTable) -> None:
        self._rows = rows

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset({"ref", *self._rows.attributes})

    @cached_property
    def _spelled(self) -> dict[str, str]:
        return {name.casefold(): name for name in sorted(self.names)}

    def __contains__(self, name: str) -> bool:
        return name in self.names or name.casefold() in self._spelled

    def column(self, name: str) -> Coded:
        spelled = name if name in self.names else self._spelled.get(name.casefold(), name)
        return self._rows.columns["ref"] if spelled == "ref" else self._rows.attribute(spelled)
