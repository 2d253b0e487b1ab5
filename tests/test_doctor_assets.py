"""The doctor of real models: what their manifests say rightly stays, and one or two things said wrongly are found."""

import json

import pytest
import yaml

import zoolens
from zoolens.base.store.store import open_store
from zoolens.conftest import ASSETS
from zoolens.findings.audit.doctor import decoder_axes, diagnose
from zoolens.findings.audit.doctor.diagnosis import Status

pytestmark = [pytest.mark.assets, pytest.mark.slow, pytest.mark.usefixtures("trusted_models")]
TASKS = ASSETS / "tasks"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One for all faults: what was measured for one of them is not measured again for the next."""
    if not (TASKS / "MANIFEST.json").is_file():
        pytest.skip(f"REFERENCE MODELS ABSENT: nothing at {TASKS}; set ZOOLENS_ASSETS to test against them")
    folder = tmp_path_factory.mktemp("examined")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(folder / "home"))
        with open_store(folder / "store.sqlite") as opened:
            yield opened


@pytest.fixture
def examined(store, tmp_path):
    """The diagnosis of a manifest, and its faults."""

    def examine(declared, output, files, data, runtime):
        model, *tokens = (f"file://{TASKS / file}" for file in files)
        listed = [{"location": model}, *({"location": file, "role": "tokenizer"} for file in tokens)]
        manifest = {
            "name": "real",
            "inputs": [declared],
            "outputs": [output],
            "assets": [{"format": model.rpartition(".")[2], "files": listed}],
        }
        (tmp_path / "real.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True))
        found = zoolens.doctor(tmp_path / "real.yaml", data, runtime=runtime, store=store)
        return found, {fault.factor: fault.correct for fault in found.faults}

    return examine


# --- texts

GRU = ("text/models/nn_sentiment.onnx", "text/models/nn_sentiment.word_index.json")


@pytest.mark.parametrize(
    ("side", "lower_case", "faults"),
    [
        ("left", True, {}),
        ("right", True, {"padding side": "left"}),
        ("left", False, {"casing": "lower case"}),
        ("right", False, {"padding side": "left", "casing": "lower case"}),
    ],
)
def test_a_network_of_keras_was_trained_with_padding_in_front(examined, side, lower_case, faults):
    """Whoever measured this model before filled texts up behind, and found 63.98 % of these tweets right."""
    pytest.importorskip("onnxruntime")
    words = {"pattern": r"[A-Za-z0-9_']+|[,.?;\-()]", "unknown_id": 0, "lower_case": lower_case}
    tokenizer = {"max_length": 100, "vocabulary": 30000, "pad_id": 0, "padding_side": side, "words": words}
    declared = {"modality": "text", "shape": [None, None], "dtype": "int64", "tokenizer": tokenizer}
    steps = [{"op": "select", "indices": [0, 2]}]
    output = {"scores": "probabilities", "postprocess": steps, "labels": ["negative", "positive"]}
    data = f"{TASKS / 'text/data/sentiment_tweets.tsv'}?classes=negative,positive"
    found, wrong = examined(declared, output, GRU, data, "onnxruntime")
    assert wrong == faults, found.sentence
    assert found.status is (Status.WRONG if faults else Status.RIGHT)
    assert (found.confirmation.after if faults else found.trials[0].value) == pytest.approx(0.835, abs=0.02)


NER = ("ner/models/slovnet_ner_factru.onnx", "ner/models/slovnet_ner_factru.vocab.json")


@pytest.mark.parametrize(
    ("turn", "lower_case", "faults"),
    [
        (0, True, {}),
        (1, True, {"label offset": "every output one tag lower"}),
        (-1, True, {"label offset": "every output one tag higher"}),
        (1, False, {"label offset": "every output one tag lower", "casing": "lower case"}),
    ],
)
def test_tags_of_entities(examined, turn, lower_case, faults):
    pytest.importorskip("onnxruntime")
    vocabulary = json.loads((TASKS / NER[1]).read_text(encoding="utf-8"))
    tags = vocabulary["tags"]
    words = {
        "key": "words",
        "unknown_id": vocabulary["words"].index("<unk>"),
        "shapes": {"rule": "slovnet", "key": "shapes"},
        "lower_case": lower_case,
    }
    tokenizer = {
        "max_length": 8192, "vocabulary": len(vocabulary["words"]), "padding": "none", "words": words,
        "tensors": {"input_ids": "word_id", "shape_ids": "shape_id"},
    }  # fmt: skip
    declared = {"modality": "text", "shape": [None, None], "dtype": "int64", "tokenizer": tokenizer}
    steps = [{"op": "viterbi", "transitions": vocabulary["transitions"]}]
    labels = tags[turn:] + tags[:turn]
    output = {"task": "token-classification", "labels": labels, "postprocess": steps}
    found, wrong = examined(
        declared, output, NER, f"tagged:{TASKS / 'ner/data/factrueval2016_test.jsonl'}", "onnxruntime"
    )
    assert wrong == faults, found.sentence
    assert found.status is (Status.WRONG if faults else Status.RIGHT)
    assert found.metric == "f1"
    if faults:
        assert found.confirmation.after == pytest.approx(0.742, abs=0.01)


# --- images


@pytest.fixture
def reading_only(monkeypatch):
    """Only how boxes are read is varied: the network then runs once on each image, instead of forty times."""

    def find(*arguments):
        axes, not_swept = axes_of(*arguments)
        return [axis for axis in axes if axis.slot in ("parts", "boxes", "labels")], not_swept

    axes_of = diagnose.find_axes
    monkeypatch.setattr(decoder_axes, "DECODERS", ("pillow",))
    monkeypatch.setattr(diagnose, "find_axes", find)


SSD = "detection/models/ssd_mobilenet_v1_coco_300_uint8.tflite"
PARTS = ("boxes", "classes", "scores", "count")
TENSORS = [f"TFLite_Detection_PostProcess{end}" for end in ("", ":1", ":2", ":3")]
COCO_IDS = "COCO's ids less 1"
DAMAGES = {
    "nothing": ({}, {}),
    "box order": ({"format": "xyxy"}, {"box order": "yxyx, shares"}),
    "box order and units": ({"format": "cxcywh", "units": "pixels"}, {"box order and box units": "yxyx, shares"}),
    "labels one off": ({"shift": 1}, {"label offset": "every output one class higher"}),
    "80 classes for ids": ({"gaps": False}, {"label order": COCO_IDS}),
    "parts reversed": ({"names": TENSORS[::-1]}, {"parts": ", ".join(map(" ".join, zip(PARTS, TENSORS, strict=True)))}),
    "box order and labels": (
        {"format": "xyxy", "shift": 1},
        {"box order": "yxyx, shares", "label offset": "every output one class higher"},
    ),
}


@pytest.mark.parametrize(("damage", "faults"), DAMAGES.values(), ids=DAMAGES)
def test_boxes_of_coco(examined, reading_only, damage, faults):
    pytest.importorskip("ai_edge_litert.interpreter")
    categories = json.loads((TASKS / "detection/data/instances_val50.json").read_text())["categories"]
    names = {category["id"]: category["name"] for category in categories}
    labels = [names.get(number + 1, "???") for number in range(90)]
    if not damage.get("gaps", True):
        labels = [name for name in labels if name != "???"] + ["???"] * 10
    labels = ["background"] * damage.get("shift", 0) + labels
    read = {"format": damage.get("format", "yxyx"), "units": damage.get("units", "shares")}
    output = {
        "task": "detection",
        "parts": dict(zip(PARTS, damage.get("names", TENSORS), strict=True)),
        "postprocess": [{"op": "boxes", **read}],
        "labels": labels,
    }
    steps = [{"op": "resize", "size": [300, 300]}, {"op": "normalize", "scale": 0.0078125, "mean": [1.0]}]
    declared = {"shape": [1, 300, 300, 3], "layout": "NHWC", "dtype": "uint8", "preprocess": steps}
    data = f"coco:{TASKS / 'detection/data/instances_val50.json'}?images=val2017"
    found, wrong = examined(declared, output, (SSD,), data, "litert")
    assert wrong == faults, found.sentence
    assert found.status is (Status.WRONG if faults else Status.RIGHT), found.sentence
    figure = found.confirmation.after if faults else found.trials[0].value
    assert figure == pytest.approx(0.227, abs=0.02)
