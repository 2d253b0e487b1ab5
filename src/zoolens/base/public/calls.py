"""A public function as users call it: its arguments are checked first, and long work is shown."""

from __future__ import annotations

import errno
import functools
import inspect
import numbers
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import ParamSpec, TypeVar

from zoolens.base.errors import WrongArgument, close_names
from zoolens.base.progress import Silent
from zoolens.base.public.argument_types import accepted, argument_types, type_words, value_words
from zoolens.base.public.watching import watched

P = ParamSpec("P")
R = TypeVar("R")

_PROGRESS = "progress"  # how every function calls the argument that is told how far it is


def public_call(function: Callable[P, R], package: str, name: str) -> Callable[P, R]:
    """Returns the function as users call it. Calls inside the house reach the function itself."""
    signature = inspect.signature(function)
    shown_name = f"{package.rpartition('.')[2]}.{name}"

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = _bound(signature, shown_name, args, kwargs)
        _check(function, shown_name, given)
        given.arguments.update({name: _plain_number(value) for name, value in given.arguments.items()})
        with long_names_refused(shown_name):
            if not _tells_progress(function) or given.arguments.get(_PROGRESS) is not None:
                return function(*given.args, **given.kwargs)
            with watched() or nullcontext() as bars:
                # Not kwargs[_PROGRESS]: a None that was passed by position would then be given twice.
                given.arguments[_PROGRESS] = bars
                return function(*given.args, **given.kwargs)

    # What pickle writes down: the name under which this very object is found again.
    call.__module__, call.__qualname__, call.__name__ = package, name, name
    return call


def same_parameters(model: Callable[P, object]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Returns a decorator for a function that passes all it is given to `model`: both have the same signature."""

    def decorate(function: Callable[..., R]) -> Callable[P, R]:
        signature = inspect.signature(model)
        own = inspect.signature(function)
        function.__signature__ = signature.replace(return_annotation=own.return_annotation)  # type: ignore[attr-defined]
        function.__wrapped__ = model  # type: ignore[attr-defined]  # whose annotations arguments are checked against
        return function

    return decorate


def _bound(
    signature: inspect.Signature, name: str, args: tuple[object, ...], kwargs: dict[str, object]
) -> inspect.BoundArguments:
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise WrongArgument(f"{name}: {error}.", hint=_hint(signature, kwargs)) from None


def _hint(signature: inspect.Signature, given: Iterable[str]) -> str:
    """Returns the argument that a mistyped one may mean, or all that there are."""
    known = list(signature.parameters)
    missing = [one for one in given if one not in known]
    close = close_names(missing[0], known) if missing else []
    if close:
        return f"Did you mean {' or '.join(close)}?"
    return f"It takes {', '.join(known)}." if known else "It takes no arguments."


def _tells_progress(function: Callable[..., object]) -> bool:
    """Whether a function takes a `Progress`; under the same name another may take a function to call."""
    expected = argument_types(function).get(_PROGRESS)
    return expected is not None and accepted(Silent(), expected)


def _check(function: Callable[..., object], name: str, given: inspect.BoundArguments) -> None:
    types = argument_types(function)
    for argument, value in given.arguments.items():
        kind = given.signature.parameters[argument].kind
        if argument not in types or kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            continue
        expected = types[argument]
        if not accepted(value, expected):
            raise WrongArgument(f"{name}: {argument} must be {type_words(expected)}; got {value_words(value)}.")
        if isinstance(value, str) and not _is_plain(value):
            raise WrongArgument(f"{name}: {argument} has characters that no name can have; got {value_words(value)}.")


def _plain_number(value: object) -> object:
    """Returns numpy's numbers as Python's, which functions ask for with `isinstance`; all else as it is."""
    if isinstance(value, int | float):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def _is_plain(text: str) -> bool:
    """Tells whether a text can be written: neither files nor databases take null characters and lone surrogates."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


@contextmanager
def long_names_refused(name: str) -> Iterator[None]:
    """Raises a sentence for a text that was looked for as a file and is too long for one, such as a whole manifest."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise WrongArgument(f"{name}: {value_words(error.filename)}, is too long for the name of a file.") from error
