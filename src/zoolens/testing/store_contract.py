"""What every store must do. A test class derives from `StoreContract` and gives a fixture `target`: a new, empty one.

class TestMyStore(StoreContract):
    @pytest.fixture
    def target(self, tmp_path): return tmp_path / "store.sqlite"
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from zoolens.errors import StoreError, UnknownName, ZoolensError
from zoolens.store.bulk import Bulk
from zoolens.store.records import (
    DatasetRecord,
    ModelRecord,
    Observation,
    Provenance,
    Run,
    RunKind,
    StackRecord,
    fingerprint,
)
from zoolens.store.schema import metadata
from zoolens.store.series import append_series, read_series, series_names
from zoolens.store.store import Store, open_store
from zoolens.store.studies import StudyRecord, TrialRecord, TrialSide

Target = str | Path
WRITERS = 3


def model_record(name: str = "zoo:net@1.0.0", content: Any = None) -> ModelRecord:
    return ModelRecord(fingerprint(["model", content or name]), name, "onnx", {"name": name})


def dataset_record(name: str = "digits") -> DatasetRecord:
    return DatasetRecord(fingerprint(["dataset", name]), name, 100, {"classes": ["zero", "one"]})


def stack_record(runtime: str = "onnxruntime", version: str = "1.20", **lock: Any) -> StackRecord:
    identity = {"version": version, "cpu": "some"}
    return StackRecord(fingerprint([runtime, identity]), runtime, identity, {"packages": {"numpy": "2.0"}, **lock})


def begin(store: Store, model: str = "zoo:net@1.0.0", *, attempt: int = 0) -> Run:
    return store.begin_run(model_record(model), dataset_record(), stack_record(), attempt=attempt)


def some_rows(part: int, rows: int = 10) -> pa.Table:
    first = part * rows
    return pa.table({"index": list(range(first, first + rows)), "input": [f"bild-ä-{first + i}" for i in range(rows)]})


def spans(times: list[int]) -> pa.Table:
    return pa.table(
        {"time": pa.array(times, pa.int64()), "duration": [1] * len(times), "name": [f"at {t}" for t in times]}
    )


def write_everything(target: Target, start: Any = None) -> None:
    """What one of several competing processes does: open, begin, write parts, finish."""
    if start is not None:
        start.wait()
    with open_store(target) as store:
        run = begin(store)
        for part in range(5):
            store.add_part(run.id, "predictions", part, some_rows(part))
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5), Observation("top5", 0.9)])


class StoreContract:
    @pytest.fixture
    def target(self) -> Target:
        raise NotImplementedError("the test class gives the fixture `target`")

    @pytest.fixture
    def store(self, target: Target) -> Iterator[Store]:
        with open_store(target) as store:
            yield store

    # --- runs

    def test_a_run_comes_back_as_it_was_given(self, store: Store) -> None:
        before = datetime.now(UTC)
        model, dataset, stack = model_record(), dataset_record(), stack_record(pip=["a==1"])
        created = store.begin_run(model, dataset, stack, resolved={"precision": "bfloat16"})
        run = store.run(created.id)
        assert run == created
        assert (run.model, run.dataset, run.stack) == (model, dataset, stack)
        assert run.id == run.key.id
        assert run.stages == {}
        assert (run.precision, run.stack.version) == ("bfloat16", "1.20")
        assert before - timedelta(seconds=1) <= run.created <= datetime.now(UTC) + timedelta(seconds=1)
        assert run.created.tzinfo is UTC

    def test_the_same_content_is_the_same_run(self, store: Store) -> None:
        first = begin(store)
        assert begin(store) == first
        assert begin(store, attempt=1).id != first.id
        assert len(store.runs()) == 2

    def test_attempts_count_up(self, store: Store) -> None:
        model, dataset, stack = model_record(), dataset_record(), stack_record()
        key = (model.fingerprint, dataset.fingerprint, stack.fingerprint)
        assert store.next_attempt(*key) == 0
        begin(store)
        assert store.next_attempt(*key) == 1
        begin(store, attempt=1)
        assert store.next_attempt(*key) == 2

    def test_each_attempt_keeps_its_own_lock(self, store: Store) -> None:
        model, dataset = model_record(), dataset_record()
        old = store.begin_run(model, dataset, stack_record(day="monday"))
        new = store.begin_run(model, dataset, stack_record(day="tuesday"), attempt=1)
        assert [store.run(run.id).stack.lock["day"] for run in (old, new)] == ["monday", "tuesday"]

    def test_resolved_facts_are_merged(self, store: Store) -> None:
        run = begin(store)
        store.set_resolved(run.id, {"provider": "CPU", "threads": 1})
        store.set_resolved(run.id, {"threads": 2})
        assert store.run(run.id).resolved == {"provider": "CPU", "threads": 2}

    def test_runs_are_listed_newest_first_and_filtered(self, store: Store) -> None:
        names = ["zoo:net_a@1.0.0", "zoo:netXa@1.0.0", "other:net%@2.0.0"]
        ids = [begin(store, name).id for name in names]
        elsewhere = store.begin_run(model_record(names[0]), dataset_record("letters"), stack_record("openvino")).id
        assert [run.id for run in store.runs()] == [elsewhere, *reversed(ids)]
        assert [run.id for run in store.runs(limit=2)] == [elsewhere, ids[2]]

        def found(**pattern: Any) -> set[str]:
            return {run.id for run in store.runs(**pattern)}

        assert found(model="zoo:*") == {ids[0], ids[1], elsewhere}
        assert found(model="ZOO:net_a") == {ids[0], elsewhere}  # without version; _ is not a wildcard
        assert found(model="zoo:net?a@1.0.0") == {ids[0], ids[1], elsewhere}
        assert found(model="other:net%") == {ids[2]}
        assert found(model="%") == set()
        assert found(dataset="let*") == {elsewhere}
        assert found(runtime="onnx*") == set(ids)
        assert found(model="zoo:*", runtime="openvino") == {elsewhere}

    def test_a_model_is_found_under_every_name_it_was_given(self, store: Store) -> None:
        first = store.begin_run(model_record("a:net@1.0.0", "same bytes"), dataset_record(), stack_record())
        second = store.begin_run(model_record("b:net@1.0.0", "same bytes"), dataset_record(), stack_record())
        assert first.id == second.id
        assert [run.id for run in store.runs(model="b:net")] == [first.id]

    def test_other_kinds_of_runs_are_listed_only_where_they_are_asked_for(self, store: Store) -> None:
        made = {
            kind: store.begin_run(
                model_record(f"zoo:{kind}@1"), dataset_record(), stack_record(f"by:{kind}"), kind=kind
            )
            for kind in RunKind
        }
        assert {kind: store.run(run.id).kind for kind, run in made.items()} == {kind: kind for kind in RunKind}
        assert [run.kind for run in store.runs()] == [RunKind.EVALUATION]
        assert {run.kind for run in store.runs(trials=True)} == {RunKind.EVALUATION, RunKind.TRIAL}
        for kind, run in made.items():
            assert store.runs(kind=kind) == [run]
        assert {run.kind for run in store.runs(runtime="by:*")} == set(RunKind) - {RunKind.TRIAL}
        assert store.run("last").kind is RunKind.EVALUATION
        assert store.run_ids(kind=RunKind.CLAIM) == [made[RunKind.CLAIM].id]

    def test_what_the_doctor_tried_becomes_an_evaluation_when_somebody_asks_for_it(self, store: Store) -> None:
        about = (model_record(), dataset_record(), stack_record())
        assert store.begin_run(*about, kind=RunKind.TRIAL).kind is RunKind.TRIAL
        assert store.begin_run(*about).kind is RunKind.EVALUATION
        assert store.begin_run(*about, kind=RunKind.TRIAL).kind is RunKind.EVALUATION
        assert [run.kind for run in store.runs()] == [RunKind.EVALUATION]

    def test_a_run_is_found_by_prefix_or_age(self, store: Store) -> None:
        ids = [begin(store, attempt=attempt).id for attempt in range(17)]  # two of 17 must share a first digit
        assert store.run("last").id == ids[-1]
        assert store.run("last~16").id == ids[0]
        assert store.run(ids[5][:12]).id == ids[5]
        shared = next(id_[0] for id_ in ids if sum(other[0] == id_[0] for other in ids) > 1)
        with pytest.raises(ZoolensError, match="could be any of"):
            store.run(shared)

    def test_an_unknown_run_is_explained(self, store: Store) -> None:
        with pytest.raises(UnknownName, match="no runs yet"):
            store.run("last")
        run = begin(store)
        with pytest.raises(UnknownName, match="has 1 runs"):
            store.run("last~1")
        for name in ("zz", "%", "", run.id + "0"):
            with pytest.raises(UnknownName):
                store.run(name)
        wrong = run.id[:-1] + ("0" if run.id[-1] != "0" else "1")
        with pytest.raises(UnknownName, match=run.id):
            store.run(wrong)

    # --- stages and observations

    def test_observations_come_back_in_order(self, store: Store) -> None:
        run = begin(store)
        given = [
            Observation("top1", 0.718, unit="fraction", low=0.7, high=0.73, n=1000, details={"confidence": 0.95}),
            Observation("recall", 1 / 3, scope="class=10"),
            Observation("recall", 0.1, scope="class=2"),
            Observation("energy", None, provenance=Provenance.UNAVAILABLE, details={"reason": "no counter"}),
        ]
        store.finish_stage(run.id, "accuracy", iter(given), details={"seconds": 3})
        assert store.observations(run.id) == given
        assert store.observations(run.id, metric="recall") == given[1:3]
        assert store.observations(run.id, metric="recall", scope="class=2") == [given[2]]
        assert store.observations_by_run(metrics=["top1"]) == {run.id: [given[0]]}
        state = store.stages(run.id)["accuracy"]
        assert state.done
        assert state.details == {"seconds": 3}
        assert store.run(run.id).stages == {"accuracy": "done"}

    def test_what_was_observed_first_stays(self, store: Store) -> None:
        run = begin(store)
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)], details={"by": "first"})
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.6), Observation("top5", 0.9)])
        store.finish_stage(run.id, "other", [Observation("top1", 0.7)])
        assert [(o.metric, o.value) for o in store.observations(run.id)] == [("top1", 0.5), ("top5", 0.9)]
        assert store.stages(run.id)["accuracy"].details == {"by": "first"}

    def test_a_failed_stage_may_be_done_later_but_not_the_reverse(self, store: Store) -> None:
        run = begin(store)
        store.fail_stage(run.id, "latency", "killed")
        store.fail_stage(run.id, "latency", "out of memory")
        assert store.run(run.id).stages == {"latency": "failed: out of memory"}
        store.finish_stage(run.id, "latency")
        store.fail_stage(run.id, "latency", "too late")
        assert store.run(run.id).stages == {"latency": "done"}
        assert store.stages(run.id)["latency"].error is None

    def test_writing_to_a_run_that_does_not_exist_is_refused(self, store: Store) -> None:
        writes: list[Callable[[], object]] = [
            lambda: store.add_part("feed", "predictions", 0, some_rows(0)),
            lambda: store.finish_stage("feed", "accuracy", [Observation("top1", 1.0)]),
            lambda: store.fail_stage("feed", "accuracy", "reason"),
            lambda: store.set_resolved("feed", {}),
        ]
        for write in writes:
            with pytest.raises(UnknownName):
                write()
        with pytest.raises(UnknownName):
            store.observations("feed")
        assert store.stages("feed") == {}

    def test_a_stage_that_cannot_be_stored_leaves_nothing(self, store: Store) -> None:
        run = begin(store)
        too_large = Observation("bad", 1.0, n=2**80)
        with pytest.raises((ZoolensError, OverflowError)):
            store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5), too_large])
        assert store.observations(run.id) == []
        assert store.stages(run.id) == {}

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE observations SET value = 1",
            "DELETE FROM observations",
            "UPDATE parts SET sha256 = ''",
            "DELETE FROM parts",
        ],
    )
    def test_facts_cannot_be_changed_by_any_program(self, store: Store, change: str) -> None:
        run = begin(store)
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
        store.add_part(run.id, "predictions", 0, some_rows(0))
        with pytest.raises(DBAPIError, match="append-only"), store.engine.begin() as connection:
            connection.execute(text(change))
        assert [o.value for o in store.observations(run.id)] == [0.5]
        assert store.table(run.id, "predictions") == some_rows(0)
        assert store.table(run.id[:8], "predictions") == some_rows(0)
        assert len(repr(run)) < 400
        assert run.id in repr(run)

    # --- awkward values

    def test_any_text_can_be_stored(self, store: Store) -> None:
        awkward = "Größe 模型 🦓 'quote\" \\back\nline"
        run = store.begin_run(model_record(awkward), dataset_record(awkward), stack_record(note=awkward))
        store.finish_stage(run.id, awkward, [Observation(awkward, 1.0, scope=awkward, details={awkward: awkward})])
        [observation] = store.observations(run.id)
        assert (observation.metric, observation.scope, observation.details) == (awkward, awkward, {awkward: awkward})
        assert store.run(run.id).model.ref == awkward
        assert store.run(run.id).stages == {awkward: "done"}

    def test_text_no_database_takes_is_made_storable(self, store: Store) -> None:
        run = begin(store)
        store.fail_stage(run.id, "accuracy", "nul \0 and surrogate \udcff")
        store.finish_stage(run.id, "latency", [Observation("x", 1.0, details={"k\0": "\udcff"})])
        assert store.stages(run.id)["accuracy"].error == "nul \ufffd and surrogate \\udcff"
        assert store.observations(run.id)[0].details == {"k\ufffd": "\\udcff"}

    def test_what_is_not_finite_is_stored_as_none_and_named(self, store: Store) -> None:
        run = begin(store)
        given = [
            Observation("a", float("nan")),
            Observation("b", 1.0, low=float("-inf"), high=float("inf"), details={"x": [float("nan"), 1.5]}),
        ]
        store.finish_stage(run.id, "accuracy", given)
        a, b = store.observations(run.id)
        assert (a.value, a.details, a.provenance) == (None, {"not_finite": {"value": "nan"}}, Provenance.MEASURED)
        assert (b.value, b.low, b.high) == (1.0, None, None)
        assert b.details == {"x": ["NaN", 1.5], "not_finite": {"low": "-inf", "high": "inf"}}

    def test_numpy_values_and_exact_floats(self, store: Store) -> None:
        run = begin(store)
        values = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, 2.0**53]
        given = [Observation("x", value, scope=str(i)) for i, value in enumerate(values)]
        plain = Observation("y", np.float32(0.5), n=np.int64(7), details={"a": np.arange(2), "b": np.bool_(True)})  # type: ignore[arg-type]
        store.finish_stage(run.id, "accuracy", [*given, plain])
        *floats, last = store.observations(run.id)
        assert [o.value for o in floats] == values
        assert last == Observation("y", 0.5, n=7, details={"a": [0, 1], "b": True})

    def test_large_json(self, store: Store) -> None:
        large: dict[str, Any] = {
            "labels": [f"class {i} ✓" for i in range(50_000)],
            "nested": {"a": [{"b": None}] * 100},
        }
        run = store.begin_run(model_record(), dataset_record(), stack_record(**large))
        assert store.run(run.id).stack.lock["labels"] == large["labels"]
        assert store.run(run.id).stack.lock["nested"] == large["nested"]

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

    # --- bulk facts

    def test_parts_are_joined_by_number(self, store: Store) -> None:
        run = begin(store)
        for part in (2, 0, 11):
            store.add_part(run.id, "predictions", part, some_rows(part))
        store.add_part(run.id, "latency-samples", 0, pa.table({"seconds": [0.1]}))
        parts = store.parts(run.id, "predictions")
        assert [part.part for part in parts] == [0, 2, 11]
        assert [part.rows for part in parts] == [10, 10, 10]
        assert all(part.path.stat().st_size == part.bytes for part in parts)
        assert store.table(run.id, "predictions") == pa.concat_tables([some_rows(0), some_rows(2), some_rows(11)])
        assert [table.num_rows for table in store.iter_tables(run.id, "predictions")] == [10, 10, 10]
        assert store.kinds(run.id) == ["latency-samples", "predictions"]

    def test_a_part_that_is_there_stays(self, store: Store) -> None:
        run = begin(store)
        assert store.add_part(run.id, "predictions", 0, some_rows(0))
        assert not store.add_part(run.id, "predictions", 0, some_rows(7))
        assert store.table(run.id, "predictions") == some_rows(0)
        assert store.table(run.id[:8], "predictions") == some_rows(0)
        assert len(repr(run)) < 400
        assert run.id in repr(run)
        assert len(list(store.bulk_dir.glob("*/*"))) == 1

    def test_bulk_facts_that_are_not_there_are_explained(self, store: Store) -> None:
        run = begin(store)
        store.add_part(run.id, "predictions", 0, some_rows(0))
        assert store.parts(run.id, "prediction") == []
        with pytest.raises(UnknownName, match="predictions"):
            store.table(run.id, "prediction")

    def test_a_series_is_read_by_time(self, store: Store) -> None:
        run = begin(store)
        assert series_names(store, run.id) == []
        for times in ([30, 10], [20], [5, 40]):
            append_series(store, run.id, "spans", spans(times))
        append_series(store, run.id, "events", pa.table({"time": pa.array([1], pa.int64())}))
        found = read_series(store, run.id, "spans")
        assert found["time"].to_pylist() == [5, 10, 20, 30, 40]
        assert found["name"].to_pylist() == ["at 5", "at 10", "at 20", "at 30", "at 40"]
        assert read_series(store, run.id, "spans", start=10, end=30)["time"].to_pylist() == [10, 20]
        assert read_series(store, run.id, "spans", start=99).num_rows == 0
        assert series_names(store, run.id) == ["events", "spans"]
        with pytest.raises(UnknownName, match="spans"):
            read_series(store, run.id, "span")

    def test_several_writers_append_to_one_series(self, store: Store) -> None:
        run = begin(store)
        with ThreadPoolExecutor(4) as pool:
            numbers = list(pool.map(lambda time: append_series(store, run.id, "spans", spans([time])), range(12)))
        assert sorted(numbers) == list(range(12))
        assert read_series(store, run.id, "spans")["time"].to_pylist() == list(range(12))

    def test_a_series_without_times_is_refused(self, store: Store) -> None:
        run = begin(store)
        with pytest.raises(ZoolensError, match="no column 'time'"):
            append_series(store, run.id, "spans", pa.table({"name": ["a"]}))
        with pytest.raises(ZoolensError, match="cannot be named"):
            append_series(store, run.id, "My spans", spans([1]))

    def test_a_damaged_part_is_named(self, store: Store) -> None:
        run = begin(store)
        for part in range(3):
            store.add_part(run.id, "predictions", part, some_rows(part))
        flipped, cut, lost = (part.path for part in store.parts(run.id, "predictions"))
        good = flipped.read_bytes()
        flipped.write_bytes(good[:20] + bytes([good[20] ^ 1]) + good[21:])
        with pytest.raises(StoreError, match=rf"part 0 of predictions of run {run.id}.*SHA-256"):
            store.table(run.id, "predictions")
        flipped.write_bytes(good)
        cut.write_bytes(cut.read_bytes()[:-1])
        with pytest.raises(StoreError, match=r"part 1 of predictions.*bytes instead of"):
            store.table(run.id, "predictions")
        lost.unlink()
        tables = store.iter_tables(run.id, "predictions")
        assert next(tables) == some_rows(0)
        with pytest.raises(StoreError):
            next(tables)

    def test_what_a_crash_leaves_behind_is_ignored_and_swept(self, store: Store) -> None:
        run = begin(store)
        store.add_part(run.id, "predictions", 0, some_rows(0))
        [kept] = store.parts(run.id, "predictions")
        orphan = store.bulk_dir / Bulk(store.bulk_dir).write(run.id, "predictions", 1, some_rows(1)).name
        half = orphan.with_name(orphan.name + ".tmp")
        half.write_bytes(b"PAR1")
        foreign = orphan.with_name("notes.txt")
        foreign.write_text("not ours")
        assert store.table(run.id, "predictions") == some_rows(0)
        assert store.table(run.id[:8], "predictions") == some_rows(0)
        assert len(repr(run)) < 400
        assert run.id in repr(run)
        assert store.sweep() == []  # too young: somebody may be about to register it
        assert set(store.sweep(older_than=0)) == {orphan, half}
        assert kept.path.exists()
        assert foreign.exists()
        store.add_part(run.id, "predictions", 1, some_rows(1))
        assert store.table(run.id, "predictions").num_rows == 20

    # --- tables

    def test_the_observation_table_says_what_each_row_is_about(self, store: Store) -> None:
        run = store.begin_run(model_record(), dataset_record(), stack_record(), resolved={"precision": "int8"})
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5, unit="fraction", n=4, details={"k": 1})])
        other = begin(store, "zoo:other@1.0.0")
        store.finish_stage(other.id, "accuracy", [Observation("top1", float("nan"))])
        rows = store.observation_table().to_pylist()
        assert [row["run"] for row in rows] == [run.id, other.id]
        about = {"model": "zoo:net@1.0.0", "dataset": "digits", "runtime": "onnxruntime", "runtime_version": "1.20"}
        fact = {"metric": "top1", "scope": "", "value": 0.5, "unit": "fraction", "n": 4, "provenance": "measured"}
        rest = {"precision": "int8", "stage": "accuracy", "low": None, "high": None, "details": '{"k":1}'}
        created = rows[0].pop("created")
        assert rows[0] == {"run": run.id, **about, **fact, **rest}
        assert abs(created - datetime.now(UTC)) < timedelta(minutes=5)
        assert rows[1]["value"] is None
        assert store.observation_table([other.id]).num_rows == 1

    def test_figures_are_the_numbers_without_details(self, store: Store) -> None:
        run, other = begin(store), begin(store, "zoo:other@1.0.0")
        timing = Observation(
            "latency_p50", 0.1, scope="batch=1", unit="s", low=0.05, high=0.2, details={"disturbed": True}
        )
        raw = Observation("latency_p50", 0.2, scope="batch=1,raw", unit="s")
        of_a_class = Observation("recall", 0.5, scope="class=3")
        store.finish_stage(run.id, "latency", [timing, raw, of_a_class, Observation("top1", None)])
        store.finish_stage(other.id, "size", [Observation("file_size", 7.0, unit="B")])
        figures = store.figures([run.id, other.id])
        assert [(one.metric, one.scope, one.value, one.low, one.disturbed) for one in figures[run.id]] == [
            ("latency_p50", "batch=1", 0.1, 0.05, True)
        ]
        assert [(one.run, one.stage, one.unit, one.provenance) for one in figures[other.id]] == [
            (other.id, "size", "B", Provenance.MEASURED)
        ]
        assert store.figures([other.id]).keys() == {other.id}

    def test_every_name_of_a_model_is_told(self, store: Store) -> None:
        begin(store, "zoo:net@1.0.0")
        store.begin_run(model_record("other:net@1", "zoo:net@1.0.0"), dataset_record(), stack_record())
        content = model_record("zoo:net@1.0.0").fingerprint
        assert sorted(store.model_names()) == [("other:net@1", content), ("zoo:net@1.0.0", content)]

    def test_an_empty_store_has_an_empty_table(self, store: Store) -> None:
        assert store.observation_table().num_rows == 0
        assert "metric" in store.observation_table().column_names

    def test_the_frame_is_the_table(self, store: Store) -> None:
        pytest.importorskip("pandas")
        run = begin(store)
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
        frame = store.frame()
        assert list(frame["value"]) == [0.5]
        assert list(frame.columns) == store.observation_table().column_names

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
        assert len(list(store.bulk_dir.glob("*/*"))) == 4  # the slower threads cleaned up after themselves

    def test_processes_race_for_a_store_that_does_not_exist_yet(self, target: Target) -> None:
        context = multiprocessing.get_context("spawn")
        start = context.Barrier(WRITERS)
        writers: list[SpawnProcess] = [
            context.Process(target=write_everything, args=(target, start)) for _ in range(WRITERS)
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
            assert len(list(store.bulk_dir.glob("*/*"))) == 5

    # --- the schema

    def test_migrations_make_the_declared_schema(self, store: Store) -> None:
        from alembic.autogenerate import compare_metadata
        from alembic.migration import MigrationContext

        with store.engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": "zoolens_version"})
            assert compare_metadata(context, metadata) == []

    def test_a_store_from_the_future_is_refused(self, target: Target) -> None:
        with open_store(target) as store, store.engine.begin() as connection:
            connection.execute(text("UPDATE zoolens_version SET version_num = '9999'"))
        with pytest.raises(StoreError, match="newer zoolens"):
            open_store(target)
