"""Other readings of boxes, maps, classes, tags, texts and sounds: each is a manifest that says something else."""

import itertools

import numpy as np
import pytest

from zoolens.findings.audit.doctor.box_axes import box_axes
from zoolens.findings.audit.doctor.class_axes import class_axis
from zoolens.findings.audit.doctor.coco_classes import BY_ID, CLASSES
from zoolens.findings.audit.doctor.map_axes import map_axes
from zoolens.findings.audit.doctor.output_axes import probability_axis
from zoolens.findings.audit.doctor.part_axes import part_axis
from zoolens.findings.audit.doctor.shape_axes import shape_axes
from zoolens.findings.audit.doctor.sound_axes import sound_axes
from zoolens.findings.audit.doctor.text_axes import tag_axes, text_axes
from zoolens.findings.audit.doctor.variants import DECLARED, PROVES_A_RANGE, Axis, NotSwept, neighbours
from zoolens.inventory.datasets.arrays import ArrayDataset
from zoolens.inventory.manifests.files import dump_manifest, parse_manifest
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.runtimes.runtime import TensorSpec

IMAGE = {"shape": [1, 24, 24, 3], "layout": "NHWC", "preprocess": [{"op": "resize", "size": [24, 24]}]}
LISTS = {"boxes": "b", "classes": "c", "scores": "s", "count": "n"}
READ = {"op": "boxes", "format": "yxyx", "units": "shares"}
WORDS = {"max_length": 8, "vocabulary": 9, "words": {"unknown_id": 0}}
TEXT = {"modality": "text", "shape": [None, None], "dtype": "int64", "tokenizer": WORDS}
SOUND = {
    "modality": "sound",
    "shape": [1, 49, 10, 1],
    "sound": {"rate": 16000, "length": {"samples": 16000}},
    "preprocess": [{"op": "waveform", "scale": "maximum"}, {"op": "mfcc", "semantics": "librosa"}],
}
WIDE = ArrayDataset(np.zeros((4, 20, 30, 3), np.uint8), np.arange(4), name="images")


def manifest(output, declared=IMAGE, **changes):
    return Manifest(name="some", inputs=({**declared, **changes},), outputs=(output,))


def detector(parts=None, step=READ, **output):
    return manifest({"task": "detection", "parts": parts or LISTS, "postprocess": [step], **output})


def swept(axes):
    return [axis for axis in axes if isinstance(axis, Axis)]


def choice(axes, factor, name):
    return next(one for axis in swept(axes) for one in axis.choices if (one.factor, one.name) == (factor, name))


TEXT_MODEL = manifest({"labels": ["a", "b"]}, TEXT)
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
TAGGER = manifest({"task": "token-classification", "labels": TAGS}, TEXT)
MAP = manifest({"task": "segmentation", "postprocess": [{"op": "masks", "layout": "NCHW"}]})
BOXED = manifest({"task": "detection", "parts": LISTS, "postprocess": [READ]})


@pytest.mark.parametrize(
    ("declared", "axes"),
    [
        (BOXED, [*box_axes(BOXED), *shape_axes(BOXED, WIDE, located=True)]),
        (detector({"predictions": "p"}), box_axes(detector({"predictions": "p"}))),
        (MAP, map_axes(MAP, TensorSpec("m", (1, 21, 9, 9), "float32"))),
        (TEXT_MODEL, text_axes(TEXT_MODEL)),
        (TAGGER, tag_axes(TAGGER, TAGS)),
        (manifest({}, SOUND), sound_axes(manifest({}, SOUND))),
    ],
    ids=["boxes", "predictions", "map", "text", "tags", "sound"],
)
def test_every_variant_is_another_valid_manifest_that_can_be_taken_back(declared, axes):
    variants = neighbours(DECLARED, swept(axes))
    manifests = [variant.apply(declared) for variant in variants]
    assert len(variants) > 1
    assert declared not in manifests
    assert [parse_manifest(dump_manifest(one)) for one in manifests] == manifests
    assert not any(first == second for first, second in itertools.combinations(manifests, 2))


def test_order_and_units_of_boxes_are_changed_together_and_one_by_one():
    (axis,) = swept(box_axes(BOXED))
    assert axis.declared == "yxyx, shares"
    assert len(axis.choices) == 7
    step = choice([axis], "box order and box units", "cxcywh, pixels").change(BOXED).outputs[0].postprocess[0]
    assert (step.format, step.units) == ("cxcywh", "pixels")
    assert choice([axis], "box order", "xyxy, shares")


