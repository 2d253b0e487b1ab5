"""Keras on one of its backends, which it chooses once, when it is imported: a process has one of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from zoolens.base.errors import ConstraintError, MissingDependency
from zoolens.inventory.runtimes.timing.process_wide import quiet_stderr

EXTRAS: Final[Mapping[str, str]] = {"tensorflow": "keras", "jax": "keras,jax"}  # what to install for a backend

# An environment variable of processes that do nothing but what we ask of Keras. There it is imported without packages
# that it would import only to accept their tables or to wrap models for them: they take a third of the time to import.
ALONE: Final = "ZOOLENS_KERAS_ALONE"
_UNUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "tensorflow": ("jax", "pandas", "sklearn"),  # TensorFlow would convert networks of JAX for phones
    "jax": ("pandas", "sklearn"),
}


def import_keras(backend: str, needed_by: str) -> Any:
    """Keras on this backend. A ConstraintError says that this process has it on another one."""
    chosen = os.environ.setdefault("KERAS_BACKEND", backend)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with quiet_stderr(), _without_unused(chosen):  # TensorFlow greets before its log level applies
            import keras
    except ImportError as error:
        raise MissingDependency(needed_by, error.name or "keras", EXTRAS.get(backend)) from error
    if keras.config.backend() != backend:
        raise ConstraintError(
            f"{needed_by} needs Keras on {backend}; Keras runs on {keras.config.backend()} in this process.",
            hint=f"Start a process with KERAS_BACKEND={backend}.",
        )
    return keras


@contextmanager
def _without_unused(backend: str) -> Iterator[None]:
    """Let imports of unused packages fail meanwhile, as where they are not installed, if Keras has this process alone.
    A package that is imported already stays."""
    hidden = [name for name in _UNUSED.get(backend, ()) if name not in sys.modules] if os.environ.get(ALONE) else []
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is how Python is told that there is none
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
