"""Services whose models are no classifiers: two small detectors on the real data plane, and what they answer."""

import asyncio
import io
import json
from contextlib import asynccontextmanager

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
from zoolens.faces.serving.services.events import sessions
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


@pytest.fixture(scope="module")
def detectors(tmp_path_factory, quick):
    """A store in which a large detector, a small one that finds the cat alone, and one with other classes were
    measured on four images."""
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("detectors")
    for number in range(4):
        (folder / f"{number}.png").write_bytes(encoded(color=(number, 9, 9)))
    categories = [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}]
    listed = [{"id": n, "file_name": f"{n}.png", "width": 16, "height": 8} for n in range(4)]
    (folder / "boxes.json").write_text(json.dumps({"images": listed, "categories": categories, "annotations": []}))
    paths = [
        write_detector(folder, "large", LARGE, 0.1, LABELS),
        write_detector(folder, "small", SMALL, 0.5, LABELS[::-1]),
        write_detector(folder, "cats", SMALL, 0.1, ["cat", "cow", "unicorn"]),
    ]
    plan = EvaluationPlan(
        models=[str(path) for path in paths],
        data=f"coco:{folder / 'boxes.json'}?images={folder}",
        wanted=RunOptions(runtimes=("onnxruntime",)),
        batches=(1, 4),
        cold=False,
        latency=quick,
    )
    with open_store(folder / "store.sqlite") as store:
        outcomes = list(carry_out_entries([find(str(path)) for path in paths], plan, store, Silent()))
        assert not any(outcome.errors for outcome in outcomes), [outcome.errors for outcome in outcomes]
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
        for _ in range(20):
            await answered(plane, images(encoded(), encoded(20, 20)), zoolens_model="file:small")
        await service.comparisons.shadow.idle()
        pair = service.comparisons.pairs["file:small@0.0.0", "file:large@0.0.0"]
        assert pair.n >= 20
        assert pair.agreement == pytest.approx(2 / 3)

    run(test, promise={"share": 1.0})
    with open_store(detectors / "store.sqlite") as store:
        sentences = " ".join(session_sentences(sessions(store, "boxes", 1)[0]))
    assert "mean agreement of boxes of score ≥ 0.3 is 66.7%" in sentences
    assert "agree on" not in sentences


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
    assert small.reason.startswith("Its agreement with the reference is 66.7% on the probes and is at least ")
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
