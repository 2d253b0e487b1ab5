"""Whether a value is of the type that a function's annotation names, and both in words.

No library is used: pydantic's `validate_call` and typeguard need annotations that can be evaluated, and ours name types
that are imported for type checkers only, so that a call does not load what it does not use.
"""

from __future__ import annotations

import ast
import collections.abc
import inspect
import numbers
import os
import reprlib
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

# What an annotation evaluates to: a class, a union, `Sequence[str]`, `Literal[...]`. typing has no type for these.
Annotation: TypeAlias = Any

# What else than the class itself is taken where it is named: numpy's numbers, and paths of other libraries.
_ABSTRACT: Final[Mapping[object, type]] = {int: numbers.Integral, float: numbers.Real, Path: os.PathLike}
_NUMBERS: Final = (int, float)


# --- annotations of a function


@cache
def argument_types(function: Callable[..., object]) -> Mapping[str, Annotation]:
    """Returns the types of a function's arguments. Those that cannot be resolved are left out, and not checked."""
    function = inspect.unwrap(function)
    module = sys.modules[function.__module__]
    names = {**_imported_for_types(module), **vars(module)}
    found: dict[str, Annotation] = {}
    for argument, annotation in inspect.get_annotations(function).items():
        holder = types.SimpleNamespace(__annotations__={argument: annotation})
        try:
            found.update(typing.get_type_hints(holder, names))
        except (NameError, AttributeError, TypeError):
            continue
    found.pop("return", None)
    return found


def _imported_for_types(module: types.ModuleType) -> dict[str, object]:
    """Returns what a module imports under `if TYPE_CHECKING`."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except OSError:  # an installation without sources
        return {}
    guards = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    statements = [inner for guard in guards for inner in guard.body if isinstance(inner, ast.ImportFrom)]
    found: dict[str, object] = {}
    for statement in statements:
        # Types of libraries are not looked for: torch takes seconds to import.
        if (statement.module or "").startswith("zoolens"):
            source = import_module(statement.module or "")
            found |= {alias.asname or alias.name: getattr(source, alias.name) for alias in statement.names}
    return found


# --- values


def _origin(kind: Annotation) -> Annotation:
    return typing.get_origin(kind)


def accepted(value: object, kind: Annotation) -> bool:
    """Tells whether a value is of a type. A type that this module does not know takes every value."""
    if kind is Any:
        return True
    if kind is None or kind is type(None):
        return value is None
    origin = _origin(kind)
    if origin is typing.Literal:
        # Not `in`: an array compared with a text has no truth value.
        return any(isinstance(value, type(one)) and value == one for one in typing.get_args(kind))
    if origin in (typing.Union, types.UnionType):
        return any(accepted(value, one) for one in typing.get_args(kind))
    if isinstance(origin, type):
        return _accepted_parts(value, origin, typing.get_args(kind))
    return _is_instance(value, kind) if isinstance(kind, type) else True


def _is_instance(value: object, kind: type) -> bool:
    if isinstance(value, bool) and kind in _NUMBERS:
        # Python counts True as 1; a limit of True is a mistake.
        return False
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(value, name) for name in _members(kind))
    return isinstance(value, _ABSTRACT.get(kind, kind))


def _members(protocol: type) -> Iterator[str]:
    return (name for one in protocol.__mro__[:-1] for name in vars(one) if not name.startswith("_"))


def _accepted_parts(value: object, origin: type, parts: tuple[Annotation, ...]) -> bool:
    """Tells whether a value is a collection (or callable) of this kind, and all that it holds is of the types named."""
    # A text is a sequence of texts to Python, and "demo:lenet" as nine models to nobody.
    if not isinstance(value, origin) or isinstance(value, str | bytes):
        return False
    if issubclass(origin, Mapping) and isinstance(value, Mapping):
        keys, values = parts
        return all(accepted(key, keys) and accepted(one, values) for key, one in value.items())
    if origin is tuple and isinstance(value, tuple) and Ellipsis not in parts:
        return len(value) == len(parts) and all(map(accepted, value, parts))
    # What can be read only once is left to the function.
    if issubclass(origin, Iterable) and isinstance(value, Collection):
        return all(accepted(one, parts[0]) for one in value)
    return True


# --- words


def type_words(kind: Annotation) -> str:
    """Returns the values that a type takes, as a sentence lists them: "str, Path or a sequence of str"."""
    # Single values first, None last: "str, Path, a sequence of str or None".
    ordered = sorted(_options(kind), key=lambda one: (one is type(None), _origin(one) is not None))
    options = list(dict.fromkeys(_option_words(one) for one in ordered))
    return " or ".join(part for part in (", ".join(options[:-1]), options[-1]) if part)


def _options(kind: Annotation) -> Iterator[Annotation]:
    if _origin(kind) in (typing.Union, types.UnionType):
        for one in typing.get_args(kind):
            yield from _options(one)
    else:
        yield kind


def _option_words(kind: Annotation) -> str:
    origin, parts = _origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return " or ".join(map(repr, parts))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of {type_words(parts[0])} to {type_words(parts[1])}"
    if origin is tuple and Ellipsis not in parts:
        return f"a tuple of {len(parts)} ({', '.join(map(type_words, parts))})"
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return f"a {origin.__name__.lower()} of {type_words(parts[0])}"
    if origin is collections.abc.Callable:
        return "a function"
    if kind is type(None):
        return "None"
    return str(getattr(kind, "__name__", kind))


def value_words(value: object) -> str:
    """Returns a value and its type, short enough for a sentence."""
    if value is None:
        return "None"
    return f"{_shortener.repr(value)}, of type {type(value).__name__}"


_shortener: Final = reprlib.Repr()
_shortener.maxstring = _shortener.maxother = 60
