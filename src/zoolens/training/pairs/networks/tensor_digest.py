"""One digest of many tensors, by which it is known that two trainings start from the same weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from zoolens.training.pairs.networks.framework import Array


def digest_of_tensors(*sides: Mapping[str, Array]) -> str:
    """Returns the digest of all tensors of the sides, with their names, shapes and types."""
    digest = hashlib.sha256()
    for tensors in sides:
        for name, array in sorted(tensors.items()):
            digest.update(f"{name} {array.shape} {array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
