"""A real quantised model on real images, from file to score: the accuracy must be the one measured elsewhere."""

import json

import pytest

from zoolens.conftest import ASSETS
from zoolens.inventory.datasets.loader import batches
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.preprocess.outputs import build_scores
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.runtimes.runtime import TensorSpec

MODEL = "imagenet/tflite/coral_mobilenet_v1_0.25_128_quant.tflite"

pytestmark = [
    pytest.mark.assets,
    pytest.mark.skipif(not (ASSETS / MODEL).is_file(), reason="the reference assets (ZOOLENS_ASSETS) are not here"),
]


def tensor(detail):
    scale, zero_point = detail["quantization"]
    return TensorSpec(detail["name"], tuple(map(int, detail["shape"])), detail["dtype"].__name__, scale, zero_point)


@pytest.mark.slow  # tests/test_reference.py evaluates the same model on the same images
def test_accuracy_of_a_quantised_mobilenet_is_the_known_one():
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    model = litert.Interpreter(str(ASSETS / MODEL), num_threads=1)
    model.allocate_tensors()
    source, target = model.get_input_details()[0], model.get_output_details()[0]
    steps = [
        {"op": "resize", "size": (128, 128), "method": "bicubic"},
        {"op": "normalize", "mean": (127.5,), "std": (127.5,)},
    ]
    prepare = build_prepare(
        Input(shape=(1, 128, 128, 3), layout="NHWC", dtype="uint8", preprocess=steps), tensor(source)
    )
    scores = build_scores(Output(scores="probabilities", postprocess=[{"op": "drop_leading"}]), tensor(target))
    dataset = open_dataset(ASSETS / "data" / "imagenet_val")
    right = 0
    for batch in batches(dataset, lambda sample: prepare(sample.value), 1):
        model.set_tensor(source["index"], batch.array)
        model.invoke()
        right += int((scores(model.get_tensor(target["index"])).argmax(axis=1) == batch.labels).sum())
    entries = json.loads((ASSETS / "MANIFEST.json").read_text())["entries"]
    known = next(entry for entry in entries if entry["file"] == MODEL)["measured"]["imagenet_val725_top1"]
    assert 100 * right / len(dataset) == pytest.approx(known, abs=0.5)
