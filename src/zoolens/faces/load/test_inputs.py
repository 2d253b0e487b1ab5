import numpy as np
import pytest

from zoolens.base.errors import ModelError, UnknownName, ZoolensError
from zoolens.base.protocol.messages import InferResponse, ModelMetadata, TensorMetadata
from zoolens.faces.load.inputs import made_up_inputs
from zoolens.faces.load.run_load import Inputs, prepare
from zoolens.testing.v2_server import NET, serving


def metadata(*inputs):
    return ModelMetadata("net", ("1",), "", tuple(TensorMetadata(*tensor) for tensor in inputs), NET.outputs)


def test_made_up_inputs_have_the_shapes_and_types_that_the_server_wants():
    workload = made_up_inputs(metadata(("a", "FP32", (-1, 4)), ("b", "INT64", (-1, 2)), ("c", "FP16", (-1,))), rows=3)
    for request in workload.requests:
        shapes = {name: (array.shape, array.dtype.name) for name, array in request.inputs.items()}
        assert shapes == {"a": ((3, 4), "float32"), "b": ((3, 2), "int64"), "c": ((3,), "float16")}
    assert len({request.inputs["a"].tobytes() for request in workload.requests}) == len(workload.requests)
    assert "made up" in workload.notes[0]


def test_made_up_inputs_are_the_same_for_the_same_seed():
    first, second, other = (made_up_inputs(NET, seed=seed).requests[3].inputs["input"] for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_free_dimensions_must_be_told():
    model = metadata(("image", "FP32", (-1, 3, -1, -1)))
    with pytest.raises(ZoolensError, match="3, \\?, \\?"):
        made_up_inputs(model)
    workload = made_up_inputs(model, shapes={"image": (3, 8, 8)})
    assert workload.requests[0].inputs["image"].shape == (1, 3, 8, 8)


def test_a_fixed_batch_takes_no_other_number_of_rows():
    with pytest.raises(ZoolensError, match="batches of 2"):
        made_up_inputs(metadata(("a", "FP32", (2, 4))), rows=3)


def test_a_server_that_does_not_say_what_it_takes_gets_nothing():
    with pytest.raises(ZoolensError, match="does not say"):
        made_up_inputs(metadata())


def test_texts_are_not_made_up():
    with pytest.raises(ZoolensError, match="--data"):
        made_up_inputs(metadata(("text", "BYTES", (-1,))))


def test_large_inputs_are_fewer(monkeypatch):
    monkeypatch.setattr("zoolens.faces.load.workload.MOST_BYTES", 100)
    assert len(made_up_inputs(NET, rows=2).requests) == 3


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Eight images of 4 × 4 pixels, whose brightness is twenty times their class."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    labels = np.arange(8) % 3
    images = np.repeat(labels * 20, 16).reshape(8, 4, 4, 1).astype(np.uint8)
    np.savez(tmp_path / "data.npz", x=images, y=labels)
    return f"npz:{tmp_path / 'data.npz'}"


def manifest(tmp_path, **more):
    (tmp_path / "net.json").write_text('{"classes": 3, "input": [4, 4, 1]}')
    path = tmp_path / "bright.yaml"
    path.write_text(
        "zoolens: 1\nname: bright\ninputs: [{modality: image, color: gray, shape: [null, 4, 4, 1], layout: NHWC, "
        "preprocess: [{op: normalize, scale: 0.05, mean: [0], std: [1]}]}]\n"
        "outputs: [{labels: [ant, bee, cat]}]\nassets: [{format: fake, files: [{location: net.json}]}]\n"
    )
    return str(path)


BRIGHT = ModelMetadata("bright", ("1",), "", (TensorMetadata("pixels", "FP32", (-1, 4, 4, 1)),), NET.outputs)


def answer(request):
    values = np.asarray(request.inputs["pixels"])[:, 0, 0, 0]
    return InferResponse("bright", "1", {"logits": np.eye(3, dtype=np.float32)[np.rint(values).astype(int)]})


def test_samples_are_prepared_as_the_manifest_says_and_answers_are_judged(tmp_path, data):
    with serving(answer, models=(BRIGHT,)) as address:
        _, workload = prepare(str(address), inputs=Inputs(data, manifest(tmp_path)))
    assert len(workload.requests) == 8
    for number, request in enumerate(workload.requests):
        assert request.inputs["pixels"].shape == (1, 4, 4, 1)
        assert workload.judge(number, answer(request)) == 1
    wrong = answer(workload.requests[0])
    assert workload.judge(1, wrong) == 0
    with pytest.raises(ZoolensError, match="no output 'logits'"):
        workload.judge(0, InferResponse("bright", "1", {}))


def test_samples_without_labels_are_not_judged(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    np.savez(tmp_path / "x.npz", x=np.zeros((4, 4, 4, 1), np.uint8))
    with serving(answer, models=(BRIGHT,)) as address:
        _, workload = prepare(str(address), inputs=Inputs(f"npz:{tmp_path / 'x.npz'}", manifest(tmp_path)))
    assert workload.judge is None


def test_a_manifest_that_contradicts_the_server_sends_nothing(tmp_path, data):
    with serving(answer, models=(NET,)) as address, pytest.raises(ModelError, match="the manifest declares"):
        prepare(str(address), inputs=Inputs(data, manifest(tmp_path)))


def test_a_served_name_that_no_catalog_knows_asks_for_a_model(data):
    with serving(answer, models=(BRIGHT,)) as address, pytest.raises(UnknownName, match="--like"):
        prepare(str(address), inputs=Inputs(data))


def test_a_server_that_takes_image_files_gets_the_files_themselves(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    for number, name in enumerate(("ant", "bee", "cat")):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.new("L", (4, 4), number * 20).save(tmp_path / "images" / name / "one.png")
    model = ModelMetadata("bright", ("1",), "", (TensorMetadata("image", "BYTES", (-1, 1)),), NET.outputs)
    with serving(answer, models=(model,)) as address:
        _, workload = prepare(str(address), inputs=Inputs(str(tmp_path / "images"), manifest(tmp_path)))
        _, pixels = prepare(str(address), inputs=Inputs("demo", manifest(tmp_path), limit=3))
    files = [request.inputs["image"] for request in workload.requests]
    assert files[1].shape == (1, 1)
    assert files[1][0, 0] == (tmp_path / "images" / "bee" / "one.png").read_bytes()
    right = InferResponse("bright", "1", {"logits": np.eye(3, dtype=np.float32)[1:2]})
    assert [workload.judge(number, right) for number in range(3)] == [0, 1, 0]
    assert pixels.requests[0].inputs["image"][0, 0].startswith(b"\x89PNG")


def test_documents_are_not_judged_and_texts_are_sent_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    (tmp_path / "texts.csv").write_text("text,label\ngood film,1\nbad,0\n")
    documents = (TensorMetadata("answer", "BYTES", (-1, 1)),)
    model = ModelMetadata("bright", ("1",), "", (TensorMetadata("text", "BYTES", (-1, 1)),), documents)
    with serving(answer, models=(model,)) as address:
        _, workload = prepare(str(address), inputs=Inputs(str(tmp_path / "texts.csv"), manifest(tmp_path)))
        with pytest.raises(ZoolensError, match="takes 1 text for each input, which the dataset does not have"):
            prepare(str(address), inputs=Inputs("demo", manifest(tmp_path), limit=3))
    assert [request.inputs["text"].tolist() for request in workload.requests] == [[[b"good film"]], [[b"bad"]]]
    assert workload.judge is None
    assert "The answers are documents, which are not judged here." in workload.notes


def test_answers_of_a_service_are_not_postprocessed_a_second_time(tmp_path, data):
    """A service answers with probabilities of the classes that are left, under a name of its own."""
    path = manifest(tmp_path)
    text = (tmp_path / "bright.yaml").read_text()
    dropped = "outputs: [{name: logits, postprocess: [{op: drop_leading, count: 1}], labels: [ant, bee, cat]}]"
    (tmp_path / "bright.yaml").write_text(text.replace("outputs: [{labels: [ant, bee, cat]}]", dropped))
    service = ModelMetadata("bright", ("1",), "", BRIGHT.inputs, (TensorMetadata("probabilities", "FP32", (-1, 3)),))

    def serve(request):
        return InferResponse("bright", "1", {"probabilities": answer(request).outputs["logits"]})

    config = {"name": "bright", "parameters": {"zoolens_output": {"string_value": "probabilities"}}}
    with serving(serve, models=(service,), config=config) as address:
        _, workload = prepare(str(address), inputs=Inputs(data, path))
    assert [workload.judge(number, serve(request)) for number, request in enumerate(workload.requests)] == [1] * 8