def test_finished_lists_have_no_activation_and_scores_that_pass_without_one_prove_that_it_is_doubled():
    assert any(one.factor == "activation" for one in box_axes(BOXED) if isinstance(one, NotSwept))
    scored = detector({"boxes": "b", "scores": "s"}, {**READ, "activation": "sigmoid"})
    none = choice(box_axes(scored), "activation", "none")
    assert "applied twice" in none.proof
    assert none.proven_by == PROVES_A_RANGE
    assert choice(box_axes(scored), "activation", "softmax").proof is None
    declared = manifest({"task": "multilabel", "scores": "logits"})
    assert "applied twice" in probability_axis(declared).choices[0].proof
    assert probability_axis(declared).choices[0].proven_by == PROVES_A_RANGE


def test_anchors_say_what_boxes_are():
    steps = [{"op": "ssd_anchors", "strides": [8]}, {"op": "boxes"}]
    declared = manifest({"task": "detection", "parts": {"boxes": "b", "scores": "s"}, "postprocess": steps})
    assert choice(box_axes(declared), "box order", "xywh").change(declared).outputs[0].postprocess[0].order == "xywh"


def test_the_canvas_keeps_the_whole_image():
    canvas, methods, libraries = shape_axes(BOXED, WIDE, located=True)
    assert {one.name for one in canvas.choices} >= {
        "letterbox centred, padded with 114",
        "letterbox at the top left, padded with 128",
    }
    assert "stretched" not in {one.name for one in canvas.choices}
    letterbox = manifest(
        {"task": "detection", "parts": LISTS, "postprocess": [READ]},
        preprocess=[{"op": "letterbox", "size": [24, 24], "fill": 99, "library": "opencv"}],
    )
    canvas, methods, libraries = shape_axes(letterbox, WIDE, located=True)
    assert choice([canvas], "padding value", "letterbox centred, padded with 0")
    stretched = choice([canvas], "canvas", "stretched").change(letterbox).inputs[0].preprocess[0]
    assert (stretched.op, stretched.library) == ("resize", "opencv")
    # A choice of another library holds for whatever step is chosen as the canvas.
    both = DECLARED.choosing(choice([libraries], "antialias", "pil")).choosing(choice([canvas], "canvas", "stretched"))
    assert both.apply(letterbox).inputs[0].preprocess[0].library == "pil"
    assert choice([methods], "resize method", "nearest")


def test_what_fills_a_canvas_and_how_a_map_is_resized_are_protocol():
    letterbox = manifest(
        {"task": "detection", "parts": LISTS, "postprocess": [READ]},
        preprocess=[{"op": "letterbox", "size": [24, 24], "fill": 114}],
    )
    axes = [
        *shape_axes(letterbox, WIDE, located=True),
        *map_axes(MAP, TensorSpec("m", (1, 21, 9, 9), "float32")),
        *box_axes(BOXED),
    ]
    protocol = {one.factor: one.is_protocol for axis in swept(axes) for one in axis.choices}
    assert {name for name, is_protocol in protocol.items() if is_protocol} == {
        "padding value", "resize method", "resize library", "antialias", "map resize",
    }  # fmt: skip
    assert not protocol["canvas"]


def test_tensors_change_places_where_their_shapes_allow_it():
    shapes = {"b": (1, 10, 4), "c": (1, 10), "s": (1, 10), "n": (1,)}
    specs = [TensorSpec(name, shape, "float32") for name, shape in shapes.items()]
    (axis,) = part_axis(BOXED, specs)
    assert [one.name for one in axis.choices] == ["classes s, scores c"]
    reverse = detector(dict(zip(LISTS, ["n", "s", "c", "b"], strict=True)))
    (axis,) = part_axis(reverse, specs)
    assert LISTS in [one.change(reverse).outputs[0].parts for one in axis.choices]
    assert part_axis(detector({"predictions": "p"}), specs) == []


def test_a_map_of_numbers_has_one_layout_and_one_way_back():
    declared = manifest({"task": "segmentation"})
    layout, resize = map_axes(declared, TensorSpec("m", (1, 9, 9), "int64"))
    assert "1×9×9" in layout.reason
    assert isinstance(resize, NotSwept)
    layout, resize = map_axes(MAP, TensorSpec("m", (1, 21, 9, 9), "float32"))
    assert [one.name for one in layout.choices] == ["NHWC"]
    assert resize.declared == "scores interpolated, then the highest"


