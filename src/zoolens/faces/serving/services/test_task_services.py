"""Services whose models are no classifiers: two small detectors on the real data plane, and what they answer."""

import asyncio
import io
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest
import yaml
from PIL import Image

from zoolens.base.progress import Silent
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, RequestedOutput
from zoolens.base.store.store import open_store
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.events import EventKind, sessions
from zoolens.faces.serving.services.hosting import HostSettings, host_services
from zoolens.faces.serving.services.ladder_query import LadderBuilder
from zoolens.faces.serving.services.session_words import session_sentences
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.sessions import RunOptions

pytest.importorskip("onnxruntime")

# Every image gets the same two boxes, in shares of the canvas: a cat at the left, and a dog over all of it. An image
# that is white all over gets NaN.
NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 3, SIDE, SIDE] x) => (float[N, 2, 4] b, float[N, 2, 3] s)
<float zero = {0}, float white = {255}, int64[3] flat = {-1, 1, 1},
 float[1, 2, 4] boxes = {0.125, 0.25, 0.5, 0.75, 0, 0, 1, 1},
 float[1, 2, 3] scores = {SCORES}>
{
  m = ReduceMin <axes = [1, 2, 3]> (x)
  d = Sub (white, m)
  q = Div (zero, d)
  r = Reshape (q, flat)
  b = Add (r, boxes)
  s = Add (r, scores)
}
"""
LABELS = ["cat", "dog", "unicorn"]
SCORES = [[0.9, 0, 0], [0, 0.4, 0.05]]  # of both boxes, in the order of the labels
LARGE, SMALL = 512, 8


def write_detector(folder, name, side, threshold, labels):
    import onnx.parser

    scores = np.array(SCORES)[:, [LABELS.index(label) if label in LABELS else 1 for label in labels]]
    text = NETWORK.replace("SIDE", str(side)).replace("SCORES", str(scores.reshape(-1).tolist())[1:-1])
    model = onnx.parser.parse_model(text)
    onnx.save(model, folder / f"{name}.onnx")
    boxes = {"op": "boxes", "format": "xyxy", "units": "shares", "threshold": threshold}
    manifest = {
        "zoolens": 1,
        "name": name,
        "inputs": [{"shape": [None, 3, side, side], "preprocess": [{"op": "resize", "size": [side, side]}]}],
        "outputs": [
            {"task": "detection", "parts": {"boxes": "b", "scores": "s"}, "postprocess": [boxes], "labels": labels}
        ],
        "assets": [{"format": "onnx", "files": [{"location": f"{name}.onnx"}]}],
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(manifest))
    return folder / f"{name}.yaml"


def encoded(width=16, height=8, color=(9, 9, 9)):
    file = io.BytesIO()
    Image.new("RGB", (width, height), color).save(file, "PNG")
    return file.getvalue()


def images(*contents):
    return {"image": np.array([[content] for content in contents], object)}


def measured(folder, paths, quick, data=None):
    """A store in which these models were measured, on four images where no other data are named."""
    for number in range(4):
        (folder / f"{number}.png").write_bytes(encoded(color=(number, 9, 9)))
    categories = [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}]
    listed = [{"id": n, "file_name": f"{n}.png", "width": 16, "height": 8} for n in range(4)]
    (folder / "boxes.json").write_text(json.dumps({"images": listed, "categories": categories, "annotations": []}))
    plan = EvaluationPlan(
        models=[str(path) for path in paths],
        data=data or f"coco:{folder / 'boxes.json'}?images={folder}",
        wanted=RunOptions(runtimes=("onnxruntime",)),
        batches=(1, 4),
        cold=False,
        latency=quick,
    )
    with open_store(folder / "store.sqlite") as store:
        outcomes = list(carry_out_entries([find(str(path)) for path in paths], plan, store, Silent()))
        assert not any(outcome.errors for outcome in outcomes), [outcome.errors for outcome in outcomes]
    return folder / "store.sqlite"


@pytest.fixture(scope="module")
def detectors(tmp_path_factory, quick):
    """The folder of a store with a large detector, a small one that finds the cat alone, and one with other classes."""
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("detectors")
    paths = [
        write_detector(folder, "large", LARGE, 0.1, LABELS),
        write_detector(folder, "small", SMALL, 0.5, LABELS[::-1]),
        write_detector(folder, "cats", SMALL, 0.1, ["cat", "cow", "unicorn"]),
    ]
    measured(folder, paths, quick)
    return folder


@pytest.fixture
def run(detectors, quick):
    """Run a test's coroutine with a service of these detectors."""

    def run(test, **settings):
        usual = {"reference": "file:large", "within": 0.5, "input": "image", "batch": {"size": 4}}
        service = Service(**{**usual, **settings})

        @asynccontextmanager
        async def hosted():
            how = HostSettings(refresh=0.0, latency=quick, seed=0)
            store = detectors / "store.sqlite"
            async with (
                open_plane() as plane,
                host_services(plane, {"boxes": service}, store=store, settings=how) as services,
            ):
                yield plane, services["boxes"]

        async def main():
            async with hosted() as (plane, hosted_service):
                return await test(plane, hosted_service)

        return asyncio.run(asyncio.wait_for(main(), 100))

    return run


