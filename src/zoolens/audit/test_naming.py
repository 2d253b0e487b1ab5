from __future__ import annotations

import pytest

from zoolens.audit.naming import claimed_architecture, claiming, covers, label


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("squeezenet1.0-12.onnx", "squeezenet1_0"),
        ("squeezenet1_0", "squeezenet1_0"),
        ("squeezenet_v1.1.deploy.prototxt", "squeezenet1_1"),
        ("resnet50.onnx", "resnet50"),
        ("resnet50-v2-7.onnx", "resnet50_v2"),
        ("my_ResNet101_final.tflite", "resnet101"),
        ("wide_resnet50_2.onnx", "wide_resnet50_2"),
        ("coral_mobilenet_v1_0.25_128_quant.tflite", "mobilenet_v1_0.25"),
        ("stm_mobilenet_v2_0.35_224_int8.tflite", "mobilenet_v2_0.35"),
        ("mobilenet_v2_1.0_224", "mobilenet_v2_1.0"),
        ("mobilenet_v2_quant.onnx", "mobilenet_v2"),
        ("vgg16_bn", "vgg16_bn"),
        ("my_model.tflite", ""),
        ("resnet50d", ""),
        ("mobilenet_edgetpu_0.75", ""),
        ("alexnet.onnx", "alexnet"),
        ("resnet5", ""),
        ("efficientnet_lite0_int8.tflite", "efficientnet_lite0"),
        ("ghostnet_100", "ghostnet_100"),
    ],
)
def test_what_a_name_speaks_of(name, id_):
    assert claimed_architecture(name) == id_


def test_a_name_without_a_width_covers_every_width():
    assert covers("mobilenet_v2", "mobilenet_v2_0.35")
    assert covers("resnet50", "resnet50")
    assert not covers("mobilenet_v2_1.0", "mobilenet_v2_0.35")
    assert not covers("resnet50", "resnet50_v2")


def test_labels_are_words():
    assert label("squeezenet1_1") == "SqueezeNet 1.1"
    assert label("mobilenet_v2_1.0") == "MobileNet v2"
    assert label("mobilenet_v2_0.35") == "MobileNet v2, width 0.35"
    assert label("mobilenet_v2") == "MobileNet v2"
    assert label("resnet8") == "ResNet-8"
    assert label("resnet50d") == "resnet50d"


def test_of_many_names_those_of_one_architecture():
    names = ["resnet50.onnx", "my-ResNet-50", "resnet50-v2-7.onnx", "wide_resnet50_2", "vgg16", "mobilenet_v2_quant"]
    for id_ in ("resnet50", "resnet50_v2", "mobilenet_v2", "alexnet"):
        assert claiming(names, id_) == {name for name in names if claimed_architecture(name) == id_}
    assert len(claiming(names, "resnet50")) == 2
