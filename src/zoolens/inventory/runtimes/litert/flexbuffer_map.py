"""The whole numbers in a FlexBuffers map, the form in which TFLite keeps the options of custom operators."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

_MAP: Final = 9
_SIGNED, _UNSIGNED = 1, 2
_WIDTHS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
_MOST: Final = 1000  # entries


def whole_numbers(content: bytes) -> dict[str, int]:
    """Entries by name; those of other types are left out. Empty where it is no such map."""
    try:
        return dict(_entries(content))
    except (ValueError, IndexError, KeyError, struct.error):
        return {}


def _entries(content: bytes) -> Iterator[tuple[str, int]]:
    packed, root_width = content[-2], content[-1]
    if packed >> 2 != _MAP:
        raise ValueError("it is no map")
    width = 1 << (packed & 3)
    values = _target(content, len(content) - 2 - root_width, root_width)
    count = _number(content, values - width, width)
    if count > _MOST:
        raise ValueError("it has too many entries")
    keys, key_width = _target(content, values - 3 * width, width), _number(content, values - 2 * width, width)
    for place in range(count):
        kind = content[values + count * width + place] >> 2
        if kind in (_SIGNED, _UNSIGNED):
            name = _target(content, keys + place * key_width, key_width)
            number = _number(content, values + place * width, width, signed=kind == _SIGNED)
            yield content[name : content.index(b"\0", name)].decode("utf-8"), number


def _number(content: bytes, at: int, width: int, *, signed: bool = False) -> int:
    if at < 0:
        raise ValueError("an offset leads before the beginning")
    kind = _WIDTHS[width]
    return int(struct.unpack_from(f"<{kind.lower() if signed else kind}", content, at)[0])


def _target(content: bytes, at: int, width: int) -> int:
    """Where an offset leads, which counts backwards from its own place."""
    target = at - _number(content, at, width)
    if target < 0:
        raise ValueError("an offset leads before the beginning")
    return target
