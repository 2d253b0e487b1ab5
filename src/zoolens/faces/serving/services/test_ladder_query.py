import shutil
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Silent
from zoolens.base.store.records import RunKind
from zoolens.base.store.store import open_store
from zoolens.faces.serving.plane.plane_settings import ModelSpec
from zoolens.faces.serving.plane.served_model import ModelKey, open_model
from zoolens.faces.serving.services import profiles
from zoolens.faces.serving.services.definition import Service, ServiceError, Split
from zoolens.faces.serving.services.input_conversion import NotConvertible
from zoolens.faces.serving.services.ladder_query import LadderBuilder
from zoolens.faces.serving.services.profiles import profiled_sizes, stored_timings
from zoolens.faces.serving.services.rung_costs import compare_costs
from zoolens.faces.serving.services.service_ladder import ladder_data
from zoolens.findings.measure.answers import run_predictions
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.lookup import find, find_all
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.manifests.files import write_manifest
from zoolens.inventory.manifests.schema_steps import DropLeading
from zoolens.inventory.preprocess.pipeline import build_prepare

pytestmark = pytest.mark.usefixtures("trusted_models")

REFERENCE = "demo:lenet-wide"


@pytest.fixture(scope="module")
def build(measured_store, quick):
    examined = {}  # opening models takes most of the time

    def build(**settings):
        service = Service(**{"reference": REFERENCE, "within": 0.8, "batch": {"size": 4}, **settings})
        return LadderBuilder("fashion", service, measured_store, latency=quick, examined=examined).build()

    return build


@pytest.fixture(scope="module")
def built(build):
    return build()


def test_the_ladder_is_what_the_query_finds_and_nobody_listed(built):
    rungs = built.ladder.rungs
    assert rungs[0].model == "demo:lenet-wide@1.0.0"
    assert (rungs[0].equivalence, rungs[0].equivalence_lower) == (1.0, 1.0)
    equivalences = [rung.equivalence for rung in rungs]
    assert equivalences == sorted(equivalences, reverse=True)
    assert all(0.8 <= rung.equivalence <= 1 and set(rung.profile.seconds) == {1, 4} for rung in rungs)
    assert "demo:mlp-wide@1.0.0" in [rung.model for rung in rungs]
    assert "CORR demo:lenet-wide WITHIN 80%" in built.query


def test_of_a_timing_that_was_disturbed_the_quick_calls_count(built, measured_store, monkeypatch):
    """Otherwise a reference that was timed on a busy machine is thought to be too slow, and never tried again."""
    job = built.candidates[0].job
    plain = stored_timings(measured_store, job)
    monkeypatch.setattr(profiles, "is_disturbed", lambda observation: observation.scope == "batch=4")
    timings = stored_timings(measured_store, job)
    assert timings[1] == plain[1]
    assert timings[4].disturbed
    (run,) = measured_store.runs(model=job.entry.full_ref)
    samples = measured_store.table(run.id, "latency-batch4")["elapsed_ns"].to_numpy()
    assert timings[4].seconds == pytest.approx(np.quantile(samples, 0.1) / 1e9)
    assert timings[4].seconds <= plain[4].seconds


@pytest.mark.parametrize(
    ("instances", "threads", "cores", "slower"), [(1, 1, 2, 1), (2, 1, 2, 1), (4, 1, 2, 2), (2, 2, 2, 2), (1, 4, 2, 1)]
)
def test_more_threads_than_cores_take_turns(instances, threads, cores, slower):
    profile = profiles.with_contention(profiles.LatencyProfile({1: 0.01, 8: 0.05}), instances, threads, cores)
    assert profile.seconds == {1: 0.01 * slower, 8: 0.05 * slower}


def test_a_model_that_is_slower_and_less_equivalent_is_no_rung(built):
    """Which of the demo models is the slower one is a matter of the machine; why one is left out is not."""
    reasons = {other.model: other.reason for other in built.excluded}
    rungs = {rung.model: rung for rung in built.ladder.rungs}
    deep = "demo:lenet-deep@1.0.0"
    if deep in reasons:
        assert reasons[deep].startswith("It is no cheaper than ")
    else:
        others = [rung for rung in built.ladder.rungs if rung.equivalence > rungs[deep].equivalence]
        cost = compare_costs(rungs[deep], others, 4, time_alone=False)
        assert cost is None or cost.cheaper is not False


def test_every_rung_answers_through_its_adapter_what_was_measured_of_it(built, measured_store):
    """The promise holds for the path that requests take: reference tensors in, classes of the reference out."""
    reference = built.candidates[0]
    with closing(open_dataset("demo", limit=40)) as data:
        prepare = build_prepare(reference.input, reference.source)
        tensors = np.stack([prepare(data.read(place).value) for place in range(40)])
    for candidate, adapter in zip(built.candidates, built.adapters, strict=True):
        with candidate.job.open() as session:
            fed = adapter.feeds({reference.source.name: tensors})
            answers = adapter.outputs(session.predict(fed.tensors), fed.memos).tensors
        stored = run_predictions(measured_store, candidate.run)
        np.testing.assert_array_equal(answers["probabilities"].argmax(axis=1), stored.top[:40, 0])


