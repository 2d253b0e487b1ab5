"""One bit an answer: small enough for memory where whole signatures are not, and never wrong in one direction.

The bit is a hash of (probe, label). Different bits prove different labels, so that with H differing bits of n the
agreement is at most 1 − H/n. Of two different labels half have different bits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_SEED: Final = 0x5A00
_WORD: Final = 64
_BLOCK: Final = 1 << 16  # words compared at once: they stay in the processor's cache

Words = NDArray[np.uint64]


def words_for(bits: int) -> int:
    return -(-bits // _WORD)


def sketch(labels: NDArray[Any], bits: int) -> Words:
    """The bits of the first `bits` labels of each row (or of one row), 64 to a word; the rest of the last word is 0."""
    factor, offset = _salts(bits)
    # Multiply and shift: over the random odd factors and offsets, two labels differ in the top bit half of the time.
    hashed = labels[..., :bits].astype(np.uint32) * factor + offset
    packed = np.packbits((hashed >> np.uint32(31)).astype(np.bool_), axis=-1)
    whole = np.zeros((*packed.shape[:-1], words_for(bits) * 8), np.uint8)
    whole[..., : packed.shape[-1]] = packed
    return whole.view(np.uint64)


@lru_cache(maxsize=8)
def _salts(bits: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    numbers = np.random.default_rng(_SEED).integers(0, 1 << 32, (2, bits), np.uint32)
    return numbers[0] | np.uint32(1), numbers[1]


def differing(sketches: Words, sketch: Words) -> NDArray[np.int64]:
    """Counts in how many bits each row differs from `sketch`."""
    counts = np.empty(len(sketches), np.int64)
    step = max(1, _BLOCK // max(1, sketch.shape[-1]))
    for start in range(0, len(sketches), step):
        counts[start : start + step] = ones(sketches[start : start + step] ^ sketch)
    return counts


def ones(words: NDArray[Any]) -> NDArray[np.int64]:
    """How many bits of each row are set."""
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(words).sum(axis=-1, dtype=np.int64))
    octets = np.ascontiguousarray(words).view(np.uint8)  # numpy 1
    return np.asarray(_OCTETS[octets].sum(axis=-1, dtype=np.int64))


_OCTETS: Final = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)


def agreement_at_most(differences: NDArray[np.int64], probes: int) -> NDArray[np.float64]:
    """Exact upper bounds. Bits of a part of the probes prove what they prove: the others may all agree."""
    return (probes - differences) / probes
