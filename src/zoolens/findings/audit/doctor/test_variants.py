import numpy as np
import pytest

from zoolens.findings.audit.doctor.output_axes import label_axis, scores_axis
from zoolens.findings.audit.doctor.pixel_axes import colour_axis, normalisation_axis
from zoolens.findings.audit.doctor.shape_axes import layout_axis, shape_axes
from zoolens.findings.audit.doctor.variants import DECLARED, Axis, NotSwept, neighbours
from zoolens.inventory.datasets.arrays import ArrayDataset
from zoolens.inventory.manifests.files import dump_manifest, parse_manifest
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.runtimes.runtime import TensorSpec

FLOAT = TensorSpec("input", (1, 3, 24, 24), "float32")


def manifest(output=None, **changes):
    described = {
        "shape": [1, 3, 24, 24],
        "preprocess": [
            {"op": "resize", "size": [24, 24]},
            {"op": "normalize", "scale": 1 / 255, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
        ],
        **changes,
    }
    return Manifest(name="some", inputs=(described,), outputs=(output or {},))


def named(axis, name):
    return next(choice for choice in axis.choices if choice.name == name)


def images(side):
    return ArrayDataset(np.zeros((10, side, side, 3), np.uint8), np.arange(10), name="images")


def test_what_is_declared_is_no_variant_however_it_is_written():
    names = [choice.name for choice in normalisation_axis(manifest(), FLOAT).choices]
    assert "ImageNet mean and deviation" not in names
    written = manifest(preprocess=[{"op": "normalize", "scale": 1 / 127.5, "mean": [1.0]}])
    assert "−1 to 1" not in [choice.name for choice in normalisation_axis(written, FLOAT).choices]


def test_a_mean_follows_the_colour_order():
    declared = manifest(preprocess=[])
    bgr, caffe = colour_axis(declared).choices[0], named(normalisation_axis(declared, FLOAT), "ImageNet mean of Caffe")
    # chosen in the wrong order, applied in the right one
    both = DECLARED.choosing(caffe).choosing(bgr).apply(declared)
    assert both.inputs[0].color == "BGR"
    assert both.inputs[0].preprocess[-1].mean == (103.939, 116.779, 123.68)


def test_a_forgotten_division_keeps_the_declared_mean():
    choice = named(normalisation_axis(manifest(), FLOAT), "declared mean and deviation at scale 1")
    step = choice.change(manifest()).inputs[0].preprocess[-1]
    assert (step.scale, step.mean) == (1.0, (0.485, 0.456, 0.406))


def test_raw_integers_are_not_normalised():
    found = normalisation_axis(manifest(), TensorSpec("input", (1, 3, 24, 24), "uint8"))
    assert isinstance(found, NotSwept)
    assert "uint8" in found.reason


def test_grey_images_and_arrays_have_no_colour_order():
    assert isinstance(colour_axis(manifest(color="gray", shape=[1, 1, 24, 24])), NotSwept)
    assert isinstance(colour_axis(manifest(modality="array", shape=[1, 4], preprocess=[])), NotSwept)


def test_images_of_the_right_size_are_not_resized():
    (found,) = shape_axes(manifest(), images(24))
    assert "24×24 already" in found.reason


def test_every_shape_variant_is_a_valid_manifest():
    declared = manifest()
    axes = shape_axes(declared, images(30))
    assert [axis.slot for axis in axes] == ["framing", "resize method", "resize library"]
    for variant in neighbours(DECLARED, axes):
        varied = variant.apply(declared)
        assert parse_manifest(dump_manifest(varied)) == varied
        assert varied != declared


def test_antialias_is_told_from_the_library():
    factors = {choice.name: choice.factor for choice in shape_axes(manifest(), images(30))[2].choices}
    assert factors["torchvision, with antialias"] == "resize library"
    assert factors["torchvision, without antialias"] == factors["opencv"] == "antialias"


def test_the_file_settles_the_layout():
    settled = layout_axis(manifest(), FLOAT, "onnx")
    assert "1×3×24×24" in settled.reason
    contradicted = layout_axis(manifest(), TensorSpec("input", (1, 24, 24, 3), "float32"), "onnx")
    assert contradicted.choices[0].change(manifest()).inputs[0].shape == (1, 24, 24, 3)
    assert isinstance(layout_axis(manifest(), FLOAT, "torchscript"), Axis)  # carries no shape


@pytest.mark.parametrize(("outputs", "dropped"), [(11, 1), (10, None)])
def test_a_class_lower_is_a_dropped_output_where_there_is_one_to_spare(outputs, dropped):
    lower, higher = label_axis(manifest(), outputs, 10, None).choices
    output = lower.change(manifest()).outputs[0]
    if dropped:
        assert output.postprocess[0].count == dropped
    else:
        assert output.label_map == {index: index - 1 for index in range(1, 10)}
    assert higher.change(manifest()).outputs[0].label_map[0] == 1


def test_a_dropped_output_can_be_taken_back_and_takes_its_name_along():
    labels = tuple("abcdefghij")
    declared = manifest({"postprocess": [{"op": "drop_leading"}], "labels": labels})
    _, higher = label_axis(declared, 11, 10, labels).choices
    output = higher.change(declared).outputs[0]
    assert output.postprocess == ()
    assert output.labels == ("background", *labels)


def test_probabilities_need_no_softmax():
    declared = manifest({"postprocess": [{"op": "softmax"}]})
    (choice,) = scores_axis(declared, 10).choices
    assert not scores_axis(declared, 10).ranked
    assert scores_axis(declared, 1).ranked  # a probability is held against 0.5, a logit against 0
    assert choice.change(declared).outputs[0].postprocess == ()


def test_neighbours_differ_in_one_place_and_include_the_way_back():
    declared = manifest()
    axes = [colour_axis(declared), normalisation_axis(declared, FLOAT)]
    bgr = DECLARED.choosing(axes[0].choices[0])
    found = neighbours(bgr, axes)
    assert DECLARED in found
    assert len(found) == len(set(found)) == 1 + len(axes[1].choices)
