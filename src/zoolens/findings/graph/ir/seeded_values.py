"""Values for networks that come without any: the same for the same name and shape, and leaving no branch silent."""

from __future__ import annotations

from math import prod
from zlib import crc32

import numpy as np

from zoolens.findings.graph.ir.model import Array, Shape


def seeded_values(name: str, shape: Shape) -> Array:
    """For a variable of Keras or TensorFlow: kernels keep the size of what flows through, statistics are sensible."""
    generator = np.random.default_rng(crc32(name.encode()))
    if name.endswith(("variance", "gamma")):
        return generator.uniform(0.5, 1.5, shape).astype(np.float32)
    if len(shape) < 2:
        return generator.normal(0.0, 0.1, shape).astype(np.float32)
    depthwise = len(shape) > 2 and ("depthwise" in name or shape[-1] == 1)
    fan_in = prod(shape[:-2] if depthwise else shape[:-1])
    values: Array = generator.standard_normal(shape, np.float32) * np.float32(np.sqrt(2.0 / fan_in))
    return values
