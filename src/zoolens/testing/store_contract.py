"""What every store must do. A test class derives from `StoreContract` and gives a fixture `target`: a new, empty one.

class TestMyStore(StoreContract):
    @pytest.fixture
    def target(self, tmp_path): return tmp_path / "store.sqlite"
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from zoolens.base.errors import StoreError
from zoolens.base.store.records import Observation
from zoolens.base.store.schema import metadata
from zoolens.base.store.store import Store, open_store
from zoolens.base.store.studies import StudyRecord, TrialRecord, TrialSide
from zoolens.testing.agent_contract import AgentContract
from zoolens.testing.browsing_contract import BrowsingContract
from zoolens.testing.bulk_contract import BulkContract
from zoolens.testing.job_contract import JobContract
from zoolens.testing.observation_contract import ObservationContract
from zoolens.testing.pass_contract import PassContract
from zoolens.testing.run_contract import RunContract
from zoolens.testing.store_records import begin, some_rows

Target = str | Path
WRITERS = 3


def write_everything(variables: Mapping[str, str], target: Target, start: Any) -> None:
    """What one of several competing processes does, which begin at once: open, begin, write parts, finish."""
    os.environ.clear()  # the server that forked it has those of the moment at which it was started
    os.environ.update(variables)
    start.wait()
    with open_store(target) as store:
        run = begin(store)
        for part in range(5):
            store.add_part(run.id, "predictions", part, some_rows(part))
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5), Observation("top5", 0.9)])


class StoreContract(
    RunContract, ObservationContract, BulkContract, BrowsingContract, AgentContract, JobContract, PassContract
):
    @pytest.fixture
    def target(self) -> Target:
        raise NotImplementedError("the test class gives the fixture `target`")

    @pytest.fixture
    def store(self, target: Target) -> Iterator[Store]:
        with open_store(target) as store:
            yield store

    # --- studies and trials

    def test_of_several_words_about_a_study_the_last_counts(self, store: Store) -> None:
        first, last = StudyRecord("s", ("torch", "jax"), {"n": (1, 2)}), StudyRecord("s", ("torch",), removed=True)
        store.add_study(first)
        store.add_study(first)
        assert store.studies() == {"s": StudyRecord("s", ("torch", "jax"), {"n": [1, 2]})}
        store.add_study(last)
        store.add_study(StudyRecord("other", ()))
        assert store.studies("s") == {"s": last}
        store.add_study(first)
        assert not store.studies()["s"].removed
        assert set(store.studies()) == {"s", "other"}

    def test_a_trial_is_read_with_its_study_and_no_other(self, store: Store) -> None:
        runs = [begin(store, attempt=attempt).id for attempt in range(2)]
        sides = (TrialSide("torch", runs[0]), TrialSide("jax", runs[1], "no such device"))
        given = TrialRecord("s", "t1", {"learning_rate": np.float64(0.1), "name": "adam"}, sides, ("a note",), {"k": 1})
        for _ in range(2):
            store.add_trial(given)
            store.add_trial(TrialRecord("other", "t1", {}, sides[:1]))
        assert store.trials("s") == [given]
        assert store.trials("nothing") == []
        assert sorted(store.studies_with_trials()) == ["other", "s"]
        mended = TrialRecord("s", "t1", {}, (TrialSide("torch", runs[0]), TrialSide("jax", runs[1])))
        store.add_trial(mended)
        store.add_trial(TrialRecord("s", "t0", {}, ()))
        assert [trial.name for trial in store.trials("s")] == ["t1", "t0"]
        assert store.trials("s")[0] == mended

    def test_a_trial_needs_the_runs_of_its_sides(self, store: Store) -> None:
        with pytest.raises(StoreError):
            store.add_trial(TrialRecord("s", "t", {}, (TrialSide("torch", "0" * 16),)))
        assert store.trials("s") == []

    @pytest.mark.parametrize("table", ["studies", "trials", "trial_sides"])
    def test_studies_and_trials_are_append_only(self, store: Store, table: str) -> None:
        store.add_study(StudyRecord("s", ()))
        store.add_trial(TrialRecord("s", "t", {}, (TrialSide("torch", begin(store).id),)))
        with pytest.raises(DBAPIError, match="append-only"), store.engine.begin() as connection:
            connection.execute(text(f"DELETE FROM {table}"))  # noqa: S608

    # --- several at once, and again

    def test_a_run_is_resumed_by_the_next_process(self, target: Target) -> None:
        with open_store(target) as store:
            run = begin(store)
            store.add_part(run.id, "predictions", 0, some_rows(0))
            store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
        with open_store(target) as store:
            again = begin(store)
            assert again.id == run.id
            assert again.stages == {"accuracy": "done"}
            assert [part.part for part in store.parts(run.id, "predictions")] == [0]
            assert store.table(run.id, "predictions") == some_rows(0)
        assert store.table(run.id[:8], "predictions") == some_rows(0)
        assert len(repr(run)) < 400
        assert run.id in repr(run)

    def test_threads_share_one_store(self, store: Store) -> None:
        start = threading.Barrier(8)

        def work(worker: int) -> str:
            start.wait()
            run = begin(store)
            for part in range(4):
                store.add_part(run.id, "predictions", part, some_rows(part))
            store.finish_stage(run.id, f"stage{worker}", [Observation("mine", worker, scope=str(worker))])
            store.finish_stage(run.id, "shared", [Observation("first", worker)])
            return run.id

        with ThreadPoolExecutor(8) as pool:
            [run_id] = set(pool.map(work, range(8)))
        assert store.table(run_id, "predictions") == pa.concat_tables([some_rows(part) for part in range(4)])
        assert {o.value for o in store.observations(run_id, metric="mine")} == set(range(8))
        assert len(store.observations(run_id, metric="first")) == 1
        assert len(store.bulk.place.names()) == 4  # the slower threads cleaned up after themselves

    def test_processes_race_for_a_store_that_does_not_exist_yet(self, target: Target) -> None:
        context = multiprocessing.get_context("forkserver")  # which imports what they need once for all of them
        context.set_forkserver_preload([__name__, "sqlalchemy.dialects.sqlite", "pyarrow.parquet"])
        start = context.Barrier(WRITERS)
        writers = [
            context.Process(target=write_everything, args=(dict(os.environ), target, start)) for _ in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(120)
        assert [writer.exitcode for writer in writers] == [0] * WRITERS
        with open_store(target) as store:
            [run] = store.runs()
            assert store.table(run.id, "predictions") == pa.concat_tables([some_rows(part) for part in range(5)])
            assert [(o.metric, o.value) for o in store.observations(run.id)] == [("top1", 0.5), ("top5", 0.9)]
            assert len(store.bulk.place.names()) == 5

    # --- the schema

    def test_migrations_make_the_declared_schema(self, store: Store) -> None:
        from alembic.autogenerate import compare_metadata
        from alembic.migration import MigrationContext

        with store.engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": "zoolens_version"})
            assert compare_metadata(context, metadata) == []

    def test_a_store_that_a_newer_version_migrates_is_refused_while_it_is_open(self, target: Target) -> None:
        """An old client would read what it does not know, or write rows that lack something."""
        with open_store(target) as store, open_store(target) as newer:
            run = begin(store)
            store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
            with newer.engine.begin() as connection:
                connection.execute(text("UPDATE zoolens_version SET version_num = '9999'"))
            for use in (
                store.runs,
                lambda: store.observations(run.id),
                lambda: begin(store, "zoo:other@1.0.0"),
                lambda: store.finish_stage(run.id, "size", [Observation("bytes", 7)]),
                lambda: store.add_part(run.id, "predictions", 0, some_rows(0)),
                lambda: store.add_study(StudyRecord("s", ())),
            ):
                with pytest.raises(StoreError, match="migrated by a newer zoolens while it was open"):
                    use()
            with newer.engine.begin() as connection:
                for table in ("observations", "runs"):
                    assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar() == 1  # noqa: S608
                connection.execute(text("ALTER TABLE observations RENAME COLUMN scope TO place"))
            with pytest.raises(StoreError, match="migrated by a newer zoolens while it was open"):
                store.observations(run.id)

    def test_a_store_from_the_future_is_refused(self, target: Target) -> None:
        with open_store(target) as store, store.engine.begin() as connection:
            connection.execute(text("UPDATE zoolens_version SET version_num = '9999'"))
        with pytest.raises(StoreError, match="newer zoolens"):
            open_store(target)
