"""Whether two functions do the same: the same instructions of Python, with the same helpers."""

from __future__ import annotations

from types import FunctionType
from typing import Any


def same_code(one: Any, other: Any) -> bool:
    """False also where it is not known. Names of arguments count, places in the source do not."""
    if one is other:
        return True
    if not (isinstance(one, FunctionType) and isinstance(other, FunctionType)):
        return False
    if one.__closure__ or other.__closure__ or _instructions(one) != _instructions(other):
        return False
    names = one.__code__.co_names
    return all(_same_helper(one.__globals__.get(name), other.__globals__.get(name)) for name in names)


def _instructions(function: FunctionType) -> tuple[Any, ...]:
    code = function.__code__
    return (
        code.co_code,
        code.co_names,
        code.co_varnames,
        _constants(function),
        function.__defaults__,
        function.__kwdefaults__,
    )


def _constants(function: FunctionType) -> tuple[Any, ...]:
    """Without what documents the function. 1 and 1.0 are equal and not the same."""
    found = function.__code__.co_consts
    if found and isinstance(function.__doc__, str) and found[0] == function.__doc__:
        found = found[1:]
    return tuple((type(value), value) for value in found)


def _same_helper(one: Any, other: Any) -> bool:
    """A name that is no global one is that of an attribute."""
    return one is other or same_code(one, other)
