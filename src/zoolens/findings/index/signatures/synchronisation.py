"""Bringing an index file up to what the store has: read what is missing, take out what is gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import Run
from zoolens.findings.comparisons.signatures import Signature
from zoolens.findings.index.signatures.journal import Damaged
from zoolens.findings.index.signatures.semantic import Entry, SemanticIndex
from zoolens.inventory.tasks.task import task_named

_AT_ONCE: Final = 64  # signatures that are in memory together and written under one lock
Open = Callable[[Path | None], SemanticIndex]


@dataclass(frozen=True)
class SignatureSource:
    """Where signatures come from. `fleeting`: ids of runs whose answers may read otherwise by now."""

    runs: Callable[[Sequence[str]], Iterable[Run]]
    signature: Callable[[Run], Signature]
    fleeting: Collection[str] = ()


def synchronise(
    open_: Open, path: Path, runs: Sequence[str], source: SignatureSource, watcher: Progress
) -> tuple[SemanticIndex, list[str]]:
    """The index of exactly these runs, by their ids, and what kept any of them out.

    A file that turns out damaged is rebuilt, once; where none can be written, the index is made for this time only.
    """
    try:
        try:
            return _synchronised(open_(path), runs, source, watcher)
        except Damaged as error:
            watcher.say(f"The index file {path} is damaged ({error.reason}); it is rebuilt from the store.")
            path.unlink(missing_ok=True)
            return _synchronised(open_(path), runs, source, watcher)
    except OSError as error:
        watcher.say(f"The index cannot be kept in {path} ({error.strerror or error}); it is made for this time only.")
        return _synchronised(open_(None), runs, source, watcher)


def _synchronised(
    index: SemanticIndex, runs: Sequence[str], source: SignatureSource, watcher: Progress
) -> tuple[SemanticIndex, list[str]]:
    wanted = set(runs)
    for key in [key for key in index.keys if key not in wanted]:
        index.remove(key)
    notes: dict[str, str] = {}
    due = [key for key in runs if key not in index or key in source.fleeting]
    lost: set[str] = set()  # no longer in the store, which was replaced by a backup meanwhile
    while due:
        watcher.begin("index", "signatures", len(due))
        lost.update(due)
        for some in _batches(source.runs(due)):
            entries = []
            for run in some:
                lost.discard(run.id)
                try:
                    entries += _entry(index, run.id, source.signature(run))
                except Damaged:
                    raise
                except ZoolensError as error:
                    notes[run.id] = f"{run.ref} in {run.stack.runtime} has no signature: {error}"
            index.insert_all(entries)
            watcher.advance(len(some))
        watcher.end()
        # Another process that looked at the store before us may have taken out meanwhile what it did not know of.
        due = [key for key in runs if key not in index and key not in notes and key not in lost]
    return index, list(notes.values())


def _batches(runs: Iterable[Run]) -> Iterator[list[Run]]:
    left = iter(runs)
    while some := list(islice(left, _AT_ONCE)):
        yield some


def _entry(index: SemanticIndex, key: str, signature: Signature) -> list[Entry]:
    """What to insert: the answers of the main output and, where those are classes, which are right. Nothing where equal
    answers are there already. Refuses what does not fit the index."""
    task = task_named(signature.main.task)
    answers, correct = task.signature(signature.main), signature.correct if task.discrete else None
    if key in index and np.array_equal(index.answers(key), answers):
        return []
    index.check(key, answers, correct)
    return [Entry(key, answers, correct)]
