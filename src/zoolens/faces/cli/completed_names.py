"""Names that the shell completes: models of the store, of the demo and of kept catalogues, runs, and files.

A shell asks at every press of a key, so that nothing here imports more than Python's own library, opens a store or
lists a zoo anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from click.shell_completion import CompletionItem

from zoolens.base.paths import cache_dir, data_dir
from zoolens.base.store.glance import measured_models

if TYPE_CHECKING:
    import click

_MOST: Final = 500
_RUNS: Final = ("last", "last~1", "last~2")
_LOCAL: Final = "file:"  # models by the path of their file, which is what one types


def complete_models(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of models that begin with what is typed; where none does, files."""
    return _items(_fitting(_model_names(typed), typed), typed)


def complete_runs(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The newest runs, and models, which stand for their newest runs."""
    return _items(_fitting((*_RUNS, *_model_names(typed)), typed), typed)


def complete_files(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Files and folders, which the shell itself looks for."""
    return [CompletionItem(typed, type="file")]


def _items(names: list[str], typed: str) -> list[CompletionItem]:
    # A shell that is told to complete files drops the names beside them.
    return [CompletionItem(name) for name in names] or [CompletionItem(typed, type="file")]


def _fitting(names: Iterator[str] | tuple[str, ...], typed: str) -> list[str]:
    found = sorted({name for name in names if name.startswith(typed)}) if typed else sorted(set(names))
    return found[:_MOST]


def _model_names(typed: str) -> Iterator[str]:
    yield from _of_store()
    yield from _of_demo()
    zoo, colon, _ = typed.partition(":")
    try:
        catalogues = sorted((cache_dir() / "catalog").glob("*.json"))
    except OSError:
        return
    for path in catalogues:
        named = path.stem.rpartition("-")[0]
        if not colon:
            yield f"{named}:"
        elif named == zoo:
            yield from (f"{named}:{name}" for name in _of_catalogue(path))


def _of_store() -> Iterator[str]:
    """Models that were measured, of a store in a file."""
    named = os.environ.get("ZOOLENS_STORE", "").strip()
    if "://" in named:
        return
    path = Path(named).expanduser().absolute() if named else data_dir() / "store.sqlite"
    if not path.is_file():
        return
    refs = measured_models(path, 10 * _MOST)
    yield from (ref.partition("@")[0] for ref in refs if not ref.startswith(_LOCAL))


def _of_demo() -> Iterator[str]:
    folder = Path(__file__).parents[2] / "inventory" / "zoos" / "demo_data" / "models"
    yield from (f"demo:{path.stem}" for path in folder.glob("*.yaml"))


def _of_catalogue(path: Path) -> Iterator[str]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        yield from (str(row["manifest"]["name"]) for row in rows)
    except (OSError, ValueError, KeyError, TypeError):
        # Absent or damaged: `zoolens models` writes it anew.
        return
