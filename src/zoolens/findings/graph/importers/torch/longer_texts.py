"""Settings of a language model of transformers that the text it is read with may be too short to show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_WINDOWS: Final = ("sliding_window", "attention_chunk_size")
_BY_LENGTH: Final = ("dynamic", "longrope")  # rules by which positions turn otherwise in texts of another length


def longer_texts(config: Any) -> str:
    """Windows of attention, and rules of positions that depend on the length of a text. Empty where it has none."""
    windows = [f"{name} {value}" for name in _WINDOWS if (value := getattr(config, name, None))]
    settings = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    return ", ".join((*windows, *_rules(settings, config)))


def _rules(settings: Any, config: Any) -> Iterator[str]:
    """Some networks have settings for each kind of layer."""
    if not isinstance(settings, Mapping):
        return
    rule = settings.get("rope_type", settings.get("type"))
    if rule in _BY_LENGTH:
        said = ", ".join(f"{key} {value}" for key, value in sorted(settings.items()) if isinstance(value, int | float))
        yield f"positions by the rule {rule} from {getattr(config, 'max_position_embeddings', None)} tokens on: {said}"
    for value in settings.values():
        yield from _rules(value, config)
