"""The names of a package, imported on first use, so that `import zoolens` costs nothing.

A type checker reads the imports under `if TYPE_CHECKING` of the package; a table says the same at run time. A test
compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType

Getter = Callable[[str], object]
Lister = Callable[[], list[str]]


def lazy_names(package: str, where: Mapping[str, str]) -> tuple[Getter, Lister]:
    """Returns the `__getattr__` and `__dir__` of a package.

    `where`: for each name "module:name there", or a module alone, where the name is that of a module.
    """

    def getter(name: str) -> object:
        if name not in where:
            # With `obj`, Python itself adds "Did you mean …?" from `dir`.
            found = sys.modules[package]
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=found)
        module, _, attribute = where[name].partition(":")
        value: object = import_module(module)
        return getattr(value, attribute) if attribute else value

    def lister() -> list[str]:
        # Neither what the package imports for itself nor its rooms: both would stand between the names on offer.
        own = {name for name in vars(sys.modules[package]) if name.startswith("__")}
        return sorted(own | where.keys())

    return getter, lister


def public_names(package: str, where: Mapping[str, str]) -> tuple[Getter, Lister]:
    """Returns `__getattr__` and `__dir__` of a package for users: its functions check what they are given, and show how
    far they are."""
    found, lister = lazy_names(package, where)

    def getter(name: str) -> object:
        value = found(name)
        if isinstance(value, FunctionType):
            from zoolens.base.public.calls import public_call

            value = public_call(value, package, name)
        # Kept, so that a name is the same object each time: pickle refuses a function that is another under its name.
        vars(sys.modules[package])[name] = value
        return value

    return getter, lister
