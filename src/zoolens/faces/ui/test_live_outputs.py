"""Boxes, maps, tags and answers of models on what a page gives them, and how far two models agree."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from PIL import Image

pytest.importorskip("starlette")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx

from zoolens.base.errors import ZoolensError
from zoolens.faces.ui.live import LiveModels
from zoolens.faces.ui.live_outputs import MOST_NAMES, SharedClasses
from zoolens.faces.ui.resources import live as resource
from zoolens.faces.ui.settings import Settings
from zoolens.testing.text_models import write_tokenizer

# Every image gets the same two boxes, on a canvas of 8 × 8.
BOXES = """<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 3, 8, 8] x) => (float[N, 2, 4] b, float[N, 2, 3] s)
<float zero = {0}, int64[3] flat = {-1, 1, 1}, float[1, 2, 4] boxes = {1, 3, 5, 5, 0, 2, 8, 6},
 float[1, 2, 3] scores = {0.9, 0, 0, 0, 0.4, 0.05}>
{
  m = ReduceMean <axes = [1, 2, 3]> (x)
  z = Mul (m, zero)
  r = Reshape (z, flat)
  b = Add (r, boxes)
  s = Add (r, scores)
}
"""
CHANNELS = """<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] s)
{
  s = Identity (x)
}
"""
# The scores of a token stand in a table: its first column for the start of an answer, and so on.
TOKENS = """<ir_version: 8, opset_import: ["" : 17]>
net (int64[N, T] ids) => (OUTPUTS)
<int64[1] last = {2}, float[12, 3] table = {TABLE}>
{
  all = Gather (table, ids)
  BODY
}
"""
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "where", "is", "it", "in", "old", "paris", "ann", "now")
LETTERBOX = [{"op": "letterbox", "size": [8, 8], "method": "nearest", "fill": 0}]
PIXELS = np.zeros((8, 16, 3), np.uint8)
PIXELS[:, :8, 0], PIXELS[:, 8:, 2] = 250, 250


def write(folder, name, network, inputs, output, *files):
    onnx.save(onnx.parser.parse_model(network), folder / f"{name}.onnx")
    assets = [{"location": f"{name}.onnx"}, *files]
    manifest = {"zoolens": 1, "name": name, "inputs": [inputs], "outputs": [output]}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**manifest, "assets": [{"format": "onnx", "files": assets}]}))
    return str(path)


def detector(folder, name, labels):
    steps = [{"op": "boxes", "format": "xyxy", "units": "pixels"}, {"op": "nms", "iou": 0.5}]
    output = {"task": "detection", "parts": {"boxes": "b", "scores": "s"}, "postprocess": steps}
    named = {} if labels is None else {"labels": labels}
    return write(folder, name, BOXES, {"shape": [None, 3, 8, 8], "preprocess": LETTERBOX}, {**output, **named})


def segmenter(folder, name, labels):
    steps = [{"op": "masks", "layout": "NCHW", "resize": "nearest"}]
    output = {"task": "segmentation", "labels": labels, "postprocess": steps}
    return write(folder, name, CHANNELS, {"shape": [None, 3, 8, 8], "preprocess": LETTERBOX}, output)


def text_model(folder, name, output, table, outputs, body, **tokenizer):
    write_tokenizer(folder / "tokenizer.json", WORDS)
    content = json.loads((folder / "tokenizer.json").read_text())
    pair = [("SpecialToken", "[CLS]"), ("Sequence", "A"), ("SpecialToken", "[SEP]"), ("Sequence", "B")]
    content["post_processor"]["pair"] = [{kind: {"id": part, "type_id": 0}} for kind, part in pair]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    numbers = ", ".join(str(table.get(word, (-1, -1, -1))[place]) for word in WORDS for place in range(3))
    network = TOKENS.replace("OUTPUTS", outputs).replace("TABLE", numbers).replace("BODY", body)
    declared = {"max_length": 32, "vocabulary": len(WORDS), **tokenizer}
    inputs = {"modality": "text", "shape": [None, None], "dtype": "int64", "tokenizer": declared}
    return write(folder, name, network, inputs, output, {"location": "tokenizer.json", "role": "tokenizer"})


def tagger(folder, name="tagger", place=2.0):
    table = {"ann": (2, -1, -1), "paris": (-1, place, 1), "old": (-1, -1, -1)}
    output = {"task": "token-classification", "labels": ["B-PER", "B-LOC", "O"]}
    # The third column is that of O; words outside the table have it highest by the order of the labels otherwise.
    others = {word: (-1, -1, 3) for word in WORDS if word not in ("ann", "paris")}
    return text_model(folder, name, output, {**table, **others}, "float[N, T, 3] all", "")


def answerer(folder):
    body = "s = Slice (all, zero, one, last)\n  e = Slice (all, one, two, last)\n"
    body += "  start = Squeeze (s, last)\n  end = Squeeze (e, last)"
    outputs = "float[N, T] start, float[N, T] end"
    output = {"task": "question-answering", "parts": {"start": "start", "end": "end"}}
    table = {"old": (5, -1, 0), "paris": (-1, 5, 0)}
    path = text_model(folder, "answerer", output, table, outputs, "start = Identity (all)", pair="longest_first")
    network = TOKENS.replace("OUTPUTS", outputs).replace("BODY", body)
    numbers = ", ".join(str(table.get(word, (-1, -1, -1))[place]) for word in WORDS for place in range(3))
    named = "int64[1] last = {2}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}"
    network = network.replace("int64[1] last = {2}", named).replace("TABLE", numbers)
    onnx.save(onnx.parser.parse_model(network), folder / "answerer.onnx")
    return path


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def live():
    with LiveModels() as made:
        yield made


def test_boxes_lie_in_the_image_and_classes_are_shared_by_name(live, home, tmp_path):
    paths = [detector(tmp_path, *about) for about in (("a", ["cat", "dog", "owl"]), ("b", ["Dog", "cat", "owl"]))]
    a, b = (live.answer(path, "onnxruntime", PIXELS, 5) for path in paths)
    box = a.drawing.boxes[0]
    assert (box.left, box.top, box.width, box.height, box.name) == (2, 2, 8, 4, "cat")
    assert (a.task, a.classes, a.words) == ("detection", (), "2 boxes: cat 0.90, dog 0.40")
    assert b.drawing.boxes[0].name == "dog"
    assert b.drawing.boxes[0].number == a.drawing.boxes[1].number  # the same class, by another number of the model
    name, value = live.agreement(a.key, b.key)
    assert ("boxes" in name, value) == (True, 0)  # the same boxes of other classes
    assert live.agreement(a.key, a.key)[1] == 1


def test_classes_that_only_one_model_knows_are_told_and_without_a_common_one_nothing_is(live, home, tmp_path):
    named = {"c": ["cat", "dog", "owl"], "d": ["cat", "dog", "emu"], "e": ["ant", "bee", "fly"]}
    c, d, e = (live.answer(detector(tmp_path, *about), "onnxruntime", PIXELS, 5) for about in named.items())
    name, value = live.agreement(c.key, d.key)
    assert value == 1
    assert "2 classes that only one of them knows count as differences" in name
    with pytest.raises(ZoolensError, match="no class in common"):
        live.agreement(c.key, e.key)


def test_images_of_other_sides_are_other_inputs(live, home, tmp_path):
    blank = np.zeros((8, 16, 3), np.uint8)
    path = detector(tmp_path, "sides", ["cat", "dog", "owl"])
    a, b = (live.answer(path, "onnxruntime", pixels, 5) for pixels in (blank, blank.reshape(16, 8, 3)))
    with pytest.raises(ZoolensError, match="different inputs"):
        live.agreement(a.key, b.key)


@pytest.mark.slow
def test_two_maps_agree_by_the_names_of_their_classes(live, home, tmp_path):
    a, b = (
        live.answer(segmenter(tmp_path, name, labels), "onnxruntime", PIXELS, 5)
        for name, labels in (("a", ["red", "green", "blue"]), ("b", ["red", "green", "sea"]))
    )
    assert a.drawing.classes.shape == PIXELS.shape[:2]
    assert [(one.name, one.share) for one in a.drawing.legend] == [("red", 0.5), ("blue", 0.5)]
    assert live.agreement(a.key, b.key)[1] == 0.5
    other = live.answer(segmenter(tmp_path, "c", ["red", "green", "blue"]), "onnxruntime", PIXELS[::-1] // 2, 5)
    with pytest.raises(ZoolensError, match="were given different inputs"):
        live.agreement(a.key, other.key)


@pytest.mark.slow
def test_what_cannot_be_compared_is_said(live, home, tmp_path):
    boxes, map_ = detector(tmp_path, "boxes", ["x", "y", "z"]), segmenter(tmp_path, "map", ["x", "y", "z"])
    a, b = (live.answer(path, "onnxruntime", PIXELS, 5) for path in (boxes, map_))
    with pytest.raises(ZoolensError, match=r"does detection and .* does segmentation"):
        live.agreement(a.key, b.key)
    unnamed = live.answer(detector(tmp_path, "unnamed", None), "onnxruntime", PIXELS, 5)
    assert unnamed.drawing.boxes[0].name == "class 0"
    with pytest.raises(ZoolensError, match="cannot be matched by name"):
        live.agreement(a.key, unnamed.key)
    with pytest.raises(ZoolensError, match="no longer known"):
        live.agreement(a.key, "nothing")


def test_words_are_tagged_and_questions_answered(live, home, tmp_path):
    pytest.importorskip("tokenizers")
    path = tagger(tmp_path)
    (text,) = live.answer_texts(path, "onnxruntime", ["Where is Ann, now in Paris?"], 5).texts
    assert text.split == ("Where", "is", "Ann", ",", "now", "in", "Paris", "?")
    assert [(mark.first, mark.last, mark.name) for mark in text.drawing.marks] == [(2, 2, "PER"), (6, 6, "LOC")]
    (other,) = live.answer_texts(
        tagger(tmp_path, "blind", -2.0), "onnxruntime", ["Where is Ann, now in Paris?"], 5
    ).texts
    assert live.agreement(text.key, other.key)[1] == pytest.approx(2 / 3)
    with pytest.raises(ZoolensError, match="has no words"):
        live.answer_texts(path, "onnxruntime", ["  "], 5)
    asked = answerer(tmp_path)
    told = live.answer_texts(asked, "onnxruntime", ["Where is it", "now in old\nParis now"], 5)
    assert (told.pair, told.texts[0].words, told.texts[0].drawing.texts) == (True, "'old Paris'", ("old Paris",))
    with pytest.raises(ZoolensError, match="takes two texts together"):
        live.answer_texts(asked, "onnxruntime", ["Where is it"], 5)


def test_the_page_is_told_of_drawings_and_agreement(live, home, tmp_path):
    paths = [segmenter(tmp_path, name, ["red", "<b>", "blue"]) for name in "ab"]
    stream = io.BytesIO()
    Image.fromarray(PIXELS).save(stream, "PNG")
    context = SimpleNamespace(live=live, settings=Settings(allowed=(tmp_path,)))
    told = [resource.live(context, resource.LiveQuery(model=path), stream.getvalue()) for path in paths]
    assert (told[0].width, told[0].height, told[0].drawn.overlay) == (16, 8, True)
    assert told[0].overlay.startswith("iVBOR")
    assert [one.name for one in told[0].drawn.legend] == ["red", "blue"]
    agreed = resource.agreement(context, resource.AgreementQuery(a=told[0].key, b=told[1].key))
    assert (agreed.words, agreed.name, agreed.reason) == ("100.0 %", "same class of a pixel", "")
    unknown = resource.agreement(context, resource.AgreementQuery(a=told[0].key, b="?"))
    assert (unknown.value, unknown.words) == (None, "")
    assert "no longer known" in unknown.reason


def test_names_are_numbered_together_as_long_as_they_are_few():
    classes = SharedClasses()
    assert classes.numbered(["cat", "dog"]).tolist() == [0, 1]
    assert classes.numbered(["Dog", "owl", "owl"]).tolist() == [1, 2, 2]
    assert classes.numbered([str(number) for number in range(MOST_NAMES)]) is None
    assert classes.names == ["cat", "dog", "owl"]
