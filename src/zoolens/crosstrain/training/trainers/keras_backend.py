"""Keras on one of its backends, which it chooses once, when it is imported: a process has one of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from zoolens.errors import ConstraintError, MissingDependency
from zoolens.runtimes.base import quiet_stderr

EXTRAS: Final[Mapping[str, str]] = {"tensorflow": "keras", "jax": "keras,jax"}  # what to install for a backend


def import_keras(backend: str, needed_by: str) -> Any:
    """Keras on this backend. A ConstraintError says that this process has it on another one."""
    os.environ.setdefault("KERAS_BACKEND", backend)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with quiet_stderr():  # TensorFlow greets before its log level applies
            import keras
    except ImportError as error:
        raise MissingDependency(needed_by, error.name or "keras", EXTRAS.get(backend)) from error
    if keras.config.backend() != backend:
        raise ConstraintError(
            f"{needed_by} needs Keras on {backend}; Keras runs on {keras.config.backend()} in this process.",
            hint=f"Start a process with KERAS_BACKEND={backend}.",
        )
    return keras
