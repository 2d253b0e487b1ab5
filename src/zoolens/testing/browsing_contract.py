"""What lists of runs must do on every store; part of `StoreContract`."""

from __future__ import annotations

from datetime import UTC, timedelta

from zoolens.base.store.browsing import (
    FigureOrder,
    RunsWanted,
    TimeOrder,
    best_runs,
    count_facets,
    figures_stored,
    history,
    page_of_runs,
)
from zoolens.base.store.model_activity import model_activity
from zoolens.base.store.records import DatasetRecord, Observation, Run, RunKind, fingerprint
from zoolens.base.store.run_columns import RunIndex, RunState
from zoolens.base.store.store import Store
from zoolens.testing.store_records import dataset_record, model_record, stack_record


def _add(
    store: Store,
    model: str,
    top1: float | None = None,
    *,
    runtime: str = "onnxruntime",
    data: DatasetRecord | None = None,
    kind: RunKind = RunKind.EVALUATION,
    error: str | None = None,
) -> Run:
    run = store.begin_run(model_record(model), data or dataset_record(), stack_record(runtime), kind=kind)
    if top1 is not None:
        facts = [Observation("top1", top1), Observation("recall", 0.5, scope="class=0", unit="fraction")]
        store.finish_stage(run.id, "metric:topk", facts)
    if error is not None:
        store.fail_stage(run.id, "latency", error)
    return run


