from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ConstraintError, ModelError, UnknownName, UnsupportedAbility, ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferResponse, ModelMetadata, TensorMetadata
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.sessions import RunOptions, placements
from zoolens.inventory.runtimes.remote import Remote
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, TensorSpec
from zoolens.inventory.runtimes.runtime_names import installed_runtimes, parse_runtime, runtime_named
from zoolens.testing.runtime_contract import RuntimeContract
from zoolens.testing.v2_server import NET, serving

DECLARED = (TensorSpec("input", (None, 4), "float32"),)


def summed(request):
    values = request.inputs["input"]
    return InferResponse(
        request.model, "1", {"logits": np.stack([values.sum(1), values.max(1), values.min(1)], 1).astype(np.float32)}
    )


@pytest.fixture
def address():
    with serving(summed) as address:
        yield address


def files_of(runtime):
    asset = runtime.asset_of(None)
    path = asset.files[0].location.removeprefix("file://")
    from pathlib import Path

    return ModelFiles(asset.format, {"model": Path(path)}, inputs=DECLARED)


class TestRemote(RuntimeContract):
    runtime_class = Remote

    @pytest.fixture(autouse=True)
    def server(self, address, tmp_path, monkeypatch):
        monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
        self.address = address

    @pytest.fixture
    def runtime(self):
        return Remote(str(self.address))

    def model(self, tmp_path):
        import shutil

        files = files_of(Remote(str(self.address)))
        return replace(files, files={"model": shutil.copy(files.path(), tmp_path / "endpoint.json")})


def opened(address, declared=DECLARED):
    runtime = Remote(str(address))
    return runtime.open(replace(files_of(runtime), inputs=declared))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))


def test_a_model_behind_a_server_answers_like_a_local_one(address):
    with opened(address) as session:
        assert session.inputs == DECLARED
        answers = session.predict({"input": np.array([[1, 2, 3, 4]], np.float32)})
        assert answers["logits"].tolist() == [[10, 4, 1]]
        effective = session.effective()
    assert effective.provider == "test-server 1.2.3 (test_platform)"
    assert effective.precision is None
    assert effective.threads is None


def test_what_it_is_depends_on_where_it_is_and_what_the_server_says(address):
    runtime = Remote(str(address))
    assert runtime.version() == "test-server 1.2.3"
    assert runtime.identity()["served_model"]["platform"] == "test_platform"
    first = files_of(runtime).path().read_bytes()
    with serving(summed, models=(replace(NET, versions=("2",)),)) as other:
        assert files_of(Remote(str(other))).path().read_bytes() != first


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ((TensorSpec("input", (None, 5), "float32"),), "4, but the manifest declares"),
        ((TensorSpec("input", (None, 4, 1), "float32"),), "the manifest declares"),
        ((TensorSpec("input", (None, 4), "uint8"),), "float32, but the manifest declares uint8"),
        ((*DECLARED, TensorSpec("mask", (None, 4), "float32")), "takes 1 inputs, but the manifest declares 2"),
    ],
)
def test_a_server_that_contradicts_the_manifest_is_refused(address, declared, message):
    with pytest.raises(ModelError, match=message):
        opened(address, declared)


def test_a_server_that_does_not_say_what_its_model_takes_is_refused():
    model = replace(NET, inputs=(), outputs=())
    with serving(summed, models=(model,)) as address, pytest.raises(ModelError, match="does not say"):
        opened(address)


def test_the_largest_batch_of_the_configuration_is_known():
    """A real Triton refuses more rows; an evaluation then sends smaller batches."""
    with serving(summed, config={"max_batch_size": 8}) as address, opened(address) as session:
        assert session.largest_batch == 8
    with serving(summed, config={"max_batch_size": 0}) as address, opened(address) as session:
        assert session.largest_batch is None


def test_names_and_batch_sizes_may_differ_from_the_manifest(address):
    with opened(address, (TensorSpec("input0", (1, 4), "float32"),)) as session:
        assert session.inputs[0].name == "input"


