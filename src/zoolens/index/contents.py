"""Rows of contents that were replaced under their name: they are no candidates, and that is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zoolens.equivalence.contents import Content, declared_by, replaced_contents
from zoolens.index.rows import Row
from zoolens.store.store import Store

_TOLD: Final = 3  # names with a note of their own


def current_rows(store: Store, rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """The rows of contents that count, and notes about those that do not."""
    measured = [row for row in rows if row.runtime is not None]
    flags = replaced_contents([_content(store, row) for row in measured])
    replaced = [row for row, gone in zip(measured, flags, strict=True) if gone]
    left_out = {row.key for row in replaced}
    return [row for row in rows if row.key not in left_out], _notes(replaced)


def _content(store: Store, row: Row) -> Content:
    known = {name: str(row.attributes.get(name, "")) for name in ("format", "folder", "file", "evaluated", "measured")}
    return Content(
        row.ref, known["format"], known["folder"], row.model, known["evaluated"], known["measured"],
        lambda: declared_by(store.run(row.key)), known["file"],
    )  # fmt: skip


def _notes(replaced: Sequence[Row]) -> list[str]:
    by_name: dict[str, list[str]] = {}
    for row in replaced:
        by_name.setdefault(row.ref, []).append(row.key[:8])
    if len(by_name) > _TOLD:
        return [f"{len(replaced):,} runs of {len(by_name):,} models are left out: their file or manifest was replaced."]
    return [
        f"{ref} was replaced: what was measured before ({_some(runs)}) is left out." for ref, runs in by_name.items()
    ]


def _some(runs: Sequence[str]) -> str:
    return ", ".join([*runs[:_TOLD], *(["…"] if len(runs) > _TOLD else [])])
