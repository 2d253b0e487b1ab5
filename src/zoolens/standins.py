"""A stand-in for a module that takes long to import and of which a library needs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


@contextmanager
def standing_in(name: str, **attributes: Any) -> Iterator[None]:
    """While this is open, whoever imports the module `name` gets one that has these attributes alone; whoever asks it
    for another attribute imports the module itself. Nothing is changed if the module is imported already.

    Other threads see the stand-in as well: use it where they do not need the module.
    """
    if name in sys.modules:
        yield
        return

    def remove() -> None:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]

    def of_module_itself(attribute: str) -> Any:
        if attribute.startswith("__"):  # Python asks every module for these
            raise AttributeError(attribute)
        remove()
        return getattr(import_module(name), attribute)

    stand_in = ModuleType(name)
    vars(stand_in).update(attributes, __getattr__=of_module_itself)
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        remove()
