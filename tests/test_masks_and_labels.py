"""Segmenters and multi-label classifiers from a manifest to their figures, made up and real."""

import json

import numpy as np
import pytest
import yaml
from PIL import Image

import zoolens
from zoolens.conftest import ASSETS
from zoolens.findings.measure.evaluate import evaluate

pytestmark = pytest.mark.usefixtures("trusted_models")

QUICK = {"cold": False, "batches": (), "trust": True}
COLOURS = np.array([[250, 10, 10], [10, 250, 10], [10, 10, 250]], np.uint8)  # of three classes


def saved(folder, declared, output, axes=(), nodes=()):
    """A network whose scores of classes are the channels of the image, and its manifest."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    last = [*nodes] or [helper.make_node("Identity", ["image"], ["scores"])]
    graph = helper.make_graph(
        last,
        "channels",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["n", 3, *axes])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "channels.onnx")
    manifest = {
        "name": "channels",
        "inputs": [{"shape": [None, 3, 16, 16], **declared}],
        "outputs": [output],
        "assets": [{"format": "onnx", "files": [{"location": "channels.onnx"}]}],
    }
    path = folder / "channels.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


def figures(store, run):
    found = [one for one in store.observations(run.id) if one.metric not in ("file_size", "parameters")]
    return {(one.metric, one.details.get("class") if one.metric == "iou" else None): one.value for one in found}


def test_a_segmenter_of_colours(home, tmp_path):
    output = {
        "task": "segmentation",
        "labels": ["red", "green", "blue"],
        "postprocess": [{"op": "masks", "layout": "NCHW", "resize": "nearest"}],
    }
    letterbox = {"op": "letterbox", "size": [16, 16], "method": "nearest", "fill": 0}
    model = saved(tmp_path, {"preprocess": [letterbox]}, output, (16, 16))
    data = tmp_path / "data"
    for name in ("images", "masks"):
        (data / name).mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(6):
        classes = np.kron(random.integers(0, 3, (2, 4)), np.ones((4, 4), int))
        Image.fromarray(COLOURS[classes]).save(data / f"images/{number}.png")
        # The data number classes in another order, and one of the masks is wrong in its first row.
        true = np.array([2, 0, 1])[classes].astype(np.uint8)
        if number == 0:
            true[0] = (true[0] + 1) % 3
        Image.fromarray(true).save(data / f"masks/{number}.png")
    store = zoolens.open_store()
    spec = f"masks:{data}?classes=green,blue,red"
    (outcome,) = evaluate([str(model)], spec, runtimes="onnxruntime", store=store, **QUICK)
    assert not outcome.errors
    found = figures(store, outcome.run)
    assert found["pixel_accuracy", None] == 1 - 16 / (6 * 8 * 16)
    assert {name for metric, name in found if metric == "iou"} == {"red", "green", "blue"}
    assert found["miou", None] == pytest.approx(np.mean([found["iou", name] for name in ("red", "green", "blue")]))


def test_a_multi_label_classifier(home, tmp_path):
    onnx = pytest.importorskip("onnx")
    mean = onnx.helper.make_node("ReduceMean", ["image"], ["scores"], axes=[2, 3], keepdims=0)
    output = {"task": "multilabel", "scores": "logits", "postprocess": [{"op": "threshold", "above": 0.6}]}
    model = saved(tmp_path, {"modality": "array"}, output, nodes=[mean])
    logits = np.array([[2, -1, 0.1], [-2, 3, 1], [0.3, 0.2, -3], [1, 2, -2]], np.float32)
    values = np.ones((4, 3, 16, 16), np.float32) * logits[:, :, None, None]
    present = np.array([[1, 0, 0], [0, 1, 1], [0, -1, 1], [1, 1, 0]], np.int8)
    np.savez(tmp_path / "data.npz", x=values, present=present)
    store = zoolens.open_store()
    spec = f"npz:{tmp_path / 'data.npz'}?present=present"
    (outcome,) = evaluate([str(model)], spec, runtimes="onnxruntime", store=store, **QUICK)
    assert not outcome.errors
    found = figures(store, outcome.run)
    # Of the third label, the input of the highest score has it, and that of the lowest.
    assert found["map", None] == pytest.approx(np.mean([1, 1, (1 + 2 / 4) / 2]))
    assert found["subset_accuracy", None] == 3 / 4
    assert found["micro_f1", None] == pytest.approx(2 * 5 / (5 + 6))


DEEPLAB = "segmentation/models/deeplabv3_mnv2{}_pascal_quant.tflite"
COCO = (
    "masks:{}?images=detection/data/val2017&masks=segmentation/data/masks&classes=segmentation/data/classes.json%23voc21"
    "&ids=segmentation/data/classes.json%23coco_to_voc21&others=background&ignore=0"
)


@pytest.mark.slow
@pytest.mark.assets
@pytest.mark.parametrize("depth", ["", "_dm05"])
def test_deeplab_has_the_figures_that_were_measured_independently(home, tmp_path, depth):
    """Within a point: OpenCV instead of Pillow moves mIoU by 0.6, other kernels move pixel accuracy by 1.4. Sides that
    are cut off instead of rounded move mIoU by 0.7. Over all answered classes instead of those of the truth, mIoU is
    2.1 and 6.0 below what was measured."""
    tasks = ASSETS / "tasks"
    if not (tasks / "segmentation").is_dir():
        pytest.skip(f"REFERENCE MODELS ABSENT: nothing at {tasks}; set ZOOLENS_ASSETS to test against them")
    file = DEEPLAB.format(depth)
    entries = json.loads((tasks / "MANIFEST.json").read_text(encoding="utf-8"))["entries"]
    expected = next(entry["measured"] for entry in entries if entry["file"] == file)
    names = json.loads((tasks / "segmentation/data/classes.json").read_text(encoding="utf-8"))["voc21"]
    canvas = {"op": "letterbox", "size": [513, 513], "fit": "top_left", "fill": 128, "rounding": "round"}
    manifest = {
        "name": "deeplab",
        "inputs": [
            {
                "shape": [1, 513, 513, 3],
                "layout": "NHWC",
                "dtype": "uint8",
                "preprocess": [canvas, {"op": "normalize", "scale": 1 / 128, "mean": [1]}],
            }
        ],
        "outputs": [{"task": "segmentation", "labels": names}],
        "assets": [{"format": "tflite", "files": [{"location": (tasks / file).as_uri()}]}],
    }
    (tmp_path / "deeplab.yaml").write_text(yaml.safe_dump(manifest))
    store = zoolens.open_store()
    models = [str(tmp_path / "deeplab.yaml")]
    (outcome,) = evaluate(models, COCO.format(tasks), runtimes="litert", store=store, **QUICK)
    assert not outcome.errors
    found = figures(store, outcome.run)
    assert sum(metric == "iou" for metric, _ in found) == expected["classes_present"]
    assert 100 * found["miou", None] == pytest.approx(expected["val50_mIoU"], abs=1)
    assert 100 * found["pixel_accuracy", None] == pytest.approx(expected["val50_pixel_accuracy"], abs=1.5)
    assert 100 * found["iou", "person"] == pytest.approx(expected["val50_person_IoU"], abs=1)