class BrowsingContract:
    def test_runs_are_filtered_by_every_part(self, store: Store) -> None:
        a = _add(store, "zoo:alpha@1.0.0", 0.5)
        b = _add(store, "zoo:beta@1.0.0", 0.7, runtime="torch", data=dataset_record("Letters"))
        failed = _add(store, "zoo:alpha@2.0.0", 0.6, error="no memory")
        begun = _add(store, "other:alpha@1.0.0")
        claim = _add(store, "zoo:beta@1.0.0", 0.9, runtime="claim:paper", kind=RunKind.CLAIM)
        index = RunIndex(store)

        def ids(wanted: RunsWanted) -> list[str]:
            return list(page_of_runs(index, wanted).ids)

        assert ids(RunsWanted()) == [begun.id, failed.id, b.id, a.id]
        assert ids(RunsWanted(kinds=())) == [claim.id, begun.id, failed.id, b.id, a.id]
        assert ids(RunsWanted(models=("ZOO:alpha",))) == [failed.id, a.id]
        assert ids(RunsWanted(models=("zoo:alpha@1*", "*:beta"))) == [b.id, a.id]
        assert ids(RunsWanted(datasets=("letters",))) == [b.id]
        assert ids(RunsWanted(datasets=(dataset_record("Letters").fingerprint[:8],))) == [b.id]
        assert ids(RunsWanted(runtimes=("tor?h",))) == [b.id]
        assert ids(RunsWanted(states=(RunState.FAILED, RunState.BEGUN))) == [begun.id, failed.id]
        assert ids(RunsWanted(states=(RunState.MEASURED,))) == [b.id, a.id]
        assert ids(RunsWanted(text="ALPHA other")) == [begun.id]
        assert ids(RunsWanted(text=a.id[:6])) == [a.id]
        assert ids(RunsWanted(text="no such")) == []
        assert ids(RunsWanted(since=b.created, until=begun.created)) == [failed.id, b.id]
        zone = b.created.astimezone(UTC) + timedelta(days=1)
        assert ids(RunsWanted(since=zone)) == []

    def test_pages_are_sorted_and_runs_without_the_figure_come_last(self, store: Store) -> None:
        runs = [_add(store, f"zoo:m{number}@1", value) for number, value in enumerate((0.5, None, 0.9, 0.7))]
        index = RunIndex(store)
        best_first = [runs[2].id, runs[3].id, runs[0].id, runs[1].id]
        whole = page_of_runs(index, order=FigureOrder("top1"))
        assert (list(whole.ids), whole.total, whole.lacking) == (best_first, 4, 1)
        assert list(page_of_runs(index, order=FigureOrder("top1"), limit=2, offset=1).ids) == best_first[1:3]
        worst_first = page_of_runs(index, order=FigureOrder("top1", descending=False))
        assert list(worst_first.ids) == [runs[0].id, runs[3].id, runs[2].id, runs[1].id]
        assert list(page_of_runs(index, order=TimeOrder(descending=False)).ids) == [run.id for run in runs]
        assert page_of_runs(index, offset=10).ids == ()

    def test_each_facet_is_counted_under_the_filters_of_the_others(self, store: Store) -> None:
        _add(store, "zoo:a@1", 0.5)
        _add(store, "zoo:a@1", 0.5, runtime="torch")
        _add(store, "zoo:b@1", 0.5, runtime="torch", data=dataset_record("letters"), error="no memory")
        _add(store, "zoo:b@1", kind=RunKind.TRIAL)
        facets = count_facets(RunIndex(store), RunsWanted(runtimes=("torch",)))
        assert dict(facets.runtimes) == {"torch": 2, "onnxruntime": 1}
        assert dict(facets.datasets) == {"digits": 1, "letters": 1}
        assert dict(facets.states) == {RunState.FAILED: 1, RunState.MEASURED: 1}
        assert dict(facets.kinds) == {RunKind.EVALUATION: 2}
        chosen = count_facets(RunIndex(store), RunsWanted(datasets=("digits",), text="b"))
        assert dict(chosen.datasets) == {"letters": 1, "digits": 0}

    def test_datasets_that_share_their_name_are_told_apart(self, store: Store) -> None:
        twins = [DatasetRecord(fingerprint(["twin", number]), "twin", 10) for number in range(2)]
        runs = [_add(store, "zoo:a@1", 0.5, data=twin) for twin in twins]
        index = RunIndex(store)
        names = count_facets(index).datasets
        assert len(names) == 2
        listed = [page_of_runs(index, RunsWanted(datasets=(name,))).ids for name in names]
        assert sorted(listed) == sorted((run.id,) for run in runs)

    def test_what_is_stored_later_is_seen(self, store: Store) -> None:
        first = _add(store, "zoo:a@1", 0.5)
        index = RunIndex(store)
        assert page_of_runs(index, order=FigureOrder("top1")).ids == (first.id,)
        second = _add(store, "new:b@1", data=dataset_record("letters"), runtime="torch")
        assert page_of_runs(index, RunsWanted(states=(RunState.BEGUN,))).ids == (second.id,)
        store.finish_stage(second.id, "metric:topk", [Observation("top1", 0.6)])
        assert page_of_runs(index, RunsWanted(text="new: torch letters"), FigureOrder("top1")).ids == (second.id,)
        assert page_of_runs(index, order=FigureOrder("top1")).ids == (second.id, first.id)
        store.fail_stage(second.id, "latency", "no memory")
        assert page_of_runs(index, RunsWanted(states=(RunState.FAILED,))).ids == (second.id,)
        renamed = store.begin_run(model_record("other:name@2", "new:b@1"), first.dataset, first.stack)
        assert page_of_runs(index, RunsWanted(models=("other:name",))).ids == (renamed.id, second.id)

    def test_what_the_runs_of_a_model_amount_to(self, store: Store) -> None:
        runs = [_add(store, "zoo:a@1", 0.5), _add(store, "zoo:a@2", 0.4, data=dataset_record("letters"), error="no")]
        runs += [_add(store, "zoo:a@1", 0.8, runtime="torch"), _add(store, "zoo:b@1", kind=RunKind.TRIAL)]
        index = RunIndex(store)
        activity = model_activity(index, spans=5)
        assert (activity.since, activity.until) == (runs[0].created, runs[2].created)
        assert set(activity.models) == {"zoo:a@1", "zoo:a@2"}
        first, second = activity.models["zoo:a@1"], activity.models["zoo:a@2"]
        assert (first.runs, first.failed, first.last_run, first.last_time) == (2, 0, runs[2].id, runs[2].created)
        assert (first.last_dataset, first.last_runtime) == ("digits", "torch")
        assert (first.runtimes, first.datasets) == (frozenset({"onnxruntime", "torch"}), frozenset({"digits"}))
        assert first.formats == frozenset({"onnx"})
        assert (first.recent[0], first.recent[-1], sum(first.recent)) == (1, 1, 2)
        assert (second.runs, second.failed, sum(second.recent)) == (1, 1, 1)
        renamed = model_record("zoo:a@2", "zoo:a@1")  # the content of the first by the second's name
        store.begin_run(renamed, dataset_record("letters"), stack_record())
        assert {name: known.runs for name, known in model_activity(index).models.items()} == {
            "zoo:a@1": 3,
            "zoo:a@2": 4,
        }
        of_model = RunsWanted(models=("zoo:a",))
        letters = [(runs[1].id, 0.4)]
        assert best_runs(index, of_model, "top1") == {"digits": [(runs[2].id, 0.8)], "letters": letters}
        assert best_runs(index, of_model, "top1", largest=False)["digits"] == [(runs[0].id, 0.5)]
        points = history(index, of_model, "top1")
        assert [(point.run, point.runtime, point.value) for point in points] == [
            (runs[0].id, "onnxruntime", 0.5), (runs[1].id, "onnxruntime", 0.4), (runs[2].id, "torch", 0.8)
        ]  # fmt: skip

    def test_of_each_model_in_each_runtime_the_newest_run_counts_for_the_best(self, store: Store) -> None:
        lucky, worse = _add(store, "zoo:a@1", 0.9), _add(store, "zoo:b@1", 0.7)
        again = store.begin_attempt(lucky.model, lucky.dataset, lucky.stack)
        store.finish_stage(again.id, "metric:topk", [Observation("top1", 0.6)])
        index = RunIndex(store)
        assert best_runs(index, RunsWanted(), "top1") == {"digits": [(worse.id, 0.7), (again.id, 0.6)]}
        assert best_runs(index, RunsWanted(), "top1", among=1) == {"digits": [(worse.id, 0.7)]}
        assert best_runs(index, RunsWanted(), "no such figure") == {}

    def test_another_choice_of_options_hides_no_better_run(self, store: Store) -> None:
        exact = _add(store, "zoo:a@1", 0.9)
        coarse = stack_record(options={"precision": "int8"})
        int8 = store.begin_run(exact.model, exact.dataset, coarse)
        store.finish_stage(int8.id, "metric:topk", [Observation("top1", 0.6)])
        index = RunIndex(store)
        assert best_runs(index, RunsWanted(), "top1") == {"digits": [(exact.id, 0.9)]}
        assert best_runs(index, RunsWanted(), "top1", largest=False) == {"digits": [(int8.id, 0.6)]}

    def test_the_figures_that_runs_can_be_sorted_by(self, store: Store) -> None:
        assert figures_stored(store) == []
        run = _add(store, "zoo:a@1", 0.5)
        timings = [Observation("latency_p50", 0.1, scope=scope) for scope in ("batch=1", "batch=1,raw", "batch=8")]
        pairs = [Observation("agreement", 0.9, scope=scope) for scope in ("with=abc", "epoch=1", "whole")]
        store.finish_stage(run.id, "latency", [*timings, *pairs])
        figures = [("agreement", "whole"), *(("latency_p50", timing.scope) for timing in timings), ("top1", "")]
        assert figures_stored(store) == figures

    def test_an_empty_store_has_an_empty_page(self, store: Store) -> None:
        index = RunIndex(store)
        assert page_of_runs(index, RunsWanted(text="abc"), FigureOrder("top1")).total == 0
        assert not model_activity(index).models
        assert not count_facets(index).datasets
