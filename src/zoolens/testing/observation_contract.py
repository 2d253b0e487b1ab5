"""What every store must do with stages and observations; part of `StoreContract`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete, text, update
from sqlalchemy.exc import DBAPIError

from zoolens.base.errors import DamagedStore, UnknownName, ZoolensError
from zoolens.base.store import figures
from zoolens.base.store.checking import check_store
from zoolens.base.store.checksums import checksum
from zoolens.base.store.records import Observation, Provenance
from zoolens.base.store.schema import figures as figures_table
from zoolens.base.store.store import Store
from zoolens.testing.store_records import begin, dataset_record, model_record, some_rows, stack_record


class ObservationContract:
    def test_observations_come_back_in_order(self, store: Store) -> None:
        run = begin(store)
        given = [
            Observation("top1", 0.718, unit="fraction", low=0.7, high=0.73, n=1000, details={"confidence": 0.95}),
            Observation("recall", 1 / 3, scope="class=10"),
            Observation("recall", 0.1, scope="class=2"),
            Observation("energy", None, provenance=Provenance.UNAVAILABLE, details={"reason": "no counter"}),
        ]
        store.finish_stage(run.id, "accuracy", iter(given), details={"seconds": 3})
        assert store.observations(run.id) == store.observations(run.id[:8]) == given
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
        figures = {found.run: found for found in store.figures([run.id, other.id])}
        assert [(kind.metric, kind.scope, kind.disturbed) for kind in figures[run.id].kinds] == [
            ("latency_p50", "batch=1", True)
        ]
        assert figures[run.id].numbers == [0.1, 0.05, 0.2]
        assert [(kind.stage, kind.unit, kind.provenance) for kind in figures[other.id].kinds] == [
            ("size", "B", Provenance.MEASURED)
        ]
        assert figures[other.id].numbers == [7.0, None, None]
        assert [found.run for found in store.figures([other.id])] == [other.id]

    def test_figures_follow_what_is_added_later_and_keep_every_digit(self, store: Store) -> None:
        run = begin(store)
        assert store.figures([run.id]) == []
        store.finish_stage(run.id, "size", [Observation("file_size", 7.0, unit="B")])
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.1 + 0.2, low=-0.0, high=1 / 3)])
        claimed = Observation("flops", 5e-324, provenance=Provenance.CLAIMED)
        store.finish_stage(run.id, "size", [Observation("file_size", 9.0), claimed])
        (found,) = store.figures([run.id])
        assert [(kind.stage, kind.metric, kind.provenance) for kind in found.kinds] == [
            ("size", "file_size", Provenance.MEASURED),
            ("accuracy", "top1", Provenance.MEASURED),
            ("size", "flops", Provenance.CLAIMED),
        ]
        assert found.numbers == [7.0, None, None, 0.1 + 0.2, 0.0, 1 / 3, 5e-324, None, None]
        assert check_store(store).damage == ()

    def test_figures_that_are_not_those_of_the_observations_are_damage(self, store: Store) -> None:
        run = begin(store)
        store.finish_stage(run.id, "size", [Observation("file_size", 7.0, unit="B")])
        other = {"run_id": run.id, "text": '[["size","file_size","","B"]]\n[8.0,null,null]'}
        with store.engine.begin() as connection:
            connection.execute(
                update(figures_table).values(text=other["text"], checksum=checksum(figures_table.name, other))
            )
        assert check_store(store).damage == (f"The figures of run {run.id} are not those of its observations.",)

    def test_a_row_of_figures_that_vanished_is_damage(self, store: Store) -> None:
        run, without = begin(store), begin(store, "zoo:other@1.0.0")
        store.finish_stage(run.id, "size", [Observation("file_size", 7.0, unit="B")])
        store.finish_stage(
            without.id, "accuracy", [Observation("recall", 0.5, scope="class=3"), Observation("x", None)]
        )
        with store.engine.begin() as connection:
            connection.execute(delete(figures_table))
        with pytest.raises(DamagedStore, match=f"the figures of run {run.id} are missing"):
            store.figures([without.id, run.id])
        assert store.figures([without.id]) == []

    def test_a_stage_that_is_finished_while_figures_are_checked_is_no_damage(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = begin(store)
        store.finish_stage(run.id, "size", [Observation("file_size", 7.0, unit="B")])
        made = figures._texts
        meanwhile = [Observation("top1", 0.5)]

        def late(connection: Any, runs: Any) -> dict[str, str]:
            if meanwhile:
                writer = threading.Thread(target=store.finish_stage, args=(run.id, "accuracy", [meanwhile.pop()]))
                writer.start()
                writer.join()
            return made(connection, runs)

        monkeypatch.setattr(figures, "_texts", late)
        assert check_store(store).damage == ()
        assert not meanwhile

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
