"""The sample third-party plug-in, installed as a user would install it, found and run by zoolens."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zoolens.conftest import ASSETS

REPO = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The plug-in in a folder of its own on the path: its entry points are found as any package's are."""
    target = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", target,
         REPO / "examples" / "plugin"],
        check=True,
    )  # fmt: skip
    home = tmp_path_factory.mktemp("home")
    return {**os.environ, "PYTHONPATH": str(target), "ZOOLENS_HOME": str(home), "ZOOLENS_ASSETS": str(ASSETS)}


@pytest.fixture
def zoolens(command_server):
    def run(environment, *arguments):
        return command_server.run(*arguments, environment=environment)

    return run


def test_runtime_and_metric_are_found(installed, zoolens):
    listed = json.loads(zoolens(installed, "runtimes", "--json").stdout)
    assert "ncnn" in [one["name"] for one in listed]
    code = "from zoolens.base import plugins; print(plugins.names(plugins.METRICS))"
    names = subprocess.run(
        [sys.executable, "-c", code], env=installed, capture_output=True, text=True, check=False
    ).stdout
    assert "confusion" in names


def test_metric_runs_in_an_evaluation(installed, zoolens):
    done = zoolens(installed, "eval", "demo:lenet-torch", "--data", "demo", "--limit", "300", "--no-cold", "--json",
                   "--runtime", "onnxruntime", "--latency-seconds", "0.1")  # fmt: skip
    assert done.returncode == 0, done.stderr
    observations = json.loads(done.stdout)[0]["observations"]
    worst = next(one for one in observations if one["metric"] == "confusion" and one["scope"] == "rank=1")
    assert worst["details"]["truth"] != worst["details"]["answer"]
    assert worst["details"]["count"] == round(worst["value"] * 300)


@pytest.mark.assets
@pytest.mark.skipif(not ASSETS.exists(), reason=f"reference models are not at {ASSETS}: set ZOOLENS_ASSETS")
@pytest.mark.parametrize(
    ("limit", "expected", "tolerance"),
    [("60", 45 / 60, 0.001), pytest.param("725", 0.695, 0.005, marks=pytest.mark.slow)],
)
def test_runtime_gives_the_reference_accuracy(installed, zoolens, limit, expected, tolerance):
    model = REPO / "tests" / "reference_zoo" / "imagenet" / "squeezenet_v1.1_ncnn.yaml"
    done = zoolens(installed, "eval", model, "--data", ASSETS / "data" / "imagenet_val", "--no-cold", "--json",
                   "--precision", "float32", "--latency-seconds", "0.2", "--threads", "1",
                   "--limit", limit)  # fmt: skip
    assert done.returncode == 0, done.stderr
    top1 = next(one for one in json.loads(done.stdout)[0]["observations"] if one["metric"] == "top1")
    assert abs(top1["value"] - expected) < tolerance


def test_runtime_passes_the_conformance_suite(installed, tmp_path):
    """The suite that built-in runtimes pass, run on the plug-in's runtime in its own process."""
    if not ASSETS.exists():
        pytest.skip(f"needs the ncnn model at {ASSETS}: set ZOOLENS_ASSETS")
    test = tmp_path / "test_ncnn.py"
    test.write_text(
        "import shutil\n"
        "from pathlib import Path\n"
        "from zoolens.inventory.runtimes.runtime import ModelFiles, TensorSpec\n"
        "from zoolens.testing.runtime_contract import RuntimeContract\n"
        "from zoolens_ncnn.runtime import Ncnn\n"
        f"SOURCE = Path({str(ASSETS / 'imagenet' / 'ncnn')!r})\n"
        "class TestNcnn(RuntimeContract):\n"
        "    runtime_class = Ncnn\n"
        "    def model(self, tmp_path):\n"
        "        for name in ('squeezenet_v1.1.param', 'squeezenet_v1.1.bin'):\n"
        "            shutil.copyfile(SOURCE / name, tmp_path / name)\n"
        "        files = {'model': tmp_path / 'squeezenet_v1.1.param', 'weights': tmp_path / 'squeezenet_v1.1.bin'}\n"
        "        return ModelFiles('ncnn', files, inputs=(TensorSpec('data', (1, 3, 227, 227), 'float32'),))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--disable-plugin-autoload", test],
        env=installed, capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


def test_resource_metric_and_function_serve_a_query(installed, zoolens):
    zoolens(installed, "index", "add", "demo:lenet-torch", "demo:lenet-int8", "demo:mlp-small", "--data", "demo",
            "--limit", "200", "--runtime", "onnxruntime")  # fmt: skip
    asked = "CORR lenet-torch ON download <= 100 ms ORDER BY bargain(equivalence, download / REF.download) DESC"
    done = zoolens(installed, "query", asked, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [one["model"].partition("@")[0] for one in answer["matches"]] == ["demo:lenet-int8", "demo:mlp-small"]
    download = answer["matches"][0]["figures"]["download"]
    assert download["provenance"] == "estimated"
    assert 0.01 < download["value"] < 0.1  # 54.9 kB at 10 Mbit/s