def test_building_it_again_measures_nothing(built, measured_store, build):
    before = measured_store.newest()
    assert build().identity == built.identity
    assert measured_store.newest().observation == before.observation


def test_a_higher_threshold_gives_a_shorter_ladder(build):
    assert [rung.model for rung in build(within=0.999).ladder.rungs] == ["demo:lenet-wide@1.0.0"]
    assert any("cannot switch" in note for note in build(within=0.999).notes)


def test_a_confidence_asks_for_the_lower_bound(build):
    built = build(within=0.85, confidence=0.95)
    assert all(rung.equivalence_lower >= 0.85 for rung in built.ladder.rungs)
    outcomes = {(rung["equivalence_lower"] >= 0.85, rung["outcome"]) for rung in ladder_data(built)["rungs"]}
    assert outcomes == {(True, "same")}


def test_a_fallback_is_the_last_rung_however_little_it_is_equivalent(build):
    built = build(within=0.99, fallback={"model": "demo:mlp-wide"})
    assert built.ladder.rungs[-1].model == "demo:mlp-wide@1.0.0"
    assert built.ladder.rungs[-1].equivalence < 0.99
    with pytest.raises(ServiceError, match="was not measured"):
        build(within=0.99, fallback={"model": "demo:lenet-jax"})
    slower = build(within=0.8, fallback={"model": "demo:lenet-deep"}).ladder.rungs
    assert "demo:lenet-deep@1.0.0" in [rung.model for rung in slower]
    assert [rung.equivalence for rung in slower] == sorted((rung.equivalence for rung in slower), reverse=True)


def test_images_are_another_input_and_their_preparation_is_in_the_profile(build, built):
    images = build(input="image")
    assert [(spec.name, spec.datatype) for spec in images.inputs] == [("image", "BYTES")]
    assert images.ladder.rungs[0].profile.of(4) > built.ladder.rungs[0].profile.of(4)


def test_models_that_prepare_their_inputs_alike_share_one_timing_that_is_kept(build, measured_store):
    """Timed again for each model, noise decided which was cheaper, and the ladder changed from start to start."""
    first = build(input="pixels")
    count = len(measured_store.runs(kind=RunKind.MACHINE))
    added = [rung.profile.of(1) - stored_timings(measured_store, candidate.job)[1].seconds
             for rung, candidate in zip(first.ladder.rungs, first.candidates, strict=True)]  # fmt: skip
    assert added == pytest.approx([added[0]] * len(added))
    again = build(input="pixels")
    assert [rung.profile for rung in again.ladder.rungs] == [rung.profile for rung in first.ladder.rungs]
    assert len(measured_store.runs(kind=RunKind.MACHINE)) == count


def test_of_every_measured_model_it_is_said_why_it_is_no_rung(build):
    """One is too far from the reference, one was evaluated on other inputs."""
    outcomes = {other.model: other for other in build(within=0.92).excluded}
    wide = outcomes["demo:mlp-wide@1.0.0"]
    assert (wide.outcome.value, wide.reason[:14]) == ("different", "Equivalence is")
    assert not {rung.model for rung in build(within=0.92).ladder.rungs} & set(outcomes)


def test_a_model_that_was_evaluated_on_other_inputs_is_not_known(tmp_path, quick):
    wanted = RunOptions(runtimes=("onnxruntime",))
    with open_store(tmp_path / "store.sqlite") as store:
        for name, limit in ((REFERENCE, 60), ("demo:mlp-small", 30)):
            plan = EvaluationPlan(models=(), data="demo", limit=limit, wanted=wanted, cold=False, latency=quick)
            list(carry_out_entries(find_all([name]), plan, store, Silent()))
        (other,) = (
            LadderBuilder("fashion", Service(reference=REFERENCE, within=0.5), store, latency=quick).build().excluded
        )
    assert (other.model, other.outcome.value) == ("demo:mlp-small@1.0.0", "not known")
    assert other.reason.startswith("It was not evaluated on ")
    assert other.remedy == "Evaluate it: zoolens eval demo:mlp-small --data DATA."


def test_an_unknown_reference_is_one_sentence(build):
    with pytest.raises(ZoolensError, match="no-such"):
        build(reference="demo:no-such")


def test_a_reference_that_cannot_take_the_inputs_of_the_service_is_one_sentence(build, monkeypatch):
    def refuse(*arguments):
        raise NotConvertible("it takes no images")

    monkeypatch.setattr("zoolens.faces.serving.services.rung_maker.adapter_between", refuse)
    with pytest.raises(ServiceError, match=r"The reference of the service fashion cannot be served: It takes no"):
        build(input="image")


def test_nothing_more_is_opened_once_the_server_ends(built, measured_store):
    builder = LadderBuilder("fashion", built.service, measured_store)
    builder.stopped.set()
    with pytest.raises(ServiceError, match="The service fashion ends"):
        builder.build()


