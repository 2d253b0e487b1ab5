import pytest


@pytest.mark.zoolens("demo", runtimes="onnxruntime")
def test_the_quantised_copy_is_no_worse(zoolens):
    zoolens.compare("demo:lenet-wide", "demo:lenet-wide-int8", fail_on="top1 drop > 1%")


@pytest.mark.zoolens("demo", runtimes="onnxruntime")
def test_the_small_one_is_no_worse(zoolens):
    zoolens.compare("demo:lenet-wide", "demo:lenet-narrow", fail_on="top1 drop > 1%")


@pytest.mark.zoolens("demo")
def test_the_small_one_answers_alike(zoolens):
    zoolens.equiv("demo:lenet-wide", "demo:lenet-narrow", fail_on="guaranteed < 90%")
