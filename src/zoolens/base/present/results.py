"""What public functions return, as people meet it: one line in a terminal, a page in a notebook, a table in pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import fields, is_dataclass
from enum import Enum
from numbers import Number
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import MissingDependency, ZoolensError
from zoolens.base.present.display_hook import result_html

LONGEST: Final = 200  # characters of a result in a terminal; that of a report was 24,000
_LONGEST_VALUE: Final = 40


class Result:
    """Base of dataclasses that public functions return; give them `repr=False`."""

    def __repr__(self) -> str:
        parts = [_field_words(name, value) for name, value in _shown_fields(self)]
        return _cut(f"{type(self).__name__}({', '.join(filter(None, parts))})", LONGEST)

    def _repr_html_(self) -> str | None:
        """Returns a page for a notebook; None where there is none for this kind of result, and its text is shown."""
        try:
            return result_html(self)
        except ZoolensError:
            return None


def frame(rows: Iterable[Mapping[str, object]], asked_by: str) -> Any:
    """Returns a pandas DataFrame of these rows; a ZoolensError where pandas is not installed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingDependency(asked_by, "pandas", "pandas") from error
    return pd.DataFrame(list(rows))


# --- one line


def _shown_fields(result: Result) -> Iterable[tuple[str, object]]:
    assert is_dataclass(result)
    return [(field.name, getattr(result, field.name)) for field in fields(result) if field.repr]


def _field_words(name: str, value: object) -> str:
    """Returns a field as "name=value", with the number of items of what is long; nothing for what is empty."""
    is_empty = isinstance(value, Sized) and not is_dataclass(value) and not len(value)
    if value is None or value is False or is_empty:
        return ""
    return f"{name}={_value_words(value)}"


def _value_words(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str):
        return _cut(repr(value), _LONGEST_VALUE)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Number | Path):
        return str(value)
    if _has_long_repr(value):
        return f"{type(value).__name__}(…)"
    if is_dataclass(value) or not isinstance(value, Sized):
        return _cut(repr(value), _LONGEST_VALUE)
    return _collection_words(value)


def _has_long_repr(value: object) -> bool:
    """Tells whether a value is a dataclass that prints all its fields, and all of theirs. It may be megabytes."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.repr)


def _collection_words(value: Sized) -> str:
    """Returns a few short texts and numbers as they are, and of all else how many there are."""
    if hasattr(value, "shape"):
        return f"<{'×'.join(map(str, value.shape))}>"
    if isinstance(value, Sequence) and all(isinstance(one, str | Number) for one in value[:8]):
        text = repr(value) if len(value) <= 8 else ""
        if 0 < len(text) <= _LONGEST_VALUE:
            return text
    return f"<{len(value):,}>"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
