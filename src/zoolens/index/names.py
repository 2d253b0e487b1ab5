"""By which names a model's content is known: the same file may have been measured under several."""

from __future__ import annotations

from zoolens.store.queries import load_rows
from zoolens.store.schema import aliases
from zoolens.store.store import Store

Names = dict[str, list[str]]


def stored_names(store: Store) -> Names:
    """References by the fingerprint of a model, in the order of their spelling."""
    rows = store.read(lambda connection: load_rows(connection, aliases, aliases.c.kind == "model"))
    found: Names = {}
    for row in sorted(rows, key=lambda row: str(row["name"])):
        found.setdefault(row["fingerprint"], []).append(row["name"])
    return found
