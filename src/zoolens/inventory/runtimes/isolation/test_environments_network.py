"""Real frameworks in real environments (test_gluon.py uses that of MXNet, too). They are made by pip, which takes as
long as all these tests; test_isolated.py has two versions of a small library side by side."""

import ctypes
import gzip
import platform
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.engine.environments import ensure_environment, parse_env
from zoolens.base.errors import ModelError
from zoolens.conftest import ASSETS
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.inventory.runtimes.mxnet.mxnet_runtime import MxNet
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_runtime import OnnxRuntime
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, TensorSpec
from zoolens.testing.runtime_contract import RuntimeContract

NETS = ASSETS / "cifar10" / "samplenet"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.assets,
    pytest.mark.skipif(not NETS.is_dir(), reason="the reference models are not here; set ZOOLENS_ASSETS"),
]

SYMBOL = ModelFiles(
    "mxnet",
    {"model": NETS / "samplenet-symbol.json", "weights": NETS / "samplenet-0000.params"},
    inputs=(TensorSpec("data", (1, 3, 32, 32), "float32"),),
)


@pytest.fixture(scope="module")
def home(environments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(environments))
        yield


def loadable_mxnet(spec, needs=()):
    """MXNet's environment, unless its package cannot be loaded on this machine. Its package for ARM needs a library
    that few machines have, and where that is absent the environment is not even made."""
    if platform.machine() == "aarch64":
        try:
            ctypes.CDLL("libarmpl_lp64_mp.so")
        except OSError as error:
            pytest.skip(f"MXNET DOES NOT LOAD ON THIS MACHINE: {error}")
    environment = ensure_environment(spec, needs)
    done = subprocess.run([environment.python, "-c", "import mxnet"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"MXNET DOES NOT LOAD ON THIS MACHINE: {done.stderr.strip().splitlines()[-1]}")
    return environment


@pytest.fixture(scope="module")
def mxnet_environment(home):
    return loadable_mxnet(parse_env("mxnet==1.9.1"), MxNet().requirements)


@pytest.fixture(scope="module")
def mxnet_session(mxnet_environment):
    with open_isolated("mxnet", SYMBOL, environment=mxnet_environment) as session:
        yield session


@pytest.fixture(scope="module")
def images():
    """Labels and inputs: normalised in RGB order, then turned to BGR, which is what this network wants."""
    packed = (ASSETS / "data" / "cifar10" / "test_batch_first2000.bin.gz").read_bytes()
    rows = np.frombuffer(gzip.decompress(packed), np.uint8).reshape(-1, 3073)
    mean, std = np.array([[125.307, 122.961, 113.8575], [51.5865, 50.847, 51.255]]).reshape(2, 3, 1, 1)
    pixels = (rows[:, 1:].reshape(-1, 3, 32, 32) - mean) / std
    return rows[:, 0], pixels[:, ::-1].astype(np.float32)


def test_mxnet_reaches_the_accuracy_of_the_same_weights_elsewhere(mxnet_session, images):
    labels, inputs = images
    scores = np.concatenate(
        [mxnet_session.predict({"data": batch})["fc3_output"] for batch in np.array_split(inputs, 7)]
    )
    assert np.mean(scores.argmax(1) == labels) == pytest.approx(0.7575, abs=1e-9)


def test_mxnet_describes_itself(mxnet_session):
    assert mxnet_session.inputs == (TensorSpec("data", (None, 3, 32, 32), "float32"),)
    assert mxnet_session.outputs == (TensorSpec("fc3_output", (None, 10), "float32"),)
    assert mxnet_session.effective().provider == "mxnet-cpu"
    assert mxnet_session.count_parameters() == 62_006  # LeNet-5's with three input channels, counted by hand
    assert mxnet_session.packages["mxnet"] == "1.9.1"
    assert mxnet_session.packages["numpy"] < "1.24"
    assert mxnet_session.phases["import"] > 0.1


def test_mxnet_gives_the_values_of_its_nodes(mxnet_session, images):
    feeds = {"data": images[1][:2]}
    answer = mxnet_session.predict(feeds)["fc3_output"]
    points = {point.name: point for point in mxnet_session.capture_points()}
    assert points["fc3_output"].node == "fc3"
    assert "data" not in points
    first = next(iter(points))
    captured = mxnet_session.capture(feeds, [first, "fc3_output"])
    assert captured.tensors[first].shape[1:] == points[first].shape[1:]
    np.testing.assert_allclose(captured.tensors["fc3_output"], answer, rtol=1e-5)
    np.testing.assert_allclose(captured.outputs["fc3_output"], answer, rtol=1e-5)


def test_mxnet_explains_wrong_inputs(mxnet_session):
    with pytest.raises(ModelError, match=r"expects shape \?×3×32×32 but got 2×1×32×32"):
        mxnet_session.predict({"data": np.zeros((2, 1, 32, 32), np.float32)})
    with pytest.raises(ModelError, match="'data' was not given"):
        mxnet_session.predict({"image": np.zeros((2, 3, 32, 32), np.float32)})


@pytest.mark.parametrize(
    ("files", "inputs", "message"),
    [
        ({"weights": "samplenet.onnx"}, SYMBOL.inputs, "mxnet cannot read samplenet.onnx: .*Invalid NDArray"),
        ({"model": "samplenet.onnx"}, SYMBOL.inputs, "samplenet.onnx is not text in UTF-8"),
        ({}, (), "does not say what shape data has"),
    ],
)
def test_mxnet_explains_wrong_files(mxnet_environment, files, inputs, message):
    paths = {**SYMBOL.files, **{role: NETS / name for role, name in files.items()}}
    with pytest.raises(ModelError, match=message):
        open_isolated("mxnet", ModelFiles("mxnet", paths, inputs=inputs), environment=mxnet_environment)


def test_one_model_in_two_versions_of_one_runtime_side_by_side(home, images):
    runtime, model = OnnxRuntime(), ModelFiles("onnx", {"model": NETS / "samplenet.onnx"})
    old_environment = ensure_environment(parse_env("onnxruntime==1.20.1"), runtime.requirements)
    with open_isolated(runtime, model, environment=old_environment) as old, open_isolated(runtime, model) as new:
        assert old.packages["onnxruntime"] == "1.20.1" != new.packages["onnxruntime"]
        assert "onnx" not in old.packages
        for image in images[1][:20]:
            feeds = {new.inputs[0].name: image[None]}
            (before,), (after,) = old.predict(feeds).values(), new.predict(feeds).values()
            np.testing.assert_allclose(before, after, atol=1e-4)


class TestMxNetKeepsTheContract(RuntimeContract):
    """The suite that every runtime passes, with MXNet where alone it can live: in its own environment."""

    @pytest.fixture
    def runtime(self, mxnet_environment):
        class Isolated(MxNet):
            def open(self, model, options=None):
                self.check(model, options or Options())
                return open_isolated(MxNet(), model, options, environment=mxnet_environment)

            def version(self):
                return mxnet_environment.freeze["mxnet"]

        return Isolated()

    runtime_class = MxNet

    def model(self, tmp_path):
        files = {role: tmp_path / path.name for role, path in SYMBOL.files.items()}
        for role, path in files.items():
            shutil.copyfile(SYMBOL.files[role], path)
        return replace(SYMBOL, files=files)
