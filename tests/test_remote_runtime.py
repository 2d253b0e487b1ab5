"""A model behind a server is evaluated, compared and examined like a local one; here the server is our own."""

import numpy as np
import pytest

import zoolens
from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.present.figures import with_interval
from zoolens.base.progress import Silent
from zoolens.base.protocol.messages import InferResponse, ModelMetadata, TensorMetadata
from zoolens.base.store.records import Provenance
from zoolens.base.store.store import open_store
from zoolens.faces.serving.plane.plane_settings import EndpointSettings
from zoolens.findings.measure.containers import write_stack
from zoolens.findings.measure.evaluate import carry_out
from zoolens.findings.measure.latency import LatencySettings
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.testing.v2_server import serving

pytest.importorskip("uvicorn")
pytest.importorskip("grpc")

MODEL = "demo:lenet-narrow"


@pytest.fixture(scope="module")
def urls():
    with zoolens.serve([MODEL, "demo:mlp-small"], http=0, grpc=0) as server:
        yield server.urls


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.db") as store:
        yield store


def evaluated(store, runtime, **settings):
    (outcome,) = zoolens.evaluate(
        [MODEL], "demo", runtimes=[runtime], limit=64, batches=(), store=store, **{"cold": False, **settings}
    )
    assert not outcome.errors, outcome.errors
    return outcome


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_answers_behind_a_server_are_those_of_the_model(urls, store, transport):
    runtime = f"remote:{urls[transport]}/v2/models/lenet-narrow"
    local, remote = evaluated(store, "onnxruntime"), evaluated(store, runtime)
    assert local.run.key.model != remote.run.key.model  # nobody can see from here that they are the same
    comparison = zoolens.compare(local.run.id, remote.run.id, store=store)
    assert comparison.answers.agreement == 1
    figures = [
        {observation.metric: observation.value for observation in store.observations(outcome.run.id)}
        for outcome in (local, remote)
    ]
    assert figures[0]["top1"] == figures[1]["top1"]


def test_the_stack_says_what_is_known_and_what_is_not(urls, store):
    runtime = f"remote:{urls['http']}/v2/models/lenet-narrow"
    outcome = evaluated(store, runtime, cold=True)
    run = store.run(outcome.run.id)
    identity = run.stack.identity
    assert run.stack.full_runtime == runtime
    assert identity["server"]["name"] == "zoolens"
    assert identity["served_model"]["name"] == "lenet-narrow"
    assert identity["machine"] == {}
    assert any("cannot be seen from here" in note for note in outcome.notes)
    observations = {observation.metric: observation for observation in store.observations(run.id)}
    for metric in ("file_size", "parameters", "cold_start", "peak_memory"):
        assert observations[metric].provenance is Provenance.UNAVAILABLE


def test_latency_says_that_it_includes_the_network(urls, store):
    plan = EvaluationPlan(
        models=[MODEL],
        data=None,
        wanted=RunOptions(runtimes=(f"remote:{urls['http']}/v2/models/lenet-narrow",)),
        accuracy=False,
        cold=False,
        latency=LatencySettings(max_seconds=0.2, warmup_seconds=0.05),
    )
    (outcome,) = carry_out(plan, store, Silent())
    assert not outcome.errors
    assert not store.observations(outcome.run.id, metric="latency_p50")  # which queries rank
    (p50,) = store.observations(outcome.run.id, metric="roundtrip_p50", scope="batch=1")
    assert p50.value > 0
    assert with_interval(p50).count("(with network)") == 1
    (energy,) = store.observations(outcome.run.id, metric="energy")
    assert energy.provenance is Provenance.UNAVAILABLE


def test_the_model_as_a_server_has_it_is_compared_by_name(urls, store):
    runtime = f"remote:{urls['http']}/v2/models/lenet-narrow"
    evaluated(store, "onnxruntime")
    evaluated(store, runtime)
    comparison = zoolens.compare(MODEL, MODEL, runtimes=["onnxruntime", runtime], store=store)
    assert comparison.answers.agreement == 1
    assert comparison.b.stack.runtime == "remote"


def test_another_network_under_the_same_manifest_is_measured_as_what_it_is(urls, store):
    """Its shapes fit, so that nothing contradicts the manifest: the figures are the other network's, under a key of
    their own, and nothing of the local model is mixed with them."""
    local = evaluated(store, "onnxruntime")
    other = evaluated(store, f"remote:{urls['http']}/v2/models/mlp-small")
    top1 = [store.observations(outcome.run.id, metric="top1")[0].value for outcome in (local, other)]
    assert top1[0] != top1[1]
    assert local.run.key.model != other.run.key.model
    cause = zoolens.compare(local.run.id, other.run.id, store=store).cause
    assert "cannot be seen from here" in cause
    assert "kernels" not in cause


def test_a_run_behind_a_server_is_reproduced_there(urls, store):
    outcome = evaluated(store, f"remote:{urls['http']}/v2/models/lenet-narrow")
    result = zoolens.reproduce(outcome.run.id, store=store)
    assert result.again.stack.full_runtime == outcome.run.stack.full_runtime
    assert result.holds


def test_a_server_gives_no_container(urls, store, tmp_path):
    outcome = evaluated(store, f"remote:{urls['http']}/v2/models/lenet-narrow")
    with pytest.raises(ZoolensError, match="environment is unknown"):
        write_stack(outcome.run, tmp_path)


def test_a_session_is_opened_by_its_address(urls):
    with zoolens.open_session(MODEL, runtime=f"remote:{urls['grpc']}/v2/models/lenet-narrow") as session:
        shape = [extent or 2 for extent in session.inputs[0].shape]
        (answer,) = session.predict({session.inputs[0].name: np.zeros(shape, np.float32)}).values()
        assert answer.shape == (2, 10)


def test_a_server_with_several_models_asks_which(urls):
    with pytest.raises(ZoolensError, match="lenet-narrow, mlp-small"):
        zoolens.open_session(MODEL, runtime=f"remote:{urls['http']}")


def test_the_doctor_says_whose_answers_it_has_seen(store):
    """Batches are as large as the server takes, and the model behind it need not be the manifest's."""
    with zoolens.serve("demo:mlp-small", http=0, grpc=None, settings=EndpointSettings(max_batch=8)) as server:
        found = zoolens.doctor(MODEL, "demo", runtime=f"remote:{server.urls['http']}", limit=40, screen=20, store=store)
    assert all(trial.error is None for trial in found.trials)
    assert found.runtime == f"remote:{server.urls['http']}"
    (note,) = found.notes
    assert "the model 'mlp-small'" in note
    assert f"weights of {MODEL} cannot be seen" in note


def test_the_doctor_refuses_answers_that_are_postprocessed_already(store):
    """As a service gives them: labels, their order and the kind of scores are not those of the manifest any more."""
    served = ModelMetadata(
        "fashion", ("1",), "", (TensorMetadata("input", "FP32", (-1, 28, 28)),),
        (TensorMetadata("probabilities", "FP32", (-1, 10)),),
    )  # fmt: skip

    def answer(request):
        rows = len(request.inputs["input"])
        return InferResponse("fashion", "1", {"probabilities": np.full((rows, 10), 0.1, np.float32)})

    config = {"parameters": {"zoolens_output": {"string_value": "probabilities"}}}
    with (
        serving(answer, models=(served,), config=config) as address,
        pytest.raises(ModelError, match="postprocessed already"),
    ):
        zoolens.doctor(MODEL, "demo", runtime=f"remote:{address}", limit=40, screen=20, store=store)
