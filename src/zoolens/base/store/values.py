"""What may be written: text, JSON and numbers that both databases accept, whatever a framework handed over."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zoolens.base.store.records import Observation

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def storable_text(text: str) -> str:
    """UTF-8 without NUL. PostgreSQL refuses NUL, and both refuse the lone surrogates of undecodable file names."""
    return text.replace("\0", "\ufffd").encode("utf-8", "backslashreplace").decode()


def to_json(value: Any) -> str:
    """Strict JSON: numpy values become plain ones, NaN and infinities strings, anything unknown its text."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return storable_text(str(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _NOT_FINITE[str(float(value))]
    if isinstance(value, Mapping):
        return {storable_text(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=str)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return storable_text(str(value))


def storable(observation: Observation) -> Observation:
    """The observation with plain numbers; what is not finite becomes None and is named in the details."""
    given = {"value": observation.value, "low": observation.low, "high": observation.high}
    numbers = {name: None if number is None else float(number) for name, number in given.items()}
    lost = {name: str(number) for name, number in numbers.items() if number is not None and not math.isfinite(number)}
    kept = {name: None if name in lost else number for name, number in numbers.items()}
    return replace(
        observation,
        value=kept["value"],
        low=kept["low"],
        high=kept["high"],
        n=None if observation.n is None else int(observation.n),
        details={**observation.details, "not_finite": lost} if lost else observation.details,
    )
