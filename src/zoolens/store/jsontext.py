"""JSON that is parsed when it is looked at: most of what a hundred thousand runs hold never is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

_PARSED: Final = 256  # texts whose content is kept: who looks at a value once mostly does so again


@lru_cache(_PARSED)
def _parsed(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, found {type(found).__name__}")  # noqa: TRY004 - damaged data
    return found


def as_plain(value: Any) -> Any:
    """For `json.dumps(…, default=as_plain)`: a mapping as a dictionary, and what JSON has no words for as text."""
    return dict(value) if isinstance(value, Mapping) else str(value)


class JsonText(Mapping[str, Any]):
    """A read-only mapping; its values must not be changed."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __getitem__(self, key: str) -> Any:
        return _parsed(self._text)[key]

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
