"""By which names a model's content is known: the same file may have been measured under several."""

from __future__ import annotations

from zoolens.store.store import Store

Names = dict[str, list[str]]


def stored_names(store: Store) -> Names:
    """References by the fingerprint of a model, in the order of their spelling."""
    names: Names = {}
    for name, model in sorted(store.model_names()):
        names.setdefault(model, []).append(name)
    return names
