import json

import pytest
from click.testing import CliRunner

from zoolens.base.errors import ZoolensError
from zoolens.base.store.store import open_store
from zoolens.faces.cli.diff import command
from zoolens.findings.graph.diff.side_names import short_names

NETWORK = """
name: "net"
input: "data"
input_dim: 1 input_dim: 3 input_dim: 16 input_dim: 16
layer {{ name: "first" type: "Convolution" bottom: "data" top: "first"
  convolution_param {{ num_output: {kernels} kernel_size: 3 pad: 1 }} }}
layer {{ name: "relu" type: "ReLU" bottom: "first" top: "first" }}
layer {{ name: "second" type: "Convolution" bottom: "first" top: "second"
  convolution_param {{ num_output: 8 kernel_size: 3 pad: 1 }} }}
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Two networks as Caffe has them: 4 kernels in the first layer, and 6."""
    folder = tmp_path_factory.mktemp("networks")
    paths = [folder / "four.prototxt", folder / "six.prototxt"]
    for path, kernels in zip(paths, (4, 6), strict=True):
        path.write_text(NETWORK.format(kernels=kernels))
    return [str(path) for path in paths]


@pytest.fixture(scope="module")
def invoke(tmp_path_factory):
    """Runs the command with one store for all tests, so that each network is read once."""
    store = tmp_path_factory.mktemp("store") / "store.sqlite"
    open_store(store).close()
    return lambda *args: CliRunner().invoke(command, [*args, "--store", str(store)])


def test_different_networks_end_with_1_and_say_why(invoke, networks):
    result = invoke(*networks)
    assert result.exit_code == 1, result.output
    assert "Different networks: width (100 % of the cost gap)." in result.stdout
    assert "conv 1 of stage 1: 6 kernels in six.prototxt instead of 4 in four.prototxt (width; +" in result.stdout


def test_the_same_network_ends_with_0(invoke, networks):
    result = invoke(networks[0], networks[0])
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "The same network (both are one file).")


def test_one_network_in_two_files_is_said_with_the_layers_that_were_compared(invoke, networks, tmp_path):
    (tmp_path / "copy.prototxt").write_text(NETWORK.format(kernels=4).replace('"first"', '"begin"'))
    result = invoke(networks[0], str(tmp_path / "copy.prototxt"))
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "The same network (3 layers compared).")


def test_operators_that_are_not_understood_end_with_4(invoke, tmp_path):
    onnx = pytest.importorskip("onnx")
    for name, operator in (("plain", "Relu"), ("strange", "vendor.Swirl")):
        text = f"""<ir_version: 8, opset_import: ["" : 17, "vendor" : 1]>
            net (float[1,4] x) => (float[1,4] y) <float[1,4] b> {{ a = Tanh(x) b = {operator}(a) y = Tanh(b) }}"""
        onnx.save(onnx.parser.parse_model(text), str(tmp_path / f"{name}.onnx"))
    pair = [str(tmp_path / f"{name}.onnx") for name in ("plain", "strange")]
    result = invoke(*pair)
    assert result.exit_code == 4, result.output
    assert "strange.onnx: MACs not known, 0 parameters" in result.stdout
    assert "Not known whether it is the same network." in result.stdout
    assert "Export the network without vendor:Swirl" in result.stdout
    data = json.loads(invoke(*pair, "--json").stdout)
    assert (data["same"], data["outcome"], data["coverage"]["whole"]) == (False, "not known", False)
    (tmp_path / "copy.onnx").write_bytes((tmp_path / "strange.onnx").read_bytes())
    assert invoke(pair[1], str(tmp_path / "copy.onnx")).exit_code == 0  # whatever it does, it is the same


def test_json_page_and_picture(invoke, networks, tmp_path):
    result = invoke(*networks, "--json", "--html", str(tmp_path / "d.html"), "--svg", str(tmp_path / "d.svg"))
    found = json.loads(result.stdout)
    assert [one["cause"] for one in found["differences"]] == ["width"]
    assert found["differences"][0]["macs"] == found["macs"][1] - found["macs"][0] == 16 * 16 * 9 * 2 * (3 + 8)
    assert (tmp_path / "d.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "d.svg").read_text().startswith("<svg")


def test_all_names_the_layers_of_each_difference(invoke, networks):
    assert "first | first" in invoke(*networks, "--all").stdout


def test_what_cannot_be_read_ends_with_2(invoke, networks):
    result = invoke(networks[0], "nowhere.onnx")
    assert isinstance(result.exception, ZoolensError)
    assert result.exception.exit_code == 2


def test_sentences_use_the_zoos_where_these_differ():
    assert short_names("torchvision:resnet50", "keras:ResNet50") == ("torchvision", "keras")
    assert short_names("timm:a", "timm:b") == ("timm:a", "timm:b")
    assert short_names("x/a.onnx", "y/b.onnx") == ("a.onnx", "b.onnx")
    assert short_names("x/a.onnx", "y/a.onnx") == ("x/a.onnx", "y/a.onnx")


def test_a_file_that_cannot_be_written_is_trouble_and_not_a_difference(invoke, networks, tmp_path):
    for option in ("--html", "--svg"):
        error = invoke(*networks, option, str(tmp_path / "nowhere" / "file")).exception
        assert isinstance(error, ZoolensError)
        assert error.exit_code == 2
        assert "cannot be written" in str(error)


def test_a_size_may_have_two_sides(invoke, networks):
    assert "six.prototxt" in invoke(*networks, "--size", "32x16").stdout


def test_a_pattern_that_names_two_is_refused_also_if_the_other_side_is_one_of_them(invoke):
    error = invoke("demo:mlp-*", "demo:mlp-wide").exception
    assert isinstance(error, ZoolensError)
    assert str(error) == "demo:mlp-* names 2 models. Name one on each side."