def test_two_spellings_of_one_model_are_not_two_arms(build):
    splits = [{"model": "demo:mlp-wide", "weight": 0.1}, {"model": "demo:mlp-wide@1.0.0", "weight": 0.2}]
    with pytest.raises(ServiceError, match="are the same model, written as demo:mlp-wide and demo:mlp-wide@1"):
        build(splits=splits)


def test_it_is_plain_data(built):
    data = ladder_data(built)
    assert data["rungs"][0]["seconds"].keys() == {"1", "4"}
    assert data["dataset"]


def test_labels_of_a_raw_output_are_those_before_postprocessing(built):
    """A background class in front is dropped by postprocessing, and is still in the raw output."""
    reference = built.candidates[0]
    dropping = reference.output.model_copy(update={"postprocess": (DropLeading(op="drop_leading"),)})
    manifest = reference.job.manifest.model_copy(update={"outputs": (dropping,)})
    job = replace(reference.job, entry=replace(reference.job.entry, manifest=manifest))
    raw = built.service.model_copy(update={"output": "raw"})
    labels = replace(built, service=raw, candidates=(replace(reference, job=job),)).output_labels
    assert labels[1] == built.labels[0] == built.output_labels[0]
    assert 0 not in labels


def test_profiled_sizes_end_at_the_largest():
    assert profiled_sizes(1) == (1,)
    assert profiled_sizes(4) == (1, 4)
    assert profiled_sizes(32) == (1, 8, 32)


def test_nothing_is_timed_while_requests_are_answered(tmp_path, quick):
    """It would disturb them and be disturbed, and the store would keep the figure for ever."""
    wanted = RunOptions(runtimes=("onnxruntime",))
    with open_store(tmp_path / "store.sqlite") as store:
        for name, batches in ((REFERENCE, (1,)), ("demo:mlp-small", ())):
            plan = EvaluationPlan(
                models=(), data="demo", limit=60, wanted=wanted, batches=batches, cold=False, latency=quick
            )
            list(carry_out_entries(find_all([name]), plan, store, Silent()))
        service = Service(reference=REFERENCE, within=0.5, batch={"size": 1})
        built = LadderBuilder("fashion", service, store, latency=quick, may_time=False).build()
    assert len(built.ladder.rungs) == 1
    assert "It was not timed on this machine: zoolens eval" in built.excluded[0].reason


def test_a_model_whose_file_was_replaced_is_no_rung_any_more(tmp_path, quick):
    """Its name promises what was measured of another content."""
    folder, manifest = find("demo:mlp-wide").folder, find("demo:mlp-wide").manifest
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for other in tmp_path.glob("*.yaml"):
        other.unlink()
    asset = next(asset for asset in manifest.assets if asset.format == "onnx")
    location = asset.files[0].location
    file = asset.files[0].model_copy(update={"sha256": None, "bytes": None})
    own = manifest.model_copy(update={"name": "copied", "assets": (asset.model_copy(update={"files": (file,)}),)})
    path = tmp_path / "copied.yaml"
    write_manifest(own, path)
    plan = EvaluationPlan(
        models=(), data="demo", limit=100, wanted=RunOptions(runtimes=("onnxruntime",)), cold=False, latency=quick
    )
    with open_store(tmp_path / "store.sqlite") as store:
        list(carry_out_entries(find_all([REFERENCE, str(path)]), plan, store, Silent()))
        service = Service(reference=REFERENCE, within=0.5, batch={"size": 1})
        builder = LadderBuilder("fashion", service, store, latency=quick)
        before = builder.build()
        assert [rung.model for rung in before.ladder.rungs] == ["demo:lenet-wide@1.0.0", "file:copied@1.0.0"]
        for named in ("file:copied", "file:copied@1.0.0", str(path)):  # as tables print it, and as its path
            split = service.model_copy(update={"splits": (Split(model=named, weight=0.5),), "where": "name = 'x'"})
            arms = LadderBuilder("fashion", split, store, latency=quick, examined=builder.examined).build()
            assert (arms.arms, arms.extra[0].model) == ({named: 1}, "file:copied@1.0.0")
        builder.removed[before.ladder.rungs[1].model, "onnxruntime"] = "It has broken its promise."
        assert [other.reason for other in builder.build().excluded] == ["It has broken its promise."]
        builder.removed.clear()
        shutil.copy(tmp_path / location.replace("mlp-wide", "mlp-small"), tmp_path / location)
        after = builder.build()
        assert len(after.ladder.rungs) == 1
        (replaced,) = after.excluded
        assert (replaced.outcome.value, replaced.reason) == ("not known", "Its file is not the one that was measured.")
        lacking = LadderBuilder("fashion", split, store, latency=quick).build()
        assert (lacking.arms, list(lacking.lacking)) == ({}, [str(path)])
        assert "are not those that were measured" in lacking.lacking[str(path)]
        name = before.candidates[1].name
        spec = ModelSpec(name, "onnxruntime", content=before.candidates[1].job.model.fingerprint)
        with pytest.raises(ZoolensError, match="are not those that were measured"):
            open_model(ModelKey(spec))
