"""`zoolens store copy`: everything that one store knows is added to another, whichever databases and places they use.

Facts keep their keys, values and times. They arrive in the order in which they were stored, behind what is there. What
is there already is compared and left as it is, so that a copy that was killed is simply made again. A run that was
measured otherwise in the other store is not touched; it is named in the end.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sqlalchemy import Connection, Table, select

from zoolens.base.errors import DamagedFile, StoreError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store import schema
from zoolens.base.store.bulk_record import missing_files
from zoolens.base.store.bulk_store import ORPHAN_AGE
from zoolens.base.store.checksums import COLUMN
from zoolens.base.store.queries import in_chunks, load_rows
from zoolens.base.store.recent import adopt_evaluations, counted_evaluations, recent_runs, remember_older_runs
from zoolens.base.store.records import Part
from zoolens.base.store.row_copies import Row, insert_rows, without
from zoolens.base.store.run_merge import (
    ChangedMeanwhile,
    RunFacts,
    add_run,
    difference,
    has_everything,
    load_facts,
    lost_observations,
    with_adopted_order,
)
from zoolens.base.store.store import Store
from zoolens.base.store.study_merge import (
    Word,
    add_table_words,
    add_trial_words,
    missing_words,
    name_of,
    runs_of,
    table_words,
    trial_words,
)

# Rows that runs refer to. The first record of a fingerprint counts, in every store.
SUBJECTS: Final = (schema.models, schema.datasets, schema.stacks, schema.locks, schema.aliases)
RUNS_AT_ONCE: Final = 50  # whose rows are in memory together, and are added in one transaction


@dataclass
class Copied:
    """How much was looked at and added. `refused`: one sentence for each run, study or trial that was left out."""

    runs: int = 0
    runs_added: int = 0  # or completed
    files_added: int = 0
    studies: int = 0
    trials: int = 0
    refused: list[str] = field(default_factory=list)
    refused_runs: set[str] = field(default_factory=set)


def copy_store(source: Store, target: Store, *, progress: Progress | None = None) -> Copied:
    """Add everything that `source` holds to `target`, and return what was done. The source is only read.

    What contradicts the target is left out and named in `refused`; so is a run whose files are damaged. Calling it
    again, also after it was killed, adds what is missing.
    """
    if source.id == target.id and source.bulk.place.name == target.bulk.place.name:
        raise StoreError(
            f"{source.name} and {target.name} are the same store, or copies of one that keep their files in one place.",
            hint="Name another store to copy to, or another place with --to-bulk.",
        )
    watch = progress or Silent()
    copied = Copied()
    # Before what runs refer to: a run that is begun meanwhile waits for the next copy.
    query = select(schema.runs.c.id).order_by(schema.runs.c.seq)
    ordered = [str(row.id) for row in source.read(lambda connection: connection.execute(query).all())]
    watch.begin(f"copy to {target.name}", "models, datasets and stacks", None)
    for table in SUBJECTS:
        for rows in _in_batches(source, table):
            target._write(partial(insert_rows, table=table, rows=rows))
            watch.advance(len(rows))
    # A copy of a database has its id and its rows, but perhaps not its files.
    present = frozenset(target.bulk.place.names()) if source.id == target.id else None
    count = source.read(counted_evaluations)
    adopted = target._write(lambda connection: adopt_evaluations(connection, source.id, count))
    watch.begin(f"copy to {target.name}", "runs", len(ordered), "runs")
    for some in in_chunks(ordered, RUNS_AT_ONCE):
        _RunBatch(source, target, copied, present, adopted).copy(some)
        watch.advance(len(some))
    watch.begin(f"copy to {target.name}", "studies, trials and reports", None)
    if present is not None and target.records_place:
        _move_place(source, target, copied)
    _copy_studies(source, target, copied)
    _copy_reports(source, target, copied)
    _copy_trials(source, target, copied, frozenset(ordered) - copied.refused_runs)
    recent = source.read(recent_runs)
    target._write(lambda connection: remember_older_runs(connection, recent))
    watch.end()
    return copied


def _in_batches(store: Store, table: Table) -> Iterator[list[dict[str, object]]]:
    """The rows of a table by their keys, a thousand at once."""
    key = list(table.primary_key.columns)
    keys = store.read(lambda connection: connection.execute(select(*key)).all())
    for some in in_chunks(keys, 1_000):
        first = [row[0] for row in some] if len(key) == 1 else None
        if first is None:
            names = sorted({row[1] for row in some})
            rows = store.read(lambda connection, names=names: load_rows(connection, table, key[1].in_(names)))  # type: ignore[misc]
        else:
            rows = store.read(lambda connection, first=first: load_rows(connection, table, key[0].in_(first)))  # type: ignore[misc]
        yield [without(row, COLUMN) for row in rows]


class _RunBatch:
    """Some runs, which become visible in the target together."""

    def __init__(
        self, source: Store, target: Store, copied: Copied, present: frozenset[str] | None, adopted: int
    ) -> None:
        self._source, self._target, self._copied, self._present = source, target, copied, present
        self._adopted = adopted  # `adopt_evaluations`

    def copy(self, ids: Sequence[str]) -> None:
        theirs = self._source.read_at_once(lambda connection: load_facts(connection, ids))
        theirs = {run_id: with_adopted_order(facts, self._adopted) for run_id, facts in theirs.items()}
        ours = self._target.read_at_once(lambda connection: load_facts(connection, ids))
        begun = time.monotonic()
        sound = [facts for facts in theirs.values() if self._is_sound(facts, ours.get(facts.id))]

        new = [facts for facts in sound if facts.id not in ours or not has_everything(ours[facts.id], facts)]

        def add(connection: Connection) -> int:
            return sum(self._add(connection, facts, ours.get(facts.id)) for facts in new)

        added = self._target._write(add) if new else 0
        if time.monotonic() - begun > ORPHAN_AGE / 2:
            # A sweep by somebody else may have taken files that were not registered yet.
            self._restore_files(sound)
        self._copied.runs += len(theirs)
        self._copied.runs_added += added

    def _is_sound(self, theirs: RunFacts, ours: RunFacts | None) -> bool:
        """Whether the run can be added; the files of its parts are then in the target."""
        clause = None if theirs.has_its_key else "its id is not that of its key"
        clause = clause or _foreign_file(theirs) or lost_observations(theirs)
        try:
            if clause is None and ours is not None:
                clause = difference(theirs, ours) or self._other_content(theirs, ours)
            if clause is None:
                self._copy_files(theirs, ours)
        except DamagedFile as error:
            clause = f"{error.message[:1].lower()}{error.message[1:].rstrip('.')}"
        if clause is not None:
            self._refuse(theirs, clause)
        return clause is None

    def _add(self, connection: Connection, facts: RunFacts, compared: RunFacts | None) -> bool:
        try:
            with connection.begin_nested():
                return add_run(connection, facts, compared)
        except ChangedMeanwhile as error:
            self._refuse(facts, str(error))
            return False

    def _refuse(self, facts: RunFacts, clause: str) -> None:
        if facts.id not in self._copied.refused_runs:
            self._copied.refused_runs.add(facts.id)
            self._copied.refused.append(f"Run {facts.id} was not copied: {clause}.")

    def _other_content(self, theirs: RunFacts, ours: RunFacts) -> str | None:
        """Which part has other rows, as a clause. Other bytes may hold the same rows: another pyarrow wrote them."""
        for key in theirs.parts.keys() & ours.parts.keys():
            there, here = (_part(store, facts.parts[key]) for store, facts in self._sides(theirs, ours))
            if there.sha256 == here.sha256:
                continue
            if not self._source.part_table(there).equals(self._target.part_table(here)):
                return f"part {there.part} of its {there.kind} has other content"
        return None

    def _sides(self, theirs: RunFacts, ours: RunFacts) -> tuple[tuple[Store, RunFacts], tuple[Store, RunFacts]]:
        return (self._source, theirs), (self._target, ours)

    def _copy_files(self, theirs: RunFacts, ours: RunFacts | None) -> None:
        for key, row in theirs.parts.items():
            known = None if ours is None else ours.parts.get(key)
            if known is None or self._is_lost(known, row):
                self._copy_file(row)

    def _is_lost(self, known: Row, row: Row) -> bool:
        return self._present is not None and known["name"] == row["name"] and known["name"] not in self._present

    def _copy_file(self, row: Row) -> None:
        part = _part(self._source, row)
        self._target.bulk.address(part.name)
        if self._present is None:
            self._target.require_place()
        self._target.bulk.place.put(part.name, self._source.bulk.content(part))
        self._copied.files_added += 1

    def _restore_files(self, runs: Sequence[RunFacts]) -> None:
        for facts in runs:
            for row in facts.parts.values():
                if not self._target.bulk.has(str(row["name"])):
                    self._copy_file(row)


def _move_place(source: Store, target: Store, copied: Copied) -> None:
    """The copy of a database, or the same one, with its files in another place: this place is recorded once every file
    is there."""
    lost = _copy_late_files(source, target, copied)
    if lost:
        copied.refused.append(
            f"The place of bulk facts was not recorded: {len(lost):,} files are not in {target.bulk.place.name}, such "
            f"as {lost[0]}."
        )
        return
    target.record_place()
    # From now on nobody registers a file in the old place.
    _copy_late_files(source, target, copied)


def _copy_late_files(source: Store, target: Store, copied: Copied) -> list[str]:
    """Copies files that were registered since their runs were copied; names of those that are still missing."""
    for some in in_chunks(missing_files(target, target.bulk.place), RUNS_AT_ONCE):
        named = schema.parts.c.name.in_(some)
        for row in target.read(lambda connection, named=named: load_rows(connection, schema.parts, named)):  # type: ignore[misc]
            part = _part(source, row)
            with suppress(DamagedFile):
                target.bulk.place.put(part.name, source.bulk.content(part))
                copied.files_added += 1
    return missing_files(target, target.bulk.place)


def _foreign_file(facts: RunFacts) -> str | None:
    """Which part, as a clause, names a file that is not its own: to copy it might replace one of another run."""
    for (kind, number), row in facts.parts.items():
        if not str(row["name"]).startswith(f"{facts.id}/{kind}.{number}."):
            return f"part {number} of its {kind} names a file that is not its own"
    return None


def _part(store: Store, row: Row) -> Part:
    return Part(**without(row, COLUMN), address=store.bulk.address(str(row["name"])))


def _copy_studies(source: Store, target: Store, copied: Copied) -> None:
    refusal = "What is said of study {} was not copied: it was changed in both stores."
    copied.studies = len(_copy_words(source, target, copied, schema.studies, refusal))


def _copy_reports(source: Store, target: Store, copied: Copied) -> None:
    refusal = "The report {} was not copied: it was changed in both stores."
    _copy_words(source, target, copied, schema.reports, refusal)


def _copy_words(source: Store, target: Store, copied: Copied, table: Table, refusal: str) -> set[str]:
    """Add what the target lacks; names that were changed in both stores are refused. Returns all names."""
    theirs = source.read(lambda connection: table_words(connection, table))

    def add(connection: Connection) -> list[str]:
        missing, changed = missing_words(theirs, table_words(connection, table))
        add_table_words(connection, table, missing)
        return [refusal.format(name) for name in changed]

    copied.refused += target._write(add)
    return {name_of(word) for word in theirs}


def _copy_trials(source: Store, target: Store, copied: Copied, there: Collection[str]) -> None:
    for study in sorted(source.studies_with_trials()):
        theirs = source.read(partial(trial_words, study=study))
        copied.refused += target._write(partial(_add_trials, study=study, theirs=theirs, there=there))
        copied.trials += len({name_of(word) for word in theirs})


def _add_trials(connection: Connection, study: str, theirs: Sequence[Word], there: Collection[str]) -> list[str]:
    """Adds the trials whose runs were copied; one sentence for each of the others."""
    missing, changed = missing_words(theirs, trial_words(connection, study))
    why = dict.fromkeys(changed, "it was changed in both stores")
    for word in missing:
        why |= {name_of(word): f"it needs run {run_id}" for run_id in runs_of([word]) if run_id not in there}
    add_trial_words(connection, [word for word in missing if name_of(word) not in why])
    return [f"Trial {name} of study {study} was not copied: {clause}." for name, clause in why.items()]
