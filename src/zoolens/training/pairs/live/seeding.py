"""Random generators of the frameworks that a process has loaded, set to one seed."""

from __future__ import annotations

import random
import sys

import numpy as np


def seed_generators(seed: int) -> None:
    """Seeds the generators of Python, numpy, torch and Keras; what JAX draws depends on keys that the user's code makes
    itself."""
    random.seed(seed)
    np.random.seed(seed)  # the user's code may draw from numpy's global generator
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)
    if (keras := sys.modules.get("keras")) is not None:
        keras.utils.set_random_seed(seed)
    elif (tensorflow := sys.modules.get("tensorflow")) is not None:
        tensorflow.random.set_seed(seed)


def forget_names() -> None:
    """Let Keras count the names of layers from the beginning, so that a second network has those of the first.

    It does not search for garbage: in a process with several frameworks that takes longer than a short training."""
    if (keras := sys.modules.get("keras")) is not None:
        keras.utils.clear_session(free_memory=False)
