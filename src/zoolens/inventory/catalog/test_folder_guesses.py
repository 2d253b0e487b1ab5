"""Files in folders of transformers: what config.json and its neighbours say becomes the draft."""

import json

import pytest

from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.manifests.files import dump_manifest, parse_manifest
from zoolens.testing.text_models import write_tokenizer

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
TEXT = """<ir_version: 8, opset_import: ["" : 17]>
net (int64[N, T] input_ids, int64[N, T] attention_mask) => (float[{shape}] {output})
<float[7, 3] table = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}}>
{{ each = Gather (table, input_ids)
  {output} = {last} (each) }}
"""
IMAGE = """<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 3, 8, 8] pixel_values) => (float[{shape}] logits) {{ logits = {last} (pixel_values) }}
"""
LABELS = {"0": "low", "1": "middle", "2": "high"}


@pytest.fixture
def drafted(tmp_path):
    """Drafts a file in a folder with these JSON files."""

    def draft(network, folder="", **files):
        write_tokenizer(tmp_path / "tokenizer.json")
        (tmp_path / "1_Pooling").mkdir()
        for name, content in files.items():
            path = "1_Pooling/config.json" if name == "pooling" else f"{name}.json"
            (tmp_path / path).write_text(json.dumps(content))
        (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / folder / "model.onnx"
        onnx.save(onnx.parser.parse_model(network), path)
        manifest = draft_manifest(path)
        assert parse_manifest(dump_manifest(manifest)) == manifest
        return manifest

    return draft


def config(head, **more):
    return {"model_type": "bert", "architectures": [f"Bert{head}"], "id2label": LABELS, "vocab_size": 9, **more}


def text(output, shape, last):
    return TEXT.format(output=output, shape=shape, last=last)


def test_a_classifier_of_texts(drafted):
    settings = {"model_max_length": 64, "padding_side": "left"}
    network = text("logits", "N, 3", "ReduceMean <axes = [1], keepdims = 0>")
    manifest = drafted(network, config=config("ForSequenceClassification", pad_token_id=1), tokenizer_config=settings)
    (given,), (output,) = manifest.inputs, manifest.outputs
    tokenizer = given.tokenizer
    # The table of the file has fewer rows than config.json says.
    assert (tokenizer.vocabulary, tokenizer.max_length, tokenizer.padding_side, tokenizer.pad_id) == (7, 64, "left", 1)
    assert (tokenizer.padding, tokenizer.tensors.attention_mask) == ("longest", "attention_mask")
    assert (output.task, output.labels, output.scores) == ("classification", ("low", "middle", "high"), "logits")
    assert [file.role for file in manifest.assets[0].files] == ["model", "tokenizer"]
    assert "exported from BertForSequenceClassification" in manifest.description
    assert "guessed" not in manifest.attributes


@pytest.mark.parametrize(
    ("more", "task"),
    [
        ({"problem_type": "multi_label_classification"}, "multilabel"),
        ({"problem_type": "regression"}, "regression"),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}}, "classification"),
    ],
)
def test_what_the_answers_of_a_sequence_are(drafted, more, task):
    network = text("logits", "N, 3", "ReduceMean <axes = [1], keepdims = 0>")
    manifest = drafted(network, config=config("ForSequenceClassification", **more))
    assert manifest.outputs[0].task == task
    unnamed = "id2label" in more
    assert (manifest.outputs[0].labels is None) is (unnamed or task == "regression")
    assert ("names no classes" in manifest.description) is unnamed


def test_a_tagger_below_a_folder_called_onnx(drafted):
    manifest = drafted(text("logits", "N, T, 3", "Identity"), "onnx", config=config("ForTokenClassification"))
    assert (manifest.outputs[0].task, manifest.outputs[0].labels) == ("token-classification", ("low", "middle", "high"))
    assert manifest.assets[0].files[1].location.startswith("file:///")


def test_an_embedding_is_pooled_as_the_folder_says(drafted):
    modules = [{"type": "sentence_transformers.models.Normalize"}]
    manifest = drafted(
        text("last_hidden_state", "N, T, 3", "Identity"),
        config=config("Model"),
        pooling={"pooling_mode_cls_token": True},
        modules=modules,
    )
    pool, normalise = manifest.outputs[0].postprocess
    assert (manifest.outputs[0].task, pool.method, normalise.op) == ("embedding", "first", "l2_normalize")


def test_an_embedding_without_a_word_on_pooling_is_a_guess(drafted):
    manifest = drafted(text("last_hidden_state", "N, T, 3", "Identity"), config=config("Model"))
    assert manifest.outputs[0].postprocess[0].method == "mean"
    assert any("not known: check" in guess for guess in manifest.attributes["guessed"])


PROCESSOR = {
    "image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 9}, "do_center_crop": True,
    "crop_size": {"height": 8, "width": 8}, "resample": 3, "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.25, 0.25, 0.25],
}  # fmt: skip


def test_a_classifier_of_images_is_prepared_as_the_folder_says(drafted):
    network = IMAGE.format(shape="N, 3", last="ReduceMean <axes = [2, 3], keepdims = 0>")
    manifest = drafted(network, config=config("ForImageClassification"), preprocessor_config=PROCESSOR)
    resize, crop, normalise = manifest.inputs[0].preprocess
    assert (resize.size, resize.method, crop.size) == (9, "bicubic", (8, 8))
    assert (normalise.mean, normalise.std, normalise.scale) == ((0.5,) * 3, (0.25,) * 3, pytest.approx(1 / 255))
    assert manifest.outputs[0].labels == ("low", "middle", "high")
    assert "ImageNet" not in manifest.description


def test_classes_of_imagenet_are_known_by_their_order(drafted):
    labels = {str(number): f"class {number}" for number in range(1000)}
    network = IMAGE.format(shape="N, 3", last="ReduceMean <axes = [2, 3], keepdims = 0>")
    manifest = drafted(network, config=config("ForImageClassification", id2label=labels), preprocessor_config=PROCESSOR)
    assert manifest.outputs[0].labels is None
    assert "ImageNet's in their usual order" in manifest.description


def test_a_segmenter(drafted):
    sizes = {"size": {"height": 8, "width": 8}, "do_rescale": False, "do_normalize": False}
    network = IMAGE.format(shape="N, 3, 8, 8", last="Identity")
    manifest = drafted(network, config=config("ForSemanticSegmentation"), preprocessor_config=sizes)
    assert (manifest.outputs[0].task, manifest.outputs[0].postprocess[0].layout) == ("segmentation", "NCHW")
    assert [(step.op, getattr(step, "scale", None)) for step in manifest.inputs[0].preprocess] == [
        ("resize", None), ("normalize", 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "found",
    [{"id2label": 3}, {"architectures": 5}, {"architectures": []}, {"id2label": {"1": "a"}}, {"vocab_size": "many"}],
)
def test_odd_files_are_no_reason_to_fail(drafted, found):
    network = text("logits", "N, 3", "ReduceMean <axes = [1], keepdims = 0>")
    drafted(network, config=config("ForSequenceClassification") | found, tokenizer_config=[])


def test_a_config_of_something_else_is_not_read(drafted):
    network = IMAGE.format(shape="N, 3", last="ReduceMean <axes = [2, 3], keepdims = 0>")
    manifest = drafted(network, config={"name": "something"}, preprocessor_config=PROCESSOR)
    assert manifest.outputs[0].labels is None
    assert "ImageNet" in manifest.description
