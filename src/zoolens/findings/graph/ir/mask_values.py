"""Masks of attention by their numbers: zeros for places that are seen, and minus infinity or as good as that."""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Array

# Two limits, because there are two questions. Naming a mask asks what its author meant: a Swin transformer writes -100.
# Rewriting a mask must not change an output, and scores of a large scale outweigh -100. From -1e4 on, a hidden place
# has the weight zero; a lower limit would miss masks in half precision, which ends at -65,504.
MEANT_TO_HIDE: Final = -50.0
CERTAINLY_HIDES: Final = -1e4
HIDES_NOTHING: Final = "hides nothing"
CAUSAL: Final = "causal"
LONGER_TEXTS: Final = "longer_texts"  # the fact of a graph: settings of its network that only longer texts show


def hidden_places(values: Array, limit: float) -> Array | None:
    """Returns where a mask hides, as truth values: numbers up to `limit`. None where others than zeros are left."""
    hidden: Array = values <= limit
    return hidden if (hidden | (values == 0)).all() else None


def is_causal(hidden: Array) -> bool:
    """Whether a mask hides exactly what comes later."""
    rows, columns = hidden.shape[-2:]
    return bool((hidden != np.tri(rows, columns, dtype=np.bool_)).all())


def mask_words(values: Array) -> str:
    """Says which places a mask hides: the same words for the same places. Empty for numbers that are no mask.

    Truth values say what is seen.
    """
    hidden = ~values if values.dtype == np.bool_ else hidden_places(values, MEANT_TO_HIDE)
    if hidden is None:
        return ""
    if not hidden.any():
        return HIDES_NOTHING
    if is_causal(hidden):
        return CAUSAL
    digest = hashlib.blake2b(np.packbits(hidden).tobytes(), digest_size=4).hexdigest()
    return f"hides {int(hidden.sum()):,} of {hidden.size:,} places ({digest})"


def certainly_hides(values: Array) -> bool:
    """Whether places that a mask hides have the weight zero whatever their scores are."""
    return values.dtype == np.bool_ or hidden_places(values, CERTAINLY_HIDES) is not None
