"""Masks of attention by their numbers: zeros for places that are seen, and minus infinity or as good as that."""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Array

HIDDEN: Final = -50.0  # as good as minus infinity in a softmax; the masks of a Swin transformer hold -100


def hidden_places(values: Array) -> Array | None:
    """Returns where a mask hides, as truth values; None where the numbers are of anything else."""
    hidden: Array = values <= HIDDEN
    return hidden if (hidden | (values == 0)).all() else None


def is_causal(hidden: Array) -> bool:
    """Whether a mask hides exactly what comes later."""
    rows, columns = hidden.shape[-2:]
    return bool((hidden != np.tri(rows, columns, dtype=np.bool_)).all())


def mask_words(hidden: Array) -> str:
    """Says which places a mask hides: the same words for the same places."""
    if is_causal(hidden):
        return "causal"
    digest = hashlib.blake2b(np.packbits(hidden).tobytes(), digest_size=4).hexdigest()
    return f"hides {int(hidden.sum()):,} of {hidden.size:,} places ({digest})"
