"""By which names a model's content is known: the same file may have been measured under several."""

from __future__ import annotations

from sqlalchemy import select

from zoolens.store.retry import patience, with_patience
from zoolens.store.schema import aliases
from zoolens.store.store import Store

Names = dict[str, list[str]]


def stored_names(store: Store) -> Names:
    """References by the fingerprint of a model, in the order of their spelling."""
    query = select(aliases.c.fingerprint, aliases.c.name).where(aliases.c.kind == "model").order_by(aliases.c.name)

    def read() -> Names:
        found: Names = {}
        with store.engine.connect() as connection:
            for row in connection.execute(query):
                found.setdefault(row.fingerprint, []).append(row.name)
        return found

    return with_patience(read, store.name, patience())
