"""MXNet's gluon zoo in MXNet's own environment (about 15 s to make)."""

import json
import subprocess
from math import prod

import pytest

from zoolens.base.engine.environments import environment_of
from zoolens.base.engine.process import WorkerProcess
from zoolens.base.errors import ModelError, ZoolensError
from zoolens.contrib.gluon import gluon_library as gluon
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.structures.export import export_many
from zoolens.findings.graph.structures.export_pool import ExportJob, reader
from zoolens.inventory.runtimes.isolation.test_environments_network import loadable_mxnet

SPEC = environment_of(gluon.GLUON.environment)
POINT = "zoolens.contrib.gluon:GLUON"
DEPTHS = ("18", "34", "50", "101", "152")
MODELS = [
    "alexnet", "inceptionv3", "squeezenet1.0", "squeezenet1.1",
    *(f"densenet{depth}" for depth in (121, 161, 169, 201)),
    *(f"{family}{width}" for family in ("mobilenet", "mobilenetv2_") for width in ("0.25", "0.5", "0.75", "1.0")),
    *(f"resnet{depth}_{version}" for depth in DEPTHS for version in ("v1", "v2")),
    *(f"vgg{depth}{norm}" for depth in (11, 13, 16, 19) for norm in ("", "_bn")),
]  # fmt: skip

# Run by MXNet's Python: the same seeded weights through MXNet and through the graph.
COMPARE = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from zoolens.contrib.gluon import gluon_library as gluon
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.reference.interpreter import run
name, size = sys.argv[2], int(sys.argv[3])
graph = gluon.load(Request(name, size=(size, size), weights=True))
mx = gluon._mxnet()
net = gluon._built(name, {})
image = np.random.default_rng(1).normal(size=(1, 3, size, size)).astype(np.float32)
net.initialize()
net(mx.nd.array(image))
for key, parameter in net.collect_params().items():
    short = key[len(net.prefix):]
    if short in graph.weights:
        parameter.set_data(mx.nd.array(graph.weights[short]))
expected = net(mx.nd.array(image)).asnumpy()
[found] = run(graph, {"data": image}).values()
print("RESULT", float(np.abs(found - expected).max() / np.abs(expected).max()))
"""


def macs(graph):
    """Of convolutions and dense layers, counted apart from our own cost module."""
    kernels = ((node.shape, node.parameter("kernel")) for node in graph if node.op in ("conv", "dense"))
    return sum(prod(shape) * prod(kernel.shape[1:]) for shape, kernel in kernels)


def test_the_environment_is_the_one_of_the_runtime():
    from zoolens.base.engine.environments import _completed, _key, parse_env
    from zoolens.inventory.runtimes.mxnet.mxnet_runtime import MxNet

    theirs, ours = _completed(parse_env("mxnet==1.9.1"), MxNet().requirements), _completed(SPEC, ())
    assert _key(ours, SPEC.alone) == _key(theirs)


def test_without_mxnet_the_reason_is_given():
    try:
        import mxnet  # noqa: F401
    except ImportError:
        with pytest.raises(ModelError, match="MXNet cannot be imported"):
            gluon.load(Request("alexnet"))


@pytest.fixture(scope="module")
def environment(environments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(environments))
        yield loadable_mxnet(SPEC)


@pytest.fixture(scope="module")
def exported(environment):
    jobs = [ExportJob(name, POINT, Request(name), SPEC, raw=True) for name in MODELS]
    return {done.job.key: done for done in export_many(jobs)}


@pytest.mark.slow
@pytest.mark.network
def test_all_models_without_unknown_operators(exported):
    assert {name: done.error for name, done in exported.items() if done.error} == {}
    assert [name for name, done in exported.items() if done.graph.unknown] == []


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet50_v1", 3_857_973_248),  # stride in the 1×1
        ("resnet50_v2", 4_089_184_256),
        ("squeezenet1.1", 349_151_936),
        ("vgg19", 19_632_062_464),
        ("densenet121", 2_834_161_664),
    ],
)
def test_costs_are_the_known_ones(exported, name, expected):
    assert macs(exported[name].graph) == expected


@pytest.mark.slow
@pytest.mark.network
def test_names_do_not_depend_on_what_was_built_before(environment):
    worker = WorkerProcess(reader("zoolens.contrib.gluon.gluon_library", environment, None))
    message = {"importer": POINT, "subject": "resnet18_v2", "size": [64, 64], "raw": True}
    try:
        assert worker.ask(message, "reading", timeout=60) == worker.ask(message, "reading", timeout=60)
        with pytest.raises(ZoolensError, match="no model 'resnet51_v2'"):
            worker.ask({**message, "subject": "resnet51_v2"}, "reading", timeout=60)
        with pytest.raises(ZoolensError, match="does not take an image"):
            worker.ask({**message, "subject": "alexnet", "size": [8, 8]}, "reading", timeout=60)
    finally:
        worker.stop()


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize(("name", "size"), [("resnet18_v2", 64), ("mobilenetv2_0.25", 64), ("squeezenet1.1", 224)])
def test_the_graph_computes_what_mxnet_does(environment, name, size):
    import zoolens

    root = zoolens.__file__.rpartition("/zoolens/")[0]
    command = [environment.python, "-c", COMPARE, root, name, str(size)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(answer.rpartition("RESULT")[2]) < 1e-4
