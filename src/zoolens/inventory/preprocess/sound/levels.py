"""Logarithms of a spectrum: natural, decimal or in decibels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError

_Real = NDArray[np.float64]

KINDS: Final = ("natural", "decimal", "decibel")


@dataclass(frozen=True)
class Log:
    """A logarithm, and what keeps it finite where there is silence."""

    kind: str
    # Added to every value, as tf.signal's examples and torchaudio's log_mels do.
    offset: float = 0.0
    # Smaller values are raised to it, as librosa.power_to_db and torchaudio's AmplitudeToDB do.
    floor: float = 0.0
    # The result is cut this far below its own maximum, of the whole sound.
    top_db: float | None = None


def levels(values: _Real, log: Log) -> _Real:
    """The logarithm of each value. Decibels are those of power: ten times the decimal logarithm."""
    if log.kind not in KINDS:
        raise ManifestError(f"There is no logarithm named {log.kind!r}.", hint=f"Known: {', '.join(KINDS)}.")
    if log.offset <= 0 and log.floor <= 0:
        raise ManifestError("The logarithm of silence is infinite.", hint="Give an offset or a floor above zero.")
    if log.top_db is not None and (log.kind != "decibel" or log.top_db < 0):
        raise ManifestError("top_db must be 0 or more, with decibels.", hint="Leave it out, or use decibels.")
    raised = np.maximum(values + log.offset, log.floor)
    if log.kind == "natural":
        return np.asarray(np.log(raised), np.float64)
    if log.kind == "decimal":
        return np.asarray(np.log10(raised), np.float64)
    decibels = 10.0 * np.log10(raised)
    if log.top_db is None:
        return np.asarray(decibels, np.float64)
    return np.asarray(np.maximum(decibels, decibels.max() - log.top_db), np.float64)