@pytest.mark.parametrize("answer", [np.zeros((1, 4), np.float32), np.zeros((1, 3)), np.zeros(3, np.float32)])
def test_an_answer_that_is_not_what_the_metadata_say_is_refused(answer):
    with (
        serving(lambda request: InferResponse("net", "1", {"logits": answer})) as address,
        opened(address) as session,
        pytest.raises(ModelError, match="but answers with"),
    ):
        session.predict({"input": np.zeros((1, 4), np.float32)})


@pytest.mark.parametrize(
    ("declared", "answered"),
    [((-1,), (2, 1)), ((-1, 1), (2,)), ((-1, 3, 1, 1), (2, 3)), ((-1, 3), (2, 1, 3)), ((-1, -1), (2, 3, 1))],
)
def test_extents_of_one_that_a_server_adds_or_leaves_out_are_no_other_answer(declared, answered):
    """An output beside the one that is compared must not refuse the whole model either."""
    values = np.arange(np.prod(answered), dtype=np.float32)
    side = TensorMetadata("side", "FP32", declared)
    model = replace(NET, outputs=(*NET.outputs, side))
    sent = {"logits": np.ones((2, 3), np.float32), "side": values.reshape(answered)}
    answer = InferResponse("net", "1", sent)
    with serving(lambda request: answer, models=(model,)) as address, opened(address) as session:
        side_answer = session.predict({"input": np.zeros((2, 4), np.float32)})["side"]
    assert side_answer.ndim == len(declared)
    np.testing.assert_array_equal(side_answer.reshape(-1), values)


def test_an_answer_without_the_output_is_refused():
    with (
        serving(lambda request: InferResponse("net", "1", {"other": np.zeros(1)})) as address,
        opened(address) as session,
        pytest.raises(ModelError, match="no output 'logits'"),
    ):
        session.predict({"input": np.zeros((1, 4), np.float32)})


