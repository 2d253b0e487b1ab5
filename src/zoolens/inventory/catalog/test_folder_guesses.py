"""Files in folders of transformers: what config.json and its neighbours say becomes the draft."""

import json

import pytest

from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.catalog.image_processors import image_steps
from zoolens.inventory.catalog.text_inputs import find_tokenizer
from zoolens.inventory.manifests.files import dump_manifest, parse_manifest
from zoolens.testing.text_models import write_tokenizer

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("trusted_models")

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
        onnx.save(onnx.parser.parse_model(network) if isinstance(network, str) else network, path)
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


@pytest.mark.parametrize(
    ("pooling", "why"),
    [
        ({}, "no 1_Pooling/config.json says it"),
        ({"pooling_mode_max_tokens": True, "pooling_mode_cls_token": False}, "says pooling_mode_max_tokens"),
        (
            {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True},
            "pooling_mode_mean_tokens, pooling_mode_m",
        ),
    ],
)
def test_an_embedding_without_a_word_on_pooling_is_a_guess(drafted, pooling, why):
    manifest = drafted(text("last_hidden_state", "N, T, 3", "Identity"), config=config("Model"), pooling=pooling)
    assert manifest.outputs[0].postprocess[0].method == "mean"
    assert [why in guess and "not known: check" in guess for guess in manifest.attributes["guessed"]] == [False, True]


def test_what_sentence_transformers_does_beside_the_network_is_read_or_said(drafted):
    manifest = drafted(
        text("last_hidden_state", "N, T, 3", "Identity"),
        config=config("Model", max_position_embeddings=512),
        pooling={"pooling_mode_mean_tokens": True},
        modules=[{"type": "sentence_transformers.models.Pooling"}, {"type": "sentence_transformers.models.Dense"}],
        sentence_bert_config={"max_seq_length": 128, "do_lower_case": True},
        config_sentence_transformers={"prompts": {"query": "query: ", "document": ""}},
    )
    assert manifest.inputs[0].tokenizer.max_length == 128
    guesses = manifest.attributes["guessed"]
    assert len(guesses) == 3
    for word, guess in zip(("do_lower_case", "prompts for query", "module Dense"), guesses, strict=True):
        assert word in guess


def test_questions_without_an_answer_are_a_guess(drafted):
    network = TEXT.replace("(float[{shape}] {output})", "(float[N, T, 1] start_logits, float[N, T, 1] end_logits)")
    network = network.replace("{output} = {last} (each)", "start_logits, end_logits, rest = Split <axis = 2> (each)")
    manifest = drafted(network.format(), config=config("ForQuestionAnswering", max_position_embeddings=9))
    assert manifest.outputs[0].task == "question-answering"
    assert ["no_answer: true" in guess for guess in manifest.attributes["guessed"]] == [True]


def test_a_tokenizer_is_that_of_the_folder_unless_another_has_the_very_name(tmp_path):
    model, own = tmp_path / "bert_int8.onnx", tmp_path / "tokenizer.json"
    alike, named = tmp_path / "bert.tokenizer.json", tmp_path / "bert_int8.tokenizer.json"
    write_tokenizer(alike)
    said = []
    assert find_tokenizer(model, tmp_path, said).location == alike.name
    assert "whose name begins alike (not known: check)" in said.pop()
    for path in (own, named):
        write_tokenizer(path)
        assert find_tokenizer(model, tmp_path, said).location == path.name
    assert not said


