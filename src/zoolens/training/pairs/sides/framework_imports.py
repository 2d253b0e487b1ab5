"""Which frameworks a user's file imports before all else, read from its text: nothing of it is run."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from zoolens.base.engine.fork_server import Preloaded

# With what of ours is needed to read networks of theirs.
_OURS: Final = {
    "torch": (
        "torch._dynamo",
        "zoolens.training.pairs.networks.torch_framework",
    ),
    "keras": ("zoolens.training.pairs.networks.keras_framework",),
    "jax": ("zoolens.training.pairs.networks.jax_framework",),
    "tensorflow": (),
}
# What is said to an environment before a framework is imported is for a process of its own.
_SPEAKS_TO_ENVIRONMENT: Final = ("environ", "putenv", "setenv", "sys.modules", "meta_path")
_MOST_FILES: Final = 50


def preloaded_for(code: str) -> Preloaded | None:
    """What a server may import before this file runs; None where the file, or one beside it that it imports, names no
    framework at its top level, or may change what importing a framework does."""
    path = Path(code)
    if path.suffix != ".py":
        return None
    try:
        found = tuple(dict.fromkeys(_frameworks(path, set())))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    if not found:
        return None
    ours = [name for framework in found for name in _OURS[framework]]
    return Preloaded((*found, *ours), (str(_keras_settings()),) if "keras" in found else ())


def _frameworks(path: Path, seen: set[Path]) -> Iterator[str]:
    """Names of frameworks in the order of their imports, those of files in the same folder included."""
    seen.add(path)
    text = path.read_text()
    if len(seen) > _MOST_FILES or any(word in text for word in _SPEAKS_TO_ENVIRONMENT):
        raise ValueError(path.name)
    for name in _imports(ast.parse(text)):
        top = name.partition(".")[0]
        beside = path.parent / f"{top}.py"
        if top in _OURS:
            yield top
        elif beside not in seen and beside.is_file():
            yield from _frameworks(beside, seen)


def _imports(module: ast.Module) -> Iterator[str]:
    for statement in module.body:
        if isinstance(statement, ast.Import):
            yield from (each.name for each in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module is not None and statement.level == 0:
            yield statement.module


def _keras_settings() -> Path:
    """Where Keras reads its backend when it is imported."""
    home = os.environ.get("KERAS_HOME")
    return Path(home or Path.home() / ".keras") / "keras.json"