@pytest.mark.parametrize("who", ["parameter", "version"])
def test_answers_of_two_models_are_not_mixed(who):
    count = iter(range(10))

    def answer(request):
        number = str(next(count) // 2)
        response = summed(request)
        return (
            replace(response, parameters={"zoolens_model": number})
            if who == "parameter"
            else replace(response, version=number)
        )

    feeds = {"input": np.zeros((1, 4), np.float32)}
    with serving(answer) as address, opened(address) as session:
        session.predict(feeds)
        session.predict(feeds)
        with pytest.raises(ModelError, match="and then with"):
            session.predict(feeds)


@pytest.mark.parametrize("refusal", [Refusal.OVERLOADED, Refusal.UNAVAILABLE, Refusal.INTERNAL])
def test_an_error_of_the_server_is_one_sentence(refusal):
    def answer(request):
        raise ServingError(refusal, "It cannot answer now.")

    with serving(answer) as address, opened(address) as session, pytest.raises(ModelError, match="cannot answer now"):
        session.predict({"input": np.zeros((1, 4), np.float32)})


def test_other_weights_behind_the_same_metadata_are_another_model():
    """A server that is given another file under the same name says the same of itself, and answers otherwise."""
    sign = [1.0]

    def answer(request):
        response = summed(request)
        return replace(response, outputs={"logits": sign[0] * response.outputs["logits"]})

    with serving(answer) as address:
        runtime = Remote(str(address))
        files = files_of(runtime)
        assert files_of(Remote(str(address))).path() == files.path()
        sign[0] = -1.0
        with pytest.raises(ModelError, match="replaced"):
            runtime.open(files)
        assert files_of(Remote(str(address))).path() != files.path()


def test_a_service_whose_reference_changed_is_another_model():
    who = ["zoo:a@1"]

    def answer(request):
        return replace(summed(request), parameters={"zoolens_model": who[0]})

    with serving(answer) as address:
        first = files_of(Remote(str(address))).path()
        who[0] = "zoo:b@1"
        assert files_of(Remote(str(address))).path() != first


def test_a_server_that_refuses_noise_is_known_by_its_metadata():
    def refuse(request):
        raise ServingError(Refusal.INVALID, "I take no noise.")

    with serving(refuse) as address:
        assert '"answers": null' in files_of(Remote(str(address))).path().read_text()


def test_a_model_that_was_replaced_meanwhile_is_noticed(address):
    files = files_of(Remote(str(address)))
    files.path().write_text(files.path().read_text().replace("test_platform", "other"))
    with pytest.raises(ModelError, match="replaced"):
        Remote(str(address)).open(files)


def test_the_model_is_the_only_one_or_must_be_named():
    other = replace(NET, name="other")
    with serving(summed, models=(NET, other)) as address:
        with pytest.raises(ZoolensError, match="net, other"):
            Remote(str(address)).version()
        assert Remote(str(address.at("other"))).identity()["served_model"]["name"] == "other"
        with pytest.raises(ModelError, match="not found"):
            Remote(str(address.at("third"))).version()


def test_strings_are_passed_on():
    model = ModelMetadata("net", ("1",), "", (TensorMetadata("text", "BYTES", (-1,)),), NET.outputs)

    def answer(request):
        return InferResponse("net", "1", {"logits": np.zeros((len(request.inputs["text"]), 3), np.float32)})

    text = TensorSpec("text", (None,), "string")
    with serving(answer, models=(model,)) as address, opened(address, (text,)) as session:
        assert session.predict({"text": np.array([b"a", b"b"], object)})["logits"].shape == (2, 3)


# --- names of runtimes


def test_a_runtime_with_an_address_is_named_in_full(address):
    runtime = runtime_named(f"remote:{address}")
    assert runtime.full_name == f"remote:{address}"
    assert parse_runtime(runtime.full_name) == ("remote", str(address))
    assert "remote" not in installed_runtimes()


@pytest.mark.parametrize(
    ("text", "kind"),
    [("remote", ZoolensError), ("fake:http://h", ZoolensError), ("remote:h", ZoolensError), ("none", UnknownName)],
)
def test_names_that_make_no_sense_are_refused(text, kind):
    with pytest.raises(kind):
        runtime_named(text)


# --- how a model is placed there


@pytest.fixture
def model(tmp_path):
    (tmp_path / "net.json").write_text('{"classes": 3, "input": [4]}')
    path = tmp_path / "net.yaml"
    path.write_text(
        "zoolens: 1\nname: net\ninputs: [{modality: array, shape: [null, 4], layout: NC}]\n"
        "outputs: [{labels: [ant, bee, cat]}]\nassets: [{format: fake, files: [{location: net.json}]}]\n"
    )
    return str(path)


def test_a_placement_needs_no_file_of_the_model(address, model, tmp_path):
    entry = find(model)
    (tmp_path / "net.json").unlink()
    (way,), skipped = placements(entry, RunOptions(runtimes=(f"remote:{address}",)))
    assert not skipped
    with way.open() as session:
        assert session.predict({"input": np.ones((2, 4), np.float32)})["logits"].shape == (2, 3)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [({"environments": ("numpy",)}, "no environment"), ({"require": "avx512"}, "cannot be seen from here")],
)
def test_what_cannot_be_had_behind_a_server_is_said(address, model, wanted, message):
    with pytest.raises(ConstraintError, match=message):
        placements(find(model), RunOptions(runtimes=(f"remote:{address}",), **wanted))


def test_threads_cannot_be_asked_of_a_server(address, model):
    (way,), _ = placements(find(model), RunOptions(runtimes=(f"remote:{address}",), options=Options(threads=1)))
    with pytest.raises(UnsupportedAbility, match="the server decides"):
        way.open()


def test_no_server_is_one_sentence(model):
    with serving(summed) as gone:
        pass
    with pytest.raises(ZoolensError, match="No answer"):
        placements(find(model), RunOptions(runtimes=(f"remote:{gone}",)))
