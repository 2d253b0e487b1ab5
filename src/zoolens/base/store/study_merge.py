"""Studies and trials of another store. Of several rows about one of them the last counts, so that their order matters.

Rows that both stores have are the same row. A study or trial of which each store has a word that the other has not was
changed in both: which word is the last one nobody knows, unless the last words are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table

from zoolens.base.store import schema
from zoolens.base.store.checksums import COLUMN
from zoolens.base.store.commands import note_change
from zoolens.base.store.queries import load_rows
from zoolens.base.store.row_copies import Row, parsed, without
from zoolens.base.store.studies import insert_row, rows_of_trials

Word = tuple[dict[str, Any], list[dict[str, Any]]]  # a row without its number, and those of its sides


def table_words(connection: Connection, table: Table) -> list[Word]:
    """What was said of studies as a whole, or written of reports, oldest first."""
    rows = sorted(load_rows(connection, table), key=lambda row: int(row["seq"]))
    return [(_content(table, row), []) for row in rows]


def trial_words(connection: Connection, study: str) -> list[Word]:
    """What was said of the trials of a study, oldest first."""
    return [
        (_content(schema.trials, row), [without(side, "trial", COLUMN) for side in sides])
        for row, sides in rows_of_trials(connection, study)
    ]


def missing_words(theirs: Sequence[Word], ours: Sequence[Word]) -> tuple[list[Word], list[str]]:
    """The words to add, in their order; and the names of what was changed in both, if the last words differ."""
    missing: dict[str, list[Word]] = {}
    changed = []
    there = _by_name(ours)
    for name, words in _by_name(theirs).items():
        known = there.get(name, [])
        new, own = ([word for word in some if word not in others] for some, others in ((words, known), (known, words)))
        if not own:
            missing[name] = new
        elif new and _meaning(words[-1]) != _meaning(known[-1]):
            changed.append(name)
    return [word for word in theirs if word in missing.get(name_of(word), ())], changed


def name_of(word: Word) -> str:
    return str(word[0]["name"])


def _by_name(words: Sequence[Word]) -> dict[str, list[Word]]:
    found: dict[str, list[Word]] = {}
    for word in words:
        found.setdefault(name_of(word), []).append(word)
    return found


def add_table_words(connection: Connection, table: Table, words: Collection[Word]) -> None:
    for row, _ in words:
        insert_row(connection, table, row)


def add_trial_words(connection: Connection, words: Collection[Word]) -> None:
    for row, sides in words:
        number = insert_row(connection, schema.trials, row)
        for side in sides:
            insert_row(connection, schema.trial_sides, {"trial": number, **side})
        for run_id in runs_of([(row, sides)]):
            note_change(connection, run_id)


def runs_of(words: Collection[Word]) -> Iterator[str]:
    """Yields the runs that the sides of trials name."""
    for _, sides in words:
        for side in sides:
            yield str(side["run_id"])


def _content(table: Any, row: Row) -> dict[str, Any]:
    return parsed(table, without(row, "seq", COLUMN))


def _meaning(word: Word) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
    row, sides = word
    return without(row, "created"), sides
