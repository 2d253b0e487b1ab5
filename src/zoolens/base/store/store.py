"""The store: append-only facts about runs, in SQLite or PostgreSQL, with bulk facts in Parquet beside it.

Obligations, which `zoolens.testing.store_contract` checks on both databases:

- every write is idempotent and becomes visible as a whole or not at all, so that a run that was killed, or whose
  server went away, is simply run again;
- one `Store` may be used by several threads, and one database by several processes, at the same time;
- what was measured is never changed or deleted: a second observation of the same (run, metric, scope) is ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from sqlalchemy import Connection, select

from zoolens.base.errors import MissingDependency
from zoolens.base.store import commands, queries, schema, studies
from zoolens.base.store.bulk_store import BulkStore
from zoolens.base.store.figures import RunFigures, load_figures
from zoolens.base.store.queries import RunFilter
from zoolens.base.store.recent import next_evaluation, remember_run
from zoolens.base.store.records import (
    DONE,
    EVALUATED,
    EVALUATED_ORDER,
    FAILED,
    MEASURED_KINDS,
    DatasetRecord,
    ModelRecord,
    Observation,
    Run,
    RunKey,
    RunKind,
    StackRecord,
    StageState,
)
from zoolens.base.store.retry import damaged
from zoolens.base.store.run_names import named_run, require_kind
from zoolens.base.store.state import CHANGES_AGAIN, NEWEST, Newest
from zoolens.base.store.studies import StudyRecord, TrialRecord
from zoolens.base.store.target import refuse_missing, resolve
from zoolens.base.store.values import storable

if TYPE_CHECKING:
    import pyarrow as pa

RUNS_AT_ONCE: Final = 1_000  # whose rows are in memory together


def open_store(target: str | Path | None = None, *, must_exist: bool = False, bulk: str | None = None) -> Store:
    """Open a store, making or migrating it where needed.

    None: $ZOOLENS_STORE, else the user's own; a path: an SQLite file; postgresql://…: PostgreSQL. `must_exist`: for
    those who only read: a file that is named, also by $ZOOLENS_STORE, and is not there is an error, not a new store;
    so is a database that holds none. `bulk`: where a PostgreSQL store keeps its bulk facts, instead of $ZOOLENS_BULK: a
    folder, or s3://bucket/prefix.
    """
    if must_exist:
        refuse_missing(target)
    return Store(replace(resolve(target, bulk), must_exist=must_exist))


@contextmanager
def borrowed_store(store: Store | str | Path | None, *, must_exist: bool = False) -> Iterator[Store]:
    """A store that is open already, left open; or one opened for the occasion, and closed after it."""
    if isinstance(store, Store):
        yield store
        return
    with open_store(store, must_exist=must_exist) as opened:
        yield opened


class Store(BulkStore):
    """See the module's docstring; get one from `open_store`, and close it or use it as a context manager."""

    def __repr__(self) -> str:
        return f"<Store {self.name}>"

    # --- runs

    def begin_run(
        self,
        model: ModelRecord,
        dataset: DatasetRecord,
        stack: StackRecord,
        *,
        kind: RunKind = RunKind.EVALUATION,
        attempt: int = 0,
        resolved: Mapping[str, Any] | None = None,
    ) -> Run:
        """The run with this content key: the one that exists, with whatever it has already, or a new one. A run keeps
        its kind, except that one which the doctor tried becomes an evaluation when somebody asks for it."""
        key = RunKey(model.fingerprint, dataset.fingerprint, stack.fingerprint, attempt)

        existing = self.read(lambda connection: queries.load_runs(connection, queries.has_id(key.id)))
        asked_for = bool(existing) and existing[0].kind is RunKind.TRIAL and kind is RunKind.EVALUATION
        if existing and not asked_for and self._knows_names(model, dataset):
            return existing[0]
        return self._write(
            lambda connection: commands.create_run(
                connection, model, dataset, stack, kind=kind, attempt=attempt, resolved=resolved or {}
            )
        )

    def begin_attempt(
        self,
        model: ModelRecord,
        dataset: DatasetRecord,
        stack: StackRecord,
        *,
        kind: RunKind = RunKind.EVALUATION,
        resolved: Mapping[str, Any] | None = None,
    ) -> Run:
        """Returns a new run of this content under an attempt number that no other process gets."""
        return self._write(
            lambda connection: commands.create_run(
                connection, model, dataset, stack, kind=kind, attempt=None, resolved=resolved or {}
            )
        )

    def _knows_names(self, model: ModelRecord, dataset: DatasetRecord) -> bool:
        names = [("model", model.ref, model.fingerprint), ("dataset", dataset.name, dataset.fingerprint)]
        return self.read(lambda connection: all(queries.has_alias(connection, *name) for name in names))

    def next_attempt(self, model: str, dataset: str, stack: str) -> int:
        """Returns the first attempt number that no run with these three fingerprints has yet."""
        return self.read(lambda connection: queries.next_attempt(connection, model, dataset, stack))

    def set_resolved(self, run_id: str, resolved: Mapping[str, Any]) -> None:
        """Adds what only the open session knew to the run; keys given here replace those of the same name."""
        self._write(lambda connection: commands.merge_resolved(connection, run_id, resolved))

    def mark_evaluated(self, run_id: str, resolved: Mapping[str, Any]) -> None:
        """Does what `set_resolved` does, and records that a user's evaluation has used the run (`Run.evaluated`)."""

        def mark(connection: Connection) -> None:
            order = next_evaluation(connection)
            stamp = {EVALUATED: commands.now().isoformat(), EVALUATED_ORDER: order}
            commands.merge_resolved(connection, run_id, {**resolved, **stamp})
            remember_run(connection, run_id)

        self._write(mark)

    def runs(self, **wanted: Unpack[RunFilter]) -> list[Run]:
        """Runs, newest first. `model`, `dataset` and `runtime` are patterns with * and ?; case does not matter, and
        a model may be named with or without its @version. A dataset may also be named by the first digits of its
        fingerprint, or as name#digits, which is what datasets that share their name are called here. Runs that are no
        evaluations come only when their `kind`, or a runtime such as "claim:*", is given; what the doctor tried
        (`RunKind.TRIAL`) comes only with that kind or with `trials`. `limit`: the newest so many."""
        where, limit = tuple(queries.matches(wanted)), wanted.get("limit")
        return self.read(lambda connection: queries.load_runs(connection, *where, limit=limit))

    def run_ids(self, **wanted: Unpack[RunFilter]) -> list[str]:
        """Returns the ids of what `runs` returns; very many runs are loaded in parts with `runs_of`."""
        where, limit = tuple(queries.matches(wanted)), wanted.get("limit")
        return self.read(lambda connection: queries.load_run_ids(connection, *where, limit=limit))

    def runs_of(self, ids: Collection[str], *, stages: bool | Collection[str] = True) -> list[Run]:
        """The runs of these ids, newest first, whatever they are about. `stages`: False leaves them empty, for who
        does not ask how far a run came, and names read these alone."""
        wanted = list(ids)
        runs: list[Run] = []
        for start in range(0, len(wanted), RUNS_AT_ONCE):
            some = queries.has_id(*wanted[start : start + RUNS_AT_ONCE])
            runs += self.read(lambda connection, some=some: queries.load_runs(connection, some, stages=stages))  # type: ignore[misc]
        return runs

    def model_names(self) -> list[tuple[str, str]]:
        """Returns every name that a model was given, with the fingerprint of its content."""
        rows = self.read(
            lambda connection: queries.load_rows(connection, schema.aliases, schema.aliases.c.kind == "model")
        )
        return [(str(row["name"]), str(row["fingerprint"])) for row in rows]

    def shared_dataset_names(self) -> list[str]:
        """Names that several datasets have: each of them is called name#fingerprint."""
        return self.read(queries.shared_names)

    def dataset_names(self) -> dict[str, str]:
        """What every dataset is called, by its fingerprint."""
        return self.read(queries.dataset_names)

    def newest(self) -> Newest:
        """What was written last: another value after every change."""
        newest = self.read(lambda connection: Newest(*connection.exec_driver_sql(NEWEST).one()))
        if isinstance(newest.changed_run, bytes) or isinstance(newest.run_id, bytes):
            raise damaged(self.name, "the id of a run is not text")
        return newest

    def continues(self, newest: Newest) -> bool:
        """Whether what was newest once is still there. If not, the store was restored from an older backup, and
        `changed_since` does not tell what is different."""
        at = {schema.changes.c.run_id: newest.change, schema.runs.c.id: newest.run}
        at[schema.observations.c.checksum] = newest.observation
        kept = [select(column).where(column.table.c.seq == seq).scalar_subquery() for column, seq in at.items()]
        now = self.read(lambda connection: connection.execute(select(*kept)).one())
        return tuple(now) == (newest.changed_run, newest.run_id, newest.checksum)

    def changed_since(self, mark: int) -> tuple[int, list[str]]:
        """The mark to ask with next time, and the runs that got something new after `mark`; 0 asks for all of them.

        Processes that write to PostgreSQL may finish in another order than they began, so that the last changes are
        told once more: who asks must not mind.
        """
        change = schema.changes.c
        last = self.newest().change
        query = select(change.run_id).where(change.seq > mark).distinct()
        rows = self.read(lambda connection: connection.execute(query).all()) if last > mark else []
        # Transactions of PostgreSQL may end in another order than their changes were numbered: ask for the last again.
        seen = last if self.orders_changes else max(0, last - CHANGES_AGAIN)
        return seen, [str(row.run_id) for row in rows]

    def run(self, name: str) -> Run:
        """The run of this id, of an id that begins so, or "last", "last~1" and so on: the run that a user's own
        evaluation met last, also where all of it was there already, and the ones before it."""
        return self.read(lambda connection: named_run(connection, name, self.name))

    def measured_run(self, name: str, kinds: Collection[RunKind] = MEASURED_KINDS) -> Run:
        """Returns the run that `run` does, or raises an error if it is of none of these kinds."""
        run = self.run(name)
        require_kind(run, kinds)
        return run

    # --- stages and observations

    def finish_stage(
        self,
        run_id: str,
        stage: str,
        observations: Iterable[Observation] = (),
        *,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Store what a stage found and mark it done, both or neither. What is there already stays as it is."""
        stored = [storable(observation) for observation in observations]
        self._write(
            lambda connection: commands.set_stage(connection, run_id, stage, DONE, observations=stored, details=details)
        )

    def fail_stage(self, run_id: str, stage: str, error: str) -> None:
        """Record why a stage did not come to its end. A stage that is done stays done."""
        self._write(lambda connection: commands.set_stage(connection, run_id, stage, FAILED, error=error))

    def stages(self, run_id: str) -> dict[str, StageState]:
        """The stages that were done or failed; one that is absent was not finished."""
        return self.read(lambda connection: queries.load_stages(connection, [run_id]).get(run_id, {}))

    def observations(self, run_id: str, *, metric: str | None = None, scope: str | None = None) -> list[Observation]:
        """What is known about a run, in the order in which it was stored. `run_id`: as `run` takes it."""
        by_run = self.read_at_once(
            lambda connection: queries.load_observations(
                connection, [run_id], metrics=None if metric is None else [metric], scope=scope
            )
        )
        if not by_run and (full_id := self.run(run_id).id) != run_id:
            return self.observations(full_id, metric=metric, scope=scope)
        return by_run.get(run_id, [])

    def observations_by_stage(self, run_id: str) -> dict[str, list[Observation]]:
        """What is known about a run, by the stage that found it."""
        return self.read(lambda connection: queries.load_observations_by_stage(connection, run_id))

    def observations_by_run(
        self, run_ids: Collection[str] | None = None, *, metrics: Collection[str] | None = None
    ) -> dict[str, list[Observation]]:
        """The observations of several runs, or of all, by run. Runs without any are absent."""
        return self.read_at_once(lambda connection: queries.load_observations(connection, run_ids, metrics=metrics))

    def dated_observations(
        self, run_ids: Collection[str], metric: str
    ) -> dict[str, list[tuple[Observation, datetime]]]:
        """The observations of one metric, each with when it was stored, by run. Runs without any are absent."""
        return self.read_at_once(lambda connection: queries.load_dated_observations(connection, run_ids, metric))

    def figures(self, run_ids: Collection[str]) -> list[RunFigures]:
        """The numbers of these runs' observations without details, by run: for who looks at very many runs. Figures
        of single classes and raw timings are left out, and so are runs without any."""
        return self.read_at_once(lambda connection: list(load_figures(connection, run_ids)))

    def observation_table(self, run_ids: Collection[str] | None = None) -> pa.Table:
        """One row an observation, with what it is about; `details` is JSON text."""
        return self.read(lambda connection: queries.observation_table(connection, run_ids))

    def frame(self, run_ids: Collection[str] | None = None) -> Any:
        """`observation_table` as a pandas DataFrame."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise MissingDependency("Store.frame", "pandas", "pandas") from error
        return self.observation_table(run_ids).to_pandas()

    # --- studies and trials

    def add_study(self, study: StudyRecord) -> None:
        """Say something of a study as a whole. What was said before stays; the last word counts."""
        self._write(lambda connection: studies.add_study(connection, study, commands.now()))

    def studies(self, name: str | None = None) -> dict[str, StudyRecord]:
        """What was said last of every study, or of this one only, by name."""
        return self.read(lambda connection: studies.load_studies(connection, name))

    def add_trial(self, trial: TrialRecord) -> None:
        """Add a trial whose sides are stored to its study. Of several words about one trial the last counts."""

        def add(connection: Connection) -> None:
            if studies.add_trial(connection, trial, commands.now()):
                for side in trial.sides:
                    commands.note_change(connection, side.run)

        self._write(add)

    def trials(self, study: str) -> list[TrialRecord]:
        """The trials of one study, in the order in which they were first added. No other study is read."""
        return self.read(lambda connection: studies.load_trials(connection, study))

    def studies_with_trials(self) -> list[str]:
        """Names of the studies that have a trial."""
        return self.read(studies.names_with_trials)
