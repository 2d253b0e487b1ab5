"""The doctor of detectors, segmenters, taggers, texts and sounds: what is right stays, what is wrong is found."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml
from PIL import Image

import zoolens
from zoolens.base.errors import DatasetError, ModelError
from zoolens.base.store.store import open_store
from zoolens.findings.audit.doctor import decoder_axes, diagnose
from zoolens.findings.audit.doctor.diagnosis import Status
from zoolens.findings.measure.evaluate import evaluate
from zoolens.inventory.manifests.files import write_manifest
from zoolens.testing.text_models import write_classifier

pytestmark = pytest.mark.usefixtures("trusted_models")

COLOURS = {"red": (250, 20, 20), "green": (20, 250, 20), "blue": (20, 20, 250)}
SIDE = 16

# Around the bright pixels of an image lies one box, whose class is the strongest colour. Pixels are from 0 to 1, boxes
# are left, top, right and bottom in pixels, and scores are logits.
NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 3, 16, 16] x) => (float[N, 1, 4] b, float[N, 1, 3] s)
<float half = {0.6}, float far = {16}, float eight = {8}, float four = {4}, float one = {1},
 int64[3] boxes = {-1, 1, 4}, int64[3] scores = {-1, 1, 3},
 float[1, 1, 1, 16] across = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
 float[1, 1, 16, 1] down = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}>
{
  m = ReduceMax <axes = [1]> (x)
  lit = Greater (m, half)
  left0 = Where (lit, across, far)
  left = ReduceMin <axes = [2, 3]> (left0)
  top0 = Where (lit, down, far)
  top = ReduceMin <axes = [2, 3]> (top0)
  none = Sub (one, one)
  lit1 = Cast <to = 1> (lit)
  across1 = Add (across, one)
  right0 = Mul (lit1, across1)
  right = ReduceMax <axes = [2, 3]> (right0)
  down1 = Add (down, one)
  bottom0 = Mul (lit1, down1)
  bottom = ReduceMax <axes = [2, 3]> (bottom0)
  all = Concat <axis = 3> (left, top, right, bottom)
  b = Reshape (all, boxes)
  c = ReduceMax <axes = [2, 3]> (x)
  c8 = Mul (c, eight)
  logits = Sub (c8, four)
  s = Reshape (logits, scores)
}
"""
STRETCHED = {"op": "resize", "size": [SIDE, SIDE], "method": "nearest"}
SCALED = {"op": "normalize", "scale": 1 / 255}
READ = {"op": "boxes", "format": "xyxy", "units": "pixels", "activation": "sigmoid", "threshold": 0.1}