def build(detectors, quick, **settings):
    usual = {"reference": "file:large", "within": 0.5, "input": "image", "batch": {"size": 4}}
    with open_store(detectors / "store.sqlite") as store:
        return LadderBuilder("boxes", Service(**{**usual, **settings}), store, latency=quick).build()


async def answered(plane, inputs, **parameters):
    response = await plane.infer(InferRequest("boxes", inputs, parameters=parameters))
    return [json.loads(document) for document in response.outputs["answer"].reshape(-1)], response


def test_a_service_of_detectors_answers_boxes_and_switches_between_them(run, detectors):
    cat = {"label": "cat", "class": 0, "score": 0.9, "box": [2.0, 2.0, 8.0, 6.0]}
    dog = {"label": "dog", "class": 1, "score": 0.4, "box": [0.0, 0.0, 16.0, 8.0]}

    async def test(plane, service):
        assert [rung.model for rung in service.built.ladder.rungs] == ["file:large@0.0.0", "file:small@0.0.0"]
        metadata = plane.model_metadata("boxes")
        assert [(tensor.name, tensor.datatype, tensor.shape) for tensor in (*metadata.inputs, *metadata.outputs)] == [
            ("image", "BYTES", (-1, 1)), ("answer", "BYTES", (-1, 1)),
        ]  # fmt: skip
        (document,), response = await answered(plane, images(encoded()))
        assert document == [cat, dog]
        assert response.parameters["zoolens_model"] == "file:large@0.0.0"
        # Boxes lie in the image as it was sent, whatever its size, also where images of several sizes share a batch.
        documents, _ = await answered(plane, images(encoded(), encoded(32, 32), encoded(1, 1)))
        assert [found[0]["box"] for found in documents] == [[2, 2, 8, 6], [4, 8, 16, 24], [0.125, 0.25, 0.5, 0.75]]
        (document,), response = await answered(plane, images(encoded()), zoolens_model="file:small")
        # The small model calls the classes by other numbers: clients get those of the reference.
        assert document == [cat]
        assert response.parameters["zoolens_equivalence"] == pytest.approx(2 / 3)
        assert 0 < response.parameters["zoolens_equivalence_lower"] < 2 / 3
        for _ in range(40):
            await answered(plane, images(encoded(), encoded(20, 20)), zoolens_model="file:small")
        await service.comparisons.shadow.idle()
        pair = service.comparisons.pairs["file:small@0.0.0", "file:large@0.0.0"]
        assert pair.n >= 40
        assert pair.agreement == pytest.approx(2 / 3)
        more = replace(service.built.ladder.rungs[1], equivalence_lower=0.99)
        service.comparisons._judge(more, pair)

    run(test, promise={"share": 1.0})
    with open_store(detectors / "store.sqlite") as store:
        (broken,) = [event for event in sessions(store, "boxes", 1)[0].events if event.kind is EventKind.PROMISE]
        sentences = " ".join(session_sentences(sessions(store, "boxes", 1)[0]))
    assert "mean agreement of boxes of score ≥ 0.3 is 66.7 %" in sentences
    assert "agree on" not in sentences
    said = "Between file:small@0.0.0 and the reference, mean agreement of boxes of score ≥ 0.3 is 66.7 % over "
    assert broken.reason.startswith(said)
    assert broken.reason.endswith("but 99.0 % was promised.")


