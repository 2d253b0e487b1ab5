"""An excerpt holds what was chosen as it was, and nothing of the rest."""

import pyarrow as pa
import pytest

from zoolens.base.store.checking import check_store
from zoolens.base.store.excerpt import left_out, write_excerpt
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, RunKind, StackRecord
from zoolens.base.store.store import open_store
from zoolens.base.store.studies import StudyRecord, TrialRecord, TrialSide
from zoolens.testing.store_records import begin


@pytest.fixture
def stores(tmp_path):
    with open_store(tmp_path / "all.sqlite") as store, open_store(tmp_path / "some" / "excerpt") as target:
        yield store, target


def measured(store, **about):
    run = begin(store, **about)
    facts = [Observation("top1", 0.5, unit="fraction", details={"ä": [1, None]}), Observation("top1", 0.25, "class=1")]
    store.finish_stage(run.id, "accuracy", facts, details={"seconds": 1.5})
    store.fail_stage(run.id, "latency:batch=1", "no memory")
    store.add_part(run.id, "predictions", 0, pa.table({"index": [0, 1], "score": [0.5, 1.0]}))
    return store.run(run.id)


def test_a_chosen_run_is_the_same_with_its_times_and_answers(stores):
    store, target = stores
    chosen, other = measured(store), measured(store, attempt=1)
    write_excerpt(store, target, [chosen.id])
    assert [run.id for run in target.runs()] == [chosen.id]
    copied = target.run(chosen.id)
    assert (copied.created, copied.ref, dict(copied.resolved)) == (chosen.created, chosen.ref, dict(chosen.resolved))
    assert target.stages(chosen.id) == store.stages(chosen.id)
    assert target.observations(chosen.id) == store.observations(chosen.id)
    assert target.table(chosen.id, "predictions").equals(store.table(chosen.id, "predictions"))
    assert not check_store(target).damage
    assert left_out(store, target) == [other.id]


def test_pairs_of_which_only_one_run_is_chosen_and_further_names_are_left_out(stores):
    store, target = stores
    chosen, other = measured(store), measured(store, attempt=1)
    store.finish_stage(chosen.id, "pairs", [Observation("agreement", 0.5, f"with={other.id}")])
    model = ModelRecord(chosen.model.fingerprint, "secret:name@1", "onnx", {})
    store.begin_run(model, chosen.dataset, StackRecord("another", "fake", {}, {}))
    write_excerpt(store, target, [chosen.id])
    assert [fact.metric for fact in target.observations(chosen.id)] == ["top1", "top1"]
    assert target.stages(chosen.id)["pairs"].done
    assert not check_store(target).damage
    assert [name for name, _ in target.model_names()] == [chosen.ref]
    write_excerpt(store, target, [chosen.id])  # again changes nothing
    assert len(target.runs()) == 1


def test_a_study_brings_its_trials_and_their_runs(stores):
    store, target = stores
    data, stack = DatasetRecord("d", "digits", 10), StackRecord("s", "torch", {}, {})
    for name in ("mine", "other"):
        run = store.begin_run(ModelRecord(name, f"study:{name}@1", "x", {}), data, stack, kind=RunKind.TRAINING)
        store.add_study(StudyRecord(name, ("torch",), {"source": name}))
        store.add_trial(TrialRecord(name, "t1", {"rate": 0.1}, (TrialSide("torch", run.id),)))
    store.add_study(StudyRecord("explained", ("torch",), {"explanation": {"study": "mine"}}))
    write_excerpt(store, target, [], ["mine"], ["explained"])
    assert target.studies() == {name: store.studies()[name] for name in ("mine", "explained")}
    assert target.trials("mine") == store.trials("mine")
    assert target.trials("other") == []
    assert [run.ref for run in target.runs(kind=RunKind.TRAINING)] == ["study:mine@1"]