def detector(folder, *, file="colours.onnx", steps=(STRETCHED, SCALED), labels=tuple(COLOURS), **read):
    manifest = {
        "name": "colours",
        "inputs": [{"shape": [None, 3, SIDE, SIDE], "preprocess": list(steps)}],
        "outputs": [
            {
                "task": "detection",
                "parts": {"boxes": "b", "scores": "s"},
                "labels": list(labels),
                "postprocess": [{**READ, **read}],
            }
        ],
        "assets": [{"format": "onnx", "files": [{"location": file}]}],
    }
    (folder / "colours.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    return folder / "colours.yaml"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder with a network and 40 images of 32 × 16 pixels, each with one bright rectangle."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    folder, random = tmp_path_factory.mktemp("colours"), np.random.default_rng(0)
    onnx.save(onnx.parser.parse_model(NETWORK), folder / "colours.onnx")
    without_logits = NETWORK.replace("Reshape (logits, scores)", "Reshape (c, scores)")
    onnx.save(onnx.parser.parse_model(without_logits), folder / "probabilities.onnx")
    annotations = []
    for number in range(40):
        pixels = np.full((16, 32, 3), 20, np.uint8)
        left, top = 2 * random.integers(0, 8), random.integers(0, 8)
        width, height = 2 * random.integers(3, 8), random.integers(4, 8)
        pixels[top : top + height, left : left + width] = [*COLOURS.values()][number % 3]
        Image.fromarray(pixels).save(folder / f"{number}.png")
        box = [int(left), int(top), int(width), int(height)]
        annotations.append({"id": number, "image_id": number, "category_id": number % 3, "bbox": box, "iscrowd": 0})
    content = {
        "images": [{"id": n, "file_name": f"{n}.png", "width": 32, "height": 16} for n in range(40)],
        "categories": [{"id": number, "name": name} for number, name in enumerate(COLOURS)],
        "annotations": annotations,
    }
    (folder / "boxes.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One for all faults: what was measured for one of them is not measured again for the next, as for a user."""
    folder = tmp_path_factory.mktemp("examined")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(folder / "home"))
        with open_store(folder / "store.sqlite") as opened:
            yield opened


@pytest.fixture
def few_axes(monkeypatch):
    """Only how boxes and their classes are read is varied, each in three ways, and no other decoder is loaded."""

    def find(*arguments):
        axes, not_swept = axes_of(*arguments)
        reading = [axis for axis in axes if axis.slot in ("boxes", "labels", "activation")]
        return [replace(axis, choices=axis.choices[:3]) for axis in reading], not_swept

    axes_of = diagnose.find_axes
    monkeypatch.setattr(decoder_axes, "DECODERS", ("pillow",))
    monkeypatch.setattr(diagnose, "find_axes", find)


def examined(pictures, store, data=None, **changes):
    spec = data or f"coco:{pictures / 'boxes.json'}?images={pictures}"
    return zoolens.doctor(detector(pictures, **changes), spec, runtime="onnxruntime", store=store)


@pytest.mark.slow
def test_a_right_detector_is_found_right(pictures, store):
    found = examined(pictures, store)
    assert found.status is Status.RIGHT, found.sentence
    assert (found.metric, found.noun, found.trials[0].value) == ("ap", "images", 1.0)
    assert found.corrected is None


DAMAGES = {
    "nothing": ({}, {}),
    "box order": ({"format": "yxyx"}, {"box order": "xyxy, pixels"}),
    "activation": ({"activation": "none"}, {"activation": "sigmoid"}),
}


TWO_FAULTS = (
    {"format": "yxyx", "labels": ["green", "blue", "red"]},
    {"box order": "xyxy, pixels", "label offset": "every output one class lower"},
)


@pytest.mark.parametrize(
    ("changes", "faults"),
    [*DAMAGES.values(), pytest.param(*TWO_FAULTS, marks=pytest.mark.slow)],
    ids=[*DAMAGES, "two faults"],
)
def test_readings_of_a_detector_are_told_apart(pictures, store, few_axes, changes, faults):
    found = examined(pictures, store, **changes)
    assert {fault.factor: fault.correct for fault in found.faults} == faults, found.sentence
    assert found.status is (Status.WRONG if faults else Status.RIGHT), found.sentence


WORSE = {
    "letterbox": ({"steps": [{"op": "letterbox", "size": [16, 16], "fill": 255}, SCALED]}, {"canvas": "stretched"}),
    "scaling": ({"steps": [STRETCHED, {"op": "normalize", "scale": 1 / 2550}]}, {"scaling": "0 to 1"}),
    "order and units": ({"format": "cxcywh", "units": "shares"}, {"box order and box units": "xyxy, pixels"}),
    "labels": ({"labels": ["green", "blue", "red"]}, {"label offset": "every output one class lower"}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "faults"), WORSE.values(), ids=WORSE)
def test_a_damaged_detector_is_restored(pictures, store, tmp_path, changes, faults):
    found = examined(pictures, store, **changes)
    assert found.status is Status.WRONG, found.sentence
    assert {fault.factor: fault.correct for fault in found.faults} == faults
    write_manifest(found.corrected, pictures / "corrected.yaml")
    data = f"coco:{pictures / 'boxes.json'}?images={pictures}"
    (outcome,) = evaluate(
        pictures / "corrected.yaml", data, runtimes="onnxruntime", batches=(), cold=False, store=store
    )
    (figure,) = store.observations(outcome.run.id, metric="ap")
    assert figure.value == 1.0


@pytest.mark.slow  # every reading of a detector is tried
def test_a_detector_that_finds_nothing_proves_nothing(pictures, store, few_axes):
    """Dark pixels everywhere: no box is ever right, whatever the manifest says of boxes."""
    dark = [STRETCHED, {"op": "normalize", "scale": 0.0}]
    found = examined(pictures, store, steps=dark)
    assert found.status is Status.SUSPICIOUS
    assert found.sentence.startswith("Nothing works: neither as declared nor with any of")
    assert "is ap (0.0 % on 40 images) better than that of answers that have nothing to do with" in found.sentence
    assert found.corrected is None
    assert not found.faults
    spec = f"coco:{pictures / 'boxes.json'}?images={pictures}"
    few = zoolens.doctor(detector(pictures, steps=dark), spec, runtime="onnxruntime", limit=4, store=store)
    assert few.status is Status.UNDECIDED


@pytest.mark.slow
def test_activation_that_is_applied_twice_is_proven_by_the_scores(pictures, store, few_axes):
    """AP cannot see it, since the order of scores is the same. All lie between 0 and 1 before the sigmoid."""
    found = examined(pictures, store, file="probabilities.onnx")
    assert found.status is Status.WRONG
    assert {fault.factor: fault.correct for fault in found.faults} == {"activation": "none"}
    assert "it declares activation: sigmoid, but the scores lie between 0 and 1 already" in found.sentence
    assert examined(pictures, store, file="probabilities.onnx", activation="none").status is Status.RIGHT


def test_few_images_are_too_few(pictures, store, few_axes):
    spec = f"coco:{pictures / 'boxes.json'}?images={pictures}"
    path = detector(pictures, format="yxyx")
    found = zoolens.doctor(path, spec, runtime="onnxruntime", limit=4, store=store)
    assert found.status is Status.UNDECIDED
    assert "4 images do not rule out that one of them is 10 points better" in found.sentence
    assert found.corrected is None


def test_data_that_cannot_judge_a_detector_are_refused(pictures, store, few_axes, tmp_path):
    with pytest.raises(DatasetError, match="has no true boxes, so that no variant can be judged"):
        examined(pictures, store, data=f"imagefolder:{folder_of_images(tmp_path)}")
    content = json.loads((pictures / "boxes.json").read_text())
    (pictures / "empty.json").write_text(json.dumps({**content, "annotations": []}))
    with pytest.raises(ModelError, match="ap is not defined on these inputs"):
        examined(pictures, store, data=f"coco:{pictures / 'empty.json'}?images={pictures}")
    broken = tmp_path / "broken"
    broken.mkdir()
    for number in range(40):
        (broken / f"{number}.png").write_bytes(b"no image")
    (broken / "boxes.json").write_text((pictures / "boxes.json").read_text())
    with pytest.raises(DatasetError, match="png"):
        examined(pictures, store, data=f"coco:{broken / 'boxes.json'}?images={broken}")


def folder_of_images(folder):
    for name in ("a", "b"):
        (folder / "plain" / name).mkdir(parents=True)
        Image.new("RGB", (16, 16)).save(folder / "plain" / name / "1.png")
    return folder / "plain"


def test_answers_without_a_truth_are_refused(pictures, store):
    manifest = yaml.safe_load(detector(pictures).read_text())
    manifest["outputs"] = [{"name": "s", "task": "other"}]
    (pictures / "other.yaml").write_text(yaml.safe_dump(manifest))
    with pytest.raises(ModelError, match="task: other, whose answers no dataset can judge"):
        zoolens.doctor(pictures / "other.yaml", f"coco:{pictures / 'boxes.json'}?images={pictures}", store=store)


# --- texts


@pytest.fixture
def reviews(tmp_path):
    """Forty reviews of two classes."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    words = [("positive", "good film"), ("negative", "bad ship"), ("positive", "good good boat"), ("negative", "bad")]
    lines = [f"{label}\t{text}{' boat' * number}" for number in range(10) for label, text in words]
    (tmp_path / "reviews.tsv").write_text("label\ttext\n" + "\n".join(lines) + "\n")
    return f"{tmp_path / 'reviews.tsv'}?classes=negative,positive"


@pytest.mark.parametrize(
    ("label_map", "faults"),
    [
        (None, {}),
        pytest.param({0: 1, 1: 0}, {"label order": "outputs as they come"}, marks=pytest.mark.slow),
    ],
    ids=["right", "exchanged"],
)
def test_two_classes_that_are_exchanged_are_found(tmp_path, reviews, store, label_map, faults):
    path = write_classifier(tmp_path, f"{len(faults)}-exchanged", padding="longest")
    manifest = yaml.safe_load(path.read_text())
    if label_map:
        manifest["outputs"][0] |= {"label_map": label_map}
        del manifest["outputs"][0]["labels"]
    path.write_text(yaml.safe_dump(manifest))
    found = zoolens.doctor(path, reviews, runtime="onnxruntime", store=store)
    assert {fault.factor: fault.correct for fault in found.faults} == faults, found.sentence
    assert found.noun == "texts"
    assert {one.factor for one in found.trials[1:]} >= {"padding side", "truncation", "special tokens"}
