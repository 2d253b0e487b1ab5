"""What every store must do with runs; part of `StoreContract`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.store.records import RunKind
from zoolens.base.store.store import Store
from zoolens.testing.store_records import begin, dataset_record, model_record, stack_record


class RunContract:
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

    def test_attempts_that_begin_at_once_have_numbers_of_their_own(self, store: Store) -> None:
        begin(store)
        content = (model_record(), dataset_record(), stack_record())
        with ThreadPoolExecutor(4) as threads:
            runs = list(threads.map(lambda _: store.begin_attempt(*content, resolved={"precision": "int8"}), range(12)))
        assert sorted(run.key.attempt for run in runs) == list(range(1, 13))
        assert {run.precision for run in runs} == {"int8"}

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
