"""From a model's name to its entry, its manifest, its files and an open session: one way for every command.

from zoolens.inventory import catalog

entry = catalog.find("demo:lenet-wide")  # `names` says what a name may be
with catalog.open_session(entry, runtime="onnxruntime") as session:
    session.predict({session.inputs[0].name: batch})

The names are imported on first use: who only parses a name loads no runtime.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoolens.inventory.catalog.lookup import find, find_all
    from zoolens.inventory.catalog.sessions import open_session

__all__ = ["find", "find_all", "open_session"]

_WHERE = {"find": "lookup", "find_all": "lookup", "open_session": "sessions"}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"zoolens.inventory.catalog.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'zoolens.inventory.catalog' has no attribute {name!r}")
