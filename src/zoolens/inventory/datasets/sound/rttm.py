"""Who speaks when: the lines SPEAKER of RTTM files (NIST Rich Transcription), as intervals in seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import read_text

Intervals = NDArray[np.float64]

MAX_RTTM: Final = 1 << 26  # bytes: about a million turns
_FEWEST_FIELDS: Final = 5
_KIND, _RECORDING, _BEGIN, _LENGTH = 0, 1, 3, 4


def read_rttm(path: Path) -> Mapping[str, Intervals]:
    """The turns of each recording, begin and end, in the order of the file. Lines of other kinds are passed over."""
    try:
        lines = read_text(path, MAX_RTTM).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DatasetError(f"{path} cannot be read: {reason}.", hint="Save it in UTF-8.") from error
    found: dict[str, list[tuple[float, float]]] = {}
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields or fields[_KIND] != "SPEAKER":
            continue
        where = f"{path} line {number}"
        if len(fields) < _FEWEST_FIELDS:
            raise DatasetError(
                f"{where} has {len(fields)} fields.", hint="A line is SPEAKER recording channel begin duration …."
            )
        begin, length = _seconds(fields[_BEGIN], where), _seconds(fields[_LENGTH], where)
        found.setdefault(fields[_RECORDING], []).append((begin, begin + length))
    if not found:
        raise DatasetError(f"{path} has no line SPEAKER.", hint="Is it an RTTM file?")
    return {recording: np.array(turns, np.float64) for recording, turns in found.items()}


def _seconds(word: str, where: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise DatasetError(f"{where} has the time {word[:40]!r}.", hint="Times are seconds, 0 or more.")
    return value
