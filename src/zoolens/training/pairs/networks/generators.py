"""The states of the random generators that a user's network may draw from."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np


def generator_states() -> bytes:
    """Those of Python, of numpy's one for everybody, and of torch where it is imported. Drawing changes them."""
    kind, keys, *rest = np.random.get_state(legacy=True)
    states: list[Any] = [random.getstate(), kind, np.asarray(keys).tobytes(), rest]
    if "torch" in sys.modules:
        states.append(sys.modules["torch"].get_rng_state().numpy().tobytes())
    return repr(states).encode()