BAD = {
    "text": (b"no image", "An element of 'image' is not an image of a known kind"),
    "empty": (b"", "An element of 'image' is not an image of a known kind"),
    "half": (encoded()[:50], "An element of 'image' cannot be decoded"),
    "bomb": (b"P6 10000 10000 255\n", "100000000|10000×10000"),
    "NaN": (encoded(color=(255, 255, 255)), "NaN|no finite"),
}


def test_bad_requests_get_one_sentence_and_the_service_goes_on(run):
    async def test(plane, service):
        for content, words in BAD.values():
            with pytest.raises(ServingError, match=words):
                await answered(plane, images(content))
            # Others that came with it are answered.
            good, bad = await asyncio.gather(
                answered(plane, images(encoded())), answered(plane, images(content)), return_exceptions=True
            )
            assert isinstance(bad, ServingError)
            assert len(good[0][0]) == 2
        for inputs in ({"image": np.zeros((1, 8, 8, 3), np.uint8)}, {"image": np.array([[1.0]])}):
            with pytest.raises(ServingError, match="but the model expects BYTES"):
                await answered(plane, inputs)
        wanted = (RequestedOutput("answer", classes=2),)
        with pytest.raises(ServingError, match="holds no scores") as caught:
            await plane.infer(InferRequest("boxes", images(encoded()), outputs=wanted))
        assert caught.value.refusal is Refusal.INVALID
        with pytest.raises(ServingError, match="takes no feedback: labels are classes"):
            await plane.feedback("boxes", {"1": "cat"})
        assert len((await answered(plane, images(encoded())))[0][0]) == 2

    run(test)


def test_who_is_no_tier_is_told_why(detectors, quick):
    built = build(detectors, quick)
    reasons = {other.model: other.reason for other in built.excluded}
    assert reasons["file:cats@0.0.0"] == "It has no class dog, which the reference has."
    assert built.agreement_name == "mean agreement of boxes of score ≥ 0.3"
    assert built.confidence == 0.95
    assert not any("no bounds here" in note for note in built.notes)
    # Four images are too few to be sure of as much as was seen on them.
    unsure = build(detectors, quick, within=0.6, confidence=0.9)
    assert len(unsure.ladder.rungs) == 1
    (small,) = [other for other in unsure.excluded if other.model == "file:small@0.0.0"]
    assert small.reason.startswith("Its agreement with the reference is 66.7 % on the probes and is at least ")
    assert small.outcome.value == "not known"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"input": "tensor"}, "are places in an image, which a tensor does not tell: say input: image"),
        ({"output": "raw"}, "raw outputs are given of classifiers only"),
        ({"input": "text"}, "It takes an image, and clients send texts"),
    ],
)
def test_a_definition_that_cannot_be_served_is_refused(detectors, quick, settings, words):
    with pytest.raises(Exception, match=words):
        build(detectors, quick, **settings)


