"""JSON that is parsed when it is looked at: most of what a hundred thousand runs hold never is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import lru_cache
from typing import Any, Final

_PARSED: Final = 256  # texts whose content is kept: who looks at a value once mostly does so again


@lru_cache(_PARSED)
def _parsed(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {type(value).__name__}")  # noqa: TRY004 - damaged data
    return value


def as_plain(value: Any) -> Any:
    """For `json.dumps(…, default=as_plain)`: a mapping as a dictionary, and what JSON has no words for as text."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def json_value(value: Any) -> Any:
    """The value as JSON can hold it: the fields of a dataclass, lists for tuples and arrays, the value of an enum, ISO
    8601 for times, None for what is not finite."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, Mapping):
        return {key: json_value(item) for key, item in value.items()}
    if is_dataclass(value):
        return {field.name: json_value(getattr(value, field.name)) for field in fields(value)}
    # An array or a number of numpy's, which is not imported for this: opening a store must stay quick.
    return json_value(value.tolist()) if hasattr(value, "tolist") else value


class JsonText(Mapping[str, Any]):
    """A read-only mapping; its values must not be changed."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __getitem__(self, key: str) -> Any:
        return _parsed(self._text)[key]

    def get(self, key: str, default: Any = None) -> Any:
        # Not the one of Mapping, which raises an error for every key that is absent.
        return _parsed(self._text).get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(_parsed(self._text))

    def __len__(self) -> int:
        return len(_parsed(self._text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and _parsed(self._text) == dict(other)

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return self._text

    def __deepcopy__(self, _: object) -> dict[str, Any]:
        """A plain dictionary of its own, which `dataclasses.asdict` then gives."""
        return dict(json.loads(self._text))

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonText, (self._text,)
