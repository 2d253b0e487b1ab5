"""All runtimes in one process: open at once, interleaved, and agreeing with each other."""

from __future__ import annotations

import platform
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

from zoolens.base import plugins
from zoolens.base.errors import ModelError
from zoolens.conftest import ASSETS
from zoolens.inventory.runtimes.runtime import ModelFiles, Options
from zoolens.testing import models

needs_assets = pytest.mark.skipif(not ASSETS.is_dir(), reason="reference models absent: set ZOOLENS_ASSETS")

FRAMEWORKS = ("onnxruntime", "onnx", "openvino", "ai_edge_litert", "cv2", "torch", "tensorflow", "tf_keras", "jax")
needs_all = pytest.mark.skipif(
    any(find_spec(name) is None for name in FRAMEWORKS), reason="needs every framework: pip install 'zoolens[all]'"
)

TINY = [
    ("onnxruntime", models.onnx, "NCHW"),
    ("openvino", models.openvino_ir, "NCHW"),
    ("opencv", models.caffe, "NCHW"),
    ("torch", models.torchscript, "NCHW"),
    ("torch", models.torch_export, "NCHW"),
    ("jax", models.jax_export, "NCHW"),
    ("tensorflow", models.keras, "NHWC"),
    ("tensorflow", models.tf_frozen, "NHWC"),
    ("litert", models.tflite, "NHWC"),
]


def _runtime(name):
    return plugins.load(plugins.RUNTIMES, name)()


@needs_all
def test_all_runtimes_open_at_once_and_agree(tmp_path):
    with ExitStack() as stack:
        sessions = []
        for number, (name, maker, layout) in enumerate(TINY):
            folder = tmp_path / str(number)
            folder.mkdir()
            files = models.cached(maker, folder)
            opened = stack.enter_context(_runtime(name).open(files, Options(precision="float32")))
            sessions.append((f"{name} {files.format}", opened, layout))
        for seed in range(3):
            wanted = models.reference(models.images(2, seed=seed))
            for name, session, layout in sessions:
                images = models.images(2, layout=layout, seed=seed)
                (answer,) = session.predict({session.inputs[0].name: images}).values()
                np.testing.assert_allclose(answer, wanted, atol=1e-5, err_msg=name)


# --- reference models

SAMPLENET = ASSETS / "cifar10" / "samplenet"
PARITY = [
    ("onnxruntime", "onnx", {"model": "samplenet.onnx"}),
    ("openvino", "onnx", {"model": "samplenet.onnx"}),
    ("opencv", "onnx", {"model": "samplenet.onnx"}),
    ("openvino", "openvino-ir", {"model": "SampLeNet.xml", "weights": "SampLeNet.bin"}),
    ("opencv", "caffe", {"model": "SampLeNet.prototxt", "weights": "SampLeNet.caffemodel"}),
    ("tensorflow", "tf-frozen", {"model": "samplenet.pb"}),
    ("openvino", "tf-frozen", {"model": "samplenet.pb"}),
]


@needs_all
@needs_assets
@pytest.mark.assets
def test_one_network_in_four_formats_and_four_runtimes():
    image = np.random.default_rng(0).normal(0, 60, (1, 3, 32, 32)).astype(np.float32)
    answers = {}
    for name, format_, files in PARITY:
        if (name, format_) == ("tensorflow", "tf-frozen") and platform.machine() != "x86_64":
            continue  # its pooling over NCHW is computed by kernels that TensorFlow has for x86-64 only
        paths = {role: SAMPLENET / file for role, file in files.items()}
        with _runtime(name).open(ModelFiles(format_, paths), Options(precision="float32")) as session:
            assert session.count_parameters() == 62006, (name, format_)
            # The same weights, but these two want red, green, blue and the others blue, green, red.
            given = image[:, ::-1] if format_ in ("caffe", "openvino-ir") else image
            (answers[name, format_],) = session.predict({session.inputs[0].name: given}).values()
    wanted = answers["onnxruntime", "onnx"]
    for stack, answer in answers.items():
        np.testing.assert_allclose(answer, wanted, rtol=1e-3, atol=1e-3, err_msg=str(stack))


@needs_all
@needs_assets
@pytest.mark.assets
def test_the_same_weights_as_h5_and_tflite():
    folder = ASSETS / "cifar10" / "mlperf_tiny"
    image = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3)).astype(np.float32)
    answers = []
    for name, format_, file in [
        ("tensorflow", "keras-h5", "pretrainedResnet.h5"),
        ("litert", "tflite", "pretrainedResnet.tflite"),
        ("openvino", "tflite", "pretrainedResnet.tflite"),
    ]:
        files = ModelFiles(format_, {"model": folder / file})
        with _runtime(name).open(files, Options(precision="float32")) as session:
            answers += session.predict({session.inputs[0].name: image}).values()
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], atol=1e-4)


@needs_all
@needs_assets
@pytest.mark.assets
@pytest.mark.parametrize("batch", [1, 2])
def test_every_reference_tflite_file_runs_in_litert(batch):
    """A batch the file was not made for is run rightly or refused, never answered with rows run together."""
    for path in sorted(ASSETS.glob("imagenet/tflite/*.tflite")):
        with _runtime("litert").open(ModelFiles("tflite", {"model": path}), Options(threads=2)) as session:
            (given,), (answered,) = session.inputs, session.outputs
            make = partial(np.random.default_rng(0).integers, 0, 100, (batch, *given.shape[1:]))
            images = make().astype(given.dtype)
            try:
                together = session.predict({given.name: images})[answered.name]
            except ModelError:
                assert batch > 1, path.name
                continue
            assert together.shape == (batch, *answered.shape[1:]), path.name
            last = session.predict({given.name: images[-1:]})[answered.name]
            np.testing.assert_allclose(together[-1:].astype(float), last.astype(float), atol=1e-3, err_msg=path.name)


@needs_all
@needs_assets
@pytest.mark.assets
def test_openvino_tells_that_it_computes_in_less_than_float32():
    """On processors with units for 16-bit floats OpenVINO uses them unasked; its report agrees with its error."""
    files = ModelFiles("onnx", {"model": SAMPLENET / "samplenet.onnx"})
    image = np.random.default_rng(0).normal(0, 60, (1, 3, 32, 32)).astype(np.float32)
    runtime = _runtime("openvino")
    with runtime.open(files) as default, runtime.open(files, Options(precision="float32")) as exact:
        assert exact.effective().precision == "float32"
        (usual,), (wanted,) = (s.predict({"data": image}).values() for s in (default, exact))
        differs = bool(np.abs(usual - wanted).max() > 1e-4 * np.abs(wanted).max())
        assert differs == (default.effective().precision != "float32")
        assert default.effective().details["kernels"]
