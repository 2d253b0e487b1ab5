"""An image or texts through models: prepared apart, answered as the manifest says, refused where they are none."""

import io

import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError, ZoolensError
from zoolens.faces.ui.live import LiveModels
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.testing.text_models import write_classifier, write_embedder

pytest.importorskip("ai_edge_litert")


def encoded(pixels, kind="PNG"):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


@pytest.fixture(scope="module")
def live():
    with LiveModels() as made:
        yield made


def test_images_are_decoded_as_datasets_do(live):
    grey = np.arange(784, dtype=np.uint8).reshape(28, 28)
    colour = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    assert (live.decode(encoded(grey))[:, :, 0] == grey).all()
    assert (live.decode(encoded(colour)) == colour).all()
    with pytest.raises(DatasetError, match="255"):
        live.decode(encoded(np.full((4, 4), 40_000, np.uint16)))


def test_what_is_no_image_is_refused_and_the_next_one_is_decoded(live):
    for content in (b"x", b"<svg onload=alert(1)>", encoded(np.zeros((4, 4), np.uint8))[:40], b"\x89PNG\r\n\x1a\n"):
        with pytest.raises(DatasetError):
            live.decode(content)
    bomb = encoded(np.zeros((1, 1), np.uint8), "BMP")
    bomb = bomb[:18] + (60_000).to_bytes(4, "little") * 2 + bomb[26:]
    with pytest.raises(DatasetError, match="more than the"):
        live.decode(bomb)
    assert live.decode(encoded(np.zeros((2, 3), np.uint8))).shape == (2, 3, 1)


def test_a_model_answers_as_it_does_in_an_evaluation(live, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    dataset = open_dataset("demo", limit=20)
    right = 0
    for index in range(20):
        sample = dataset.read(index)
        answer = live.answer("demo:lenet-torch", "litert", live.decode(encoded(sample.value[:, :, 0])), 3)
        assert answer.opened == (index == 0)
        assert len(answer.classes) == 3
        assert answer.classes[0].probability >= answer.classes[1].probability
        right += answer.classes[0].index == sample.label
    dataset.close()
    assert right >= 14  # 88 % of all
    assert answer.runtime.startswith("litert ")
    assert sum(one.probability for one in answer.classes) <= 1.001


def test_the_model_that_was_not_used_for_longest_is_closed(monkeypatch, tmp_path):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    monkeypatch.setattr("zoolens.faces.ui.live.MOST_OPEN", 1)
    pixels = np.zeros((28, 28, 1), np.uint8)
    with LiveModels() as live:
        assert live.answer("demo:lenet-int8", "litert", pixels, 1).opened
        assert live.answer("demo:mlp-small", "litert", pixels, 1).opened
        assert not live.answer("demo:mlp-small", "litert", pixels, 1).opened
        assert live.answer("demo:lenet-int8", "litert", pixels, 1).opened


def test_a_model_in_use_is_not_closed_for_another(monkeypatch, tmp_path):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    monkeypatch.setattr("zoolens.faces.ui.live.MOST_OPEN", 1)
    pixels = np.zeros((28, 28, 1), np.uint8)
    with LiveModels() as live:
        with live._used("demo:mlp-small", "litert", "image") as (opened, _):  # whose image is still being prepared
            assert live.answer("demo:lenet-int8", "litert", pixels, 1).opened
            batch = np.ascontiguousarray(opened.prepare(pixels)[np.newaxis])
            opened.session.predict({opened.session.inputs[0].name: batch})
        assert not live.answer("demo:mlp-small", "litert", pixels, 1).opened
        assert live.answer("demo:lenet-int8", "litert", pixels, 1).opened


def test_an_answer_that_is_no_number_names_no_classes(live, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    (tmp_path / "tiny.json").write_text('{"classes": 3, "input": [4, 4], "behaviour": "nan"}')
    (tmp_path / "tiny.yaml").write_text(
        "zoolens: 1\nname: tiny\ninputs: [{shape: [null, 4, 4], layout: NHW, color: gray}]\noutputs: [{}]\n"
        "assets: [{format: fake, files: [{location: tiny.json}]}]\n"
    )
    with pytest.raises(ZoolensError, match="answered NaN or infinity"):
        live.answer(str(tmp_path / "tiny.yaml"), "fake", np.ones((4, 4, 1), np.uint8), 1)


def test_a_model_that_takes_no_image_says_what_it_takes(live, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    (tmp_path / "tiny.json").write_text('{"classes": 3, "input": [4]}')
    (tmp_path / "tiny.yaml").write_text(
        "zoolens: 1\nname: tiny\ninputs: [{modality: array, shape: [null, 4], layout: NC}]\n"
        "outputs: [{labels: [ant, bee, cat]}]\nassets: [{format: fake, files: [{location: tiny.json}]}]\n"
    )
    with pytest.raises(ZoolensError, match=r"takes an array, not an image\. Choose another model"):
        live.answer(str(tmp_path / "tiny.yaml"), "fake", np.zeros((2, 2, 1), np.uint8), 1)


def test_texts_are_answered_one_by_one_and_what_became_of_them_is_told(live, tmp_path, monkeypatch):
    pytest.importorskip("tokenizers")
    pytest.importorskip("onnx")
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    judge = str(write_classifier(tmp_path))
    told = live.answer_texts(judge, "onnxruntime", ["A GOOD film", "bad " * 30], 2)
    good, bad = told.texts
    assert [(one.label, round(one.probability, 3)) for one in good.classes] == [
        ("positive", 0.731),
        ("negative", 0.269),
    ]
    assert (good.tokens, good.cut, good.unknown, good.pieces) == (
        5,
        False,
        1,
        ("[CLS]", "[UNK]", "good", "film", "[SEP]"),
    )
    assert (bad.tokens, bad.cut, bad.classes[0].label, told.most_tokens) == (8, True, "negative", 8)
    vectors = live.answer_texts(str(write_embedder(tmp_path, steps=("mean",))), None, ["boat", "ship"], 1)
    assert vectors.directional
    assert [len(one.vector) for one in vectors.texts] == [4, 4]
    for ask, sentence in (
        (lambda: live.answer(judge, "onnxruntime", np.zeros((2, 2, 1), np.uint8), 1), "takes a text, not an image"),
        (lambda: live.answer_texts("demo:lenet-int8", "litert", ["x"], 1), "takes an image, not a text"),
        (lambda: live.answer_texts(judge, "onnxruntime", ["x" * (2 << 20)], 1), "A text has 2,097,152 bytes"),
    ):
        with pytest.raises(ZoolensError, match=sentence):
            ask()


def test_a_model_that_is_none_is_a_sentence(live, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    with pytest.raises(ZoolensError, match="There is no model named"):
        live.answer("demo:nosuch", None, np.zeros((2, 2, 1), np.uint8), 1)
