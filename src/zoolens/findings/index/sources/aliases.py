"""The references under which the same model content was measured: one file may have several names."""

from __future__ import annotations

from zoolens.base.store.store import Store

Aliases = dict[str, list[str]]


def stored_aliases(store: Store) -> Aliases:
    """References by the fingerprint of a model, in the order of their spelling."""
    names: Aliases = {}
    for name, model in sorted(store.model_names()):
        names.setdefault(model, []).append(name)
    return names
