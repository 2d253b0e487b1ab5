from __future__ import annotations

import pytest

from zoolens.findings.audit.name_claims import name_claim
from zoolens.findings.audit.naming import claimed_architecture, claiming, covers, label


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
        ("mobilenet_v2_alpha0.5.onnx", "mobilenet_v2_0.5"),
        ("MobileNet v2, width 0.35", "mobilenet_v2_0.35"),
        ("mobilenetv4_conv_small", "mobilenetv4_conv_small"),
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


@pytest.mark.parametrize(
    ("name", "architectures", "variant", "families"),
    [
        ("resnet50_vd.onnx", ("resnet50",), "vd", {"ResNet"}),
        ("wide_resnet50", ("wide_resnet50_2",), "", {"ResNet"}),
        ("resnet18_from_resnet50", ("resnet18",), "", {"ResNet"}),
        ("resnet-18-from-scratch", ("resnet18",), "", {"ResNet"}),
        ("resnet50-teacher-resnet18-student", ("resnet50", "resnet18"), "teacher", {"ResNet"}),
        ("mobilenetv2_distilled_from_x", ("mobilenet_v2",), "", {"MobileNet"}),
        ("vit_tiny_patch16", ("vit_tiny_patch16_224",), "", {"ViT"}),
        ("resnet18-f37072fd.onnx", ("resnet18",), "", {"ResNet"}),
        ("mobilenet_v2_0.35", ("mobilenet_v2_0.35",), "", {"MobileNet"}),
        ("ssd_mobilenet_v1_coco.tflite", ("mobilenet_v1",), "ssd", {"MobileNet", "SSD"}),
        ("seresnet50", (), "", {"ResNet"}),
        ("yolov5s", (), "", {"DarkNet and YOLO"}),
        ("bert-base", (), "", {"BERT"}),
        ("densenet", (), "", {"DenseNet"}),
        ("inception_resnet_v2", ("inception_resnet_v2",), "", {"Inception", "ResNet"}),
    ],
)
def test_what_a_name_claims(name, architectures, variant, families):
    claim = name_claim([name])
    assert (claim.architectures, claim.variant, claim.families) == (architectures, variant, families)


@pytest.mark.parametrize("name", ["model.tflite", "vitis_model", "student_net", "samplenet", "", "adapter"])
def test_a_name_that_claims_nothing(name):
    assert name_claim([name]) is None


def test_only_a_bare_family_may_be_any_of_its_members():
    assert all(name_claim([name]).bare for name in ("densenet", "my-ConvNeXt.onnx", "vgg"))
    assert not any(name_claim([name]).bare for name in ("resnet20", "yolov5s", "bert-base", "swin_huge", "vgg_s"))
