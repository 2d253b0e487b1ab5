"""From a model's name to its entry, its manifest, its files and an open session: one way for every command.

from zoolens.inventory import catalog

entry = catalog.find("demo:lenet-wide")  # `names` says what a name may be
with catalog.open_session(entry, runtime="onnxruntime") as session:
    session.predict({session.inputs[0].name: batch})

The names are imported on first use: who only parses a name loads no runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoolens.base.public.lazy_names import lazy_names

if TYPE_CHECKING:
    from zoolens.inventory.catalog.lookup import find as find
    from zoolens.inventory.catalog.lookup import find_all as find_all
    from zoolens.inventory.catalog.sessions import open_session as open_session

_WHERE = {
    "find": "zoolens.inventory.catalog.lookup:find",
    "find_all": "zoolens.inventory.catalog.lookup:find_all",
    "open_session": "zoolens.inventory.catalog.sessions:open_session",
}

__all__ = [*_WHERE]

if not TYPE_CHECKING:  # a module with a `__getattr__` has every name, to a type checker
    __getattr__, __dir__ = lazy_names(__name__, _WHERE)