@pytest.mark.slow
def test_inputs_beside_the_image_are_filled_as_when_they_were_measured(tmp_path, quick):
    """The scores are multiplied by a constant of the manifest, and the box is half as large as the image."""
    import onnx.parser

    text = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 3, 8, 8] x, float[1] k, float[1, 2] size) => (float[1, 1, 4] b, float[1, 1, 2] s)
    <float zero = {0}, float half = {0.5}, int64[3] flat = {-1, 1, 1}, int64[3] four = {1, 1, 4},
     float[1, 1, 2] scores = {0.4, 0.2}>
    {
      m = ReduceMean <axes = [1, 2, 3]> (x)
      z = Mul (m, zero)
      r = Reshape (z, flat)
      p = Mul (size, zero)
      q = Mul (size, half)
      c = Concat <axis = 1> (p, q)
      b = Reshape (c, four)
      e = Add (r, scores)
      s = Mul (e, k)
    }
    """
    path = write_detector(tmp_path, "beside", SMALL, 0.1, LABELS)
    onnx.save(onnx.parser.parse_model(text), tmp_path / "beside.onnx")
    manifest = yaml.safe_load(path.read_text())
    manifest["inputs"][0] |= {"name": "x", "shape": [1, 3, SMALL, SMALL]}
    manifest["inputs"] += [
        {"name": "k", "modality": "constant", "shape": [1], "value": 2.0},
        {"name": "size", "modality": "size", "size": "image_wh", "shape": [1, 2]},
    ]
    manifest["outputs"][0]["labels"] = LABELS[:2]
    manifest["outputs"][0]["postprocess"][0]["units"] = "image_pixels"
    path.write_text(yaml.safe_dump(manifest))
    store = measured(tmp_path, [path], quick)

    async def test():
        service = Service(reference="file:beside", within=0.5, input="image", batch={"size": 4})
        how = HostSettings(refresh=0.0, latency=quick, seed=0)
        async with open_plane() as plane, host_services(plane, {"boxes": service}, store=store, settings=how):
            return (await answered(plane, images(encoded(32, 16))))[0][0]

    found = asyncio.run(asyncio.wait_for(test(), 100))
    assert [(box["label"], box["score"], box["box"]) for box in found] == [
        ("cat", 0.8, [0, 0, 16, 8]), ("dog", 0.4, [0, 0, 16, 8]),
    ]  # fmt: skip


@pytest.mark.slow
def test_numbers_of_tensors_are_compared_by_their_distance(tmp_path, quick):
    import onnx.parser

    random = np.random.default_rng(0)
    inputs = random.random((12, 400)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=inputs, y=inputs.mean(axis=1).astype(np.float64))
    for name, factor, width in (("exact", 1.0, 400), ("near", 1.01, 1)):
        weights = ", ".join(["0.0025"] * 400 * width)
        text = f"""<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 400] x) => (float[N, 1] y)
        <float[400, {width}] w = {{{weights}}}, float k = {{{factor}}}>
        {{
          m = MatMul (x, w)
          r = ReduceMean <axes = [1]> (m)
          y = Mul (r, k)
        }}
        """
        onnx.save(onnx.parser.parse_model(text), tmp_path / f"{name}.onnx")
        manifest = {
            "zoolens": 1,
            "name": name,
            "inputs": [{"modality": "array", "shape": [None, 400]}],
            "outputs": [{"task": "regression"}],
            "assets": [{"format": "onnx", "files": [{"location": f"{name}.onnx"}]}],
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(manifest))
    data = f"npz:{tmp_path / 'data.npz'}?x=x&y=none&value=y"
    store = measured(tmp_path, [tmp_path / "exact.yaml", tmp_path / "near.yaml"], quick, data)

    async def test():
        service = Service(
            reference="file:exact",
            within=0.9,
            batch={"size": 4},
            fallback={"model": "file:near"},
            promise={"share": 1.0},
        )
        how = HostSettings(refresh=0.0, latency=quick, seed=0)
        async with open_plane() as plane, host_services(plane, {"boxes": service}, store=store, settings=how) as hosted:
            near = hosted["boxes"].built.ladder.rungs[1]
            assert near.equivalence == pytest.approx(1 - 0.01 / 1.01, abs=1e-4)
            for _ in range(5):
                (document,), _ = await answered(plane, {"x": inputs[:1]}, zoolens_model="file:near")
            assert document == {"values": [pytest.approx(1.01 * inputs[0].mean(), rel=1e-5)]}
            comparisons = hosted["boxes"].comparisons
            await comparisons.shadow.idle()
            pair = comparisons.pairs["file:near@0.0.0", "file:exact@0.0.0"]
            assert pair.agreement == pytest.approx(1 - 0.01 / 1.01, abs=1e-4)
            assert pair.measure == "mean similarity of the vectors (1 minus their relative distance)"

    asyncio.run(asyncio.wait_for(test(), 100))
