"""Placeholders for modules that are slow to import and of which a library needs little."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Final

# An environment variable of processes that do nothing but what we ask of torch.
TORCH_ALONE: Final = "ZOOLENS_TORCH_ALONE"
_MARK: Final = "__dynamo_disable"  # the attribute of a function in which torch keeps what `disable` gave for it


@contextmanager
def standing_in(name: str, **attributes: Any) -> Iterator[None]:
    """While this is open, whoever imports the module `name` gets one that has these attributes alone; whoever asks it
    for another attribute imports the module itself. Nothing is changed if the module is imported already.

    Other threads see the placeholder as well: use it where they do not need the module.
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


@contextmanager
def without_torch_compiler() -> Iterator[None]:
    """Let torch do without its compiler, in a process that we have alone, while nothing is compiled.

    Optimizers, dispatch modes and networks without numbers would import it, which takes nearly as long as importing
    torch, only to tell it which of their functions it must leave alone.
    """
    if not os.environ.get(TORCH_ALONE):
        yield
        return
    left_alone: list[Callable[..., Any]] = []

    def disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        left_alone.append(function)
        return function

    try:
        with standing_in("torch._dynamo", disable=disable, graph_break=lambda: None):
            yield
    finally:
        for function in left_alone:  # something later may be compiled
            vars(function).pop(_MARK, None)