PROCESSOR = {
    "image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 9}, "do_center_crop": True,
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
    assert "images are prepared as preprocessor_config.json says" in manifest.description


@pytest.mark.parametrize("first", ["tench, Tinca tinca", "class 0"])
def test_classes_of_imagenet_are_known_by_their_order_and_others_by_name(drafted, first):
    labels = {str(number): f"class {number}" for number in range(1000)} | {"0": first}
    network = IMAGE.format(shape="N, 3", last="ReduceMean <axes = [2, 3], keepdims = 0>")
    manifest = drafted(network, config=config("ForImageClassification", id2label=labels), preprocessor_config=PROCESSOR)
    known = first.startswith("tench")
    assert (manifest.outputs[0].labels is None) is known
    assert ("ImageNet's in their usual order" in manifest.description) is known


SQUARE = ("resize", (256, 256))
SHORTER = ("resize", 256)


@pytest.mark.parametrize(
    ("changes", "expected", "guess"),
    [
        ({"image_processor_type": "DeiTFeatureExtractor"}, [SQUARE, ("center_crop", (224, 224))], ""),
        ({"image_processor_type": "CLIPFeatureExtractor"}, [SHORTER, ("center_crop", (224, 224))], ""),
        ({"image_processor_type": "ViTHybridImageProcessor"}, [SHORTER, ("center_crop", (224, 224))], ""),
        ({"default_to_square": False}, [SHORTER, ("center_crop", (224, 224))], ""),
        ({}, [SHORTER, ("center_crop", (224, 224))], "is that of the shorter side"),
        ({"image_processor_type": "ViTImageProcessor", "do_center_crop": False}, [SQUARE], ""),
        (
            {"image_processor_type": "ConvNextFeatureExtractor", "size": 224, "crop_pct": 0.875, "crop_size": None,
             "do_center_crop": False}, [SHORTER, ("center_crop", (224, 224))], "",
        ),
        ({"image_processor_type": "ConvNextImageProcessor", "size": 384, "do_center_crop": False},
         [("resize", (384, 384))], ""),
        ({"image_processor_type": "LevitImageProcessor", "size": {"shortest_edge": 256}},
         [SHORTER, ("center_crop", (224, 224))], "by a rule of its own"),
        ({"size": {"height": 256, "width": 256}, "crop_size": [3]}, [SQUARE], "images are not cropped"),
        ({"size": {"height": 256, "width": 256}, "do_center_crop": False, "resample": 5}, [SQUARE], "resample is 5"),
        ({"size": {"height": 256, "width": 256}, "do_center_crop": False, "resample": []}, [SQUARE], "resample is []"),
        ({"size": None, "do_center_crop": False}, [("resize", (8, 8))], "stretched to the 8×8 of the file"),
        ({"size": {"height": 256, "width": 256}, "do_center_crop": False, "do_flip_channel_order": True}, [SQUARE],
         "RGB into BGR"),
        ({"size": {"height": 256, "width": 256}, "do_center_crop": False, "include_top": True}, [SQUARE],
         "also says include_top"),
    ],
)  # fmt: skip
def test_what_a_processor_says_is_stated_only_if_all_of_it_is_followed(changes, expected, guess):
    """As the processors of transformers 5.22.2 do: with Pillow, pixels of a 500×333 image differ by at most 2.4e-7 for
    DeiT, ConvNext, CLIP, MobileNetV2 and Segformer."""
    usual = {"size": 256, "do_center_crop": True, "crop_size": 224, "resample": 3, "image_mean": [0.5], "device": None,
             "image_std": [0.5], "do_pad": None}  # fmt: skip
    said, stated = [], []
    *sides, normalise = image_steps(usual | changes, (8, 8), said, stated)
    assert [(step.op, step.size) for step in sides] == expected
    assert normalise.mean == (0.5,)
    assert bool(stated) is not bool(said)
    assert len(said) == bool(guess)
    assert guess in "".join(said)


def test_several_labels_of_an_image_are_no_softmax(drafted):
    network = IMAGE.format(shape="N, 3", last="ReduceMean <axes = [2, 3], keepdims = 0>")
    kind = config("ForImageClassification", problem_type="multi_label_classification")
    assert drafted(network, config=kind, preprocessor_config=PROCESSOR).outputs[0].task == "multilabel"


def test_an_unknown_class_keeps_the_preparation_of_its_images(drafted):
    network = IMAGE.format(shape="N, 3", last="ReduceMean <axes = [2, 3], keepdims = 0>")
    manifest = drafted(network, config=config("ForSomething"), preprocessor_config=PROCESSOR)
    assert [step.op for step in manifest.inputs[0].preprocess] == ["resize", "center_crop", "normalize"]
    assert (manifest.outputs[0].task, "ImageNet" in manifest.description) == ("other", False)


def test_an_unknown_detector_has_the_preparation_of_its_folder(drafted):
    network = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 8, 8] pixel_values) => (float[N, 3, 8, 80] logits, float[N, 3, 8, 4] pred_boxes)
    <float[8, 80] a, float[8, 4] b> {
      logits = MatMul (pixel_values, a)
      pred_boxes = MatMul (pixel_values, b)
    }"""
    model = onnx.parser.parse_model(network)
    names = {"a": (8, 80), "b": (8, 4)}
    model.graph.initializer.extend(
        onnx.helper.make_tensor(name, 1, shape, [0.0] * (shape[0] * shape[1])) for name, shape in names.items()
    )
    manifest = drafted(model, config=config("ForObjectDetection", model_type="new"), preprocessor_config=PROCESSOR)
    assert [step.op for step in manifest.inputs[0].preprocess] == ["resize", "center_crop", "normalize"]
    assert (manifest.outputs[0].task, manifest.outputs[0].postprocess[0].activation) == ("detection", "sigmoid")


def test_a_sentence_embedding_is_the_answer_and_not_its_tokens(drafted):
    network = TEXT.replace("{output})", "{output}, float[N, 3] sentence_embedding)")
    network = network.replace("(each) }}", "(each)\n sentence_embedding = ReduceMean <axes=[1], keepdims=0> (each) }}")
    network = network.format(output="token_embeddings", shape="N, T, 3", last="Identity")
    (output,) = drafted(network, config=config("Model")).outputs
    assert (output.name, output.task, output.postprocess) == ("sentence_embedding", "embedding", ())


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