def test_ids_of_coco_are_counted_in_four_ways():
    assert (len(BY_ID), len(CLASSES), BY_ID[89], CLASSES[79]) == (90, 80, "toothbrush", "toothbrush")
    in_order = detector(labels=CLASSES)
    axis = class_axis(in_order, CLASSES, CLASSES)
    assert axis.declared == "COCO's 80 classes in order"
    assert choice([axis], "label order", "COCO's ids less 1").change(in_order).outputs[0].labels == BY_ID
    assert choice([axis], "label order", "COCO's ids").change(in_order).outputs[0].labels[1] == "person"
    few = class_axis(detector(labels=["cat", "unicorn"]), ["cat", "unicorn"], ["cat", "unicorn"])
    assert "COCO's ids" not in [one.name for one in few.choices]


def test_numbers_of_classes_are_shifted_in_whatever_way_they_are_named():
    labels = ("a", "b", "c")
    lower, higher = class_axis(detector(labels=labels), labels, labels).choices[:2]
    assert lower.change(detector(labels=labels)).outputs[0].labels == ("background", "a", "b", "c")
    assert higher.change(detector(labels=labels)).outputs[0].labels == ("b", "c", "???")
    mapped = detector(label_map={0: 2, 1: 0})
    lower, higher = class_axis(mapped, labels, None).choices[:2]
    assert lower.change(mapped).outputs[0].label_map == {1: 2, 2: 0}
    assert higher.change(mapped).outputs[0].label_map == {0: 0}
    plain = detector()
    assert class_axis(plain, labels, None).choices[0].change(plain).outputs[0].label_map == {1: 0, 2: 1, 3: 2}
    # As many names as scores, or the reader refuses them.
    scored = detector({"boxes": "b", "scores": "s"}, labels=labels)
    assert class_axis(scored, labels, labels).choices[0].change(scored).outputs[0].labels == ("c", "a", "b")


def test_tags_are_shifted_exchanged_and_ordered():
    axes = tag_axes(TAGGER, TAGS)
    orders = {one.name: one.change(TAGGER).outputs[0].labels for one in swept(axes)[0].choices}
    assert orders["every output one tag higher"] == ("B-PER", "I-PER", "B-LOC", "I-LOC", "O")
    assert orders["B and I exchanged"] == ("O", "I-PER", "B-PER", "I-LOC", "B-LOC")
    assert orders["all B before all I"] == ("O", "B-PER", "B-LOC", "I-PER", "I-LOC")
    assert "B and I of each type together" not in orders  # which is what is declared
    assert "one token" in next(one.reason for one in axes if isinstance(one, NotSwept))


def test_what_a_text_has_not_is_not_swept():
    reasons = {one.factor: one.reason for one in text_axes(TEXT_MODEL) if isinstance(one, NotSwept)}
    assert "special tokens" in reasons
    alone = manifest({}, {**TEXT, "tokenizer": {**WORDS, "padding": "none", "truncation": "refuse"}})
    reasons = {one.factor: one.reason for one in text_axes(alone) if isinstance(one, NotSwept)}
    assert {"padding side", "truncation"} <= set(reasons)


def test_sounds_are_resampled_where_another_rate_is_tried():
    declared = manifest({}, SOUND)
    axes = sound_axes(declared)
    sound = choice(axes, "sample rate", "8,000 Hz").change(declared).inputs[0].sound
    assert (sound.rate, sound.resample) == (8000, "scipy")
    slaney = choice(axes, "mel scale", "htk, bands of equal height").change(declared).inputs[0].preprocess[1]
    assert (slaney.mel_scale, slaney.mel_norm) == ("htk", "none")
    ended = choice(axes, "normalisation of features", "standardised over the frames").change(declared)
    assert ended.inputs[0].preprocess[-1].over == "frames"
    samples = manifest({}, {**SOUND, "shape": [1, 16000], "preprocess": []})
    assert any("samples, not features" in one.reason for one in sound_axes(samples) if isinstance(one, NotSwept))
    # Without frames there is one way to standardise.
    (last,) = [axis for axis in sound_axes(samples) if not isinstance(axis, NotSwept) and axis.slot == "feature scale"]
    assert [one.name for one in last.choices] == ["standardised over all numbers"]
