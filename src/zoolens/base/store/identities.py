"""What environments are, by their fingerprints: the identities of stacks, without the runs that ran in them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection

from zoolens.base.store.checksums import check_row
from zoolens.base.store.queries import in_chunks
from zoolens.base.store.schema import stacks
from zoolens.base.store.statements import everything
from zoolens.base.store.store import Store


def stack_identities(store: Store, fingerprints: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """The identities of these stacks; one that the store does not have is absent."""

    def load(connection: Connection) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for some in in_chunks(fingerprints):
            for row in connection.execute(everything(stacks).where(stacks.c.fingerprint.in_(some))):
                check_row(stacks.name, row)
                found[row.fingerprint] = json.loads(row.identity)
        return found

    return store.read(load)
