"""Results of a plug-in whose code was edited are not taken for those of the new code, whatever its version says."""

import json
import os

import pytest

CODE = """
from zoolens.inventory.datasets.npz import open_npz
from zoolens.inventory.runtimes.fake import Fake
from zoolens.base.store.records import Observation

FACTOR = 1.0

def metric(predictions):
    yield Observation("mine", FACTOR)

class Mine(Fake):
    name = "mine"
    extra = None

def open_mine(location):
    return open_npz(location)
"""
POINTS = """
[zoolens.metrics]
mine = somebodys_plugin:metric
[zoolens.runtimes]
mine = somebodys_plugin:Mine
[zoolens.datasets]
mine = somebodys_plugin:open_mine
"""


@pytest.fixture
def plugin(tmp_path, home):
    """Write the plug-in's code into a package that is installed; the version never changes."""
    site = tmp_path / "site"
    info = site / "somebodys_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)

    def write(code):
        (site / "somebodys_plugin.py").write_text(code)

    write(CODE)
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    return write, {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def evaluated(zoolens):
    def run(environment, model, data, *more):
        done = zoolens("eval", model, "--data", data, "--no-cold", "--latency-seconds", "0.05", "--json", *more,
                       environment=environment)  # fmt: skip
        assert done.returncode == 0, done.stderr
        (found,) = json.loads(done.stdout)
        return found

    return run


def value(found, metric):
    return next(one["value"] for one in found["observations"] if one["metric"] == metric)


def test_an_edited_metric_is_computed_again_without_running_the_model(plugin, evaluated, fake_model, data):
    write, environment = plugin
    model = fake_model(behaviour="label_leak")
    first = evaluated(environment, model, data, "--runtime", "fake")
    assert value(first, "mine") == 1.0
    assert "metric:mine" in evaluated(environment, model, data, "--runtime", "fake")["kept"]
    write(CODE.replace("FACTOR = 1.0", "FACTOR = 2.0"))
    again = evaluated(environment, model, data, "--runtime", "fake")
    assert value(again, "mine") == 2.0
    assert again["measured"] == ["metric:mine"]
    assert value(again, "top1") == value(first, "top1")
    assert value(again, "latency_p50") == value(first, "latency_p50")
    assert evaluated(environment, model, data, "--runtime", "fake")["measured"] == []
    write(CODE)  # and back again
    assert value(evaluated(environment, model, data, "--runtime", "fake"), "mine") == 1.0


@pytest.mark.parametrize("part", ["runtime", "dataset"])
def test_an_edited_runtime_or_dataset_is_another_run(plugin, evaluated, fake_model, data, part):
    write, environment = plugin
    chosen = ["--runtime", "mine"] if part == "runtime" else ["--runtime", "fake"]
    where = data if part == "runtime" else f"mine:{data}"
    first = evaluated(environment, fake_model(behaviour="label_leak"), where, *chosen)
    same = evaluated(environment, fake_model(behaviour="label_leak"), where, *chosen)
    assert same["run"] == first["run"]
    write(CODE + "\n# the answer is another now\n")
    other = evaluated(environment, fake_model(behaviour="label_leak"), where, *chosen)
    assert other["run"] != first["run"]
    assert "predictions" in other["measured"]


def test_our_own_plugins_change_no_keys():
    from zoolens.base import plugins

    assert plugins.code_of(plugins.METRICS, "topk") is None
    assert plugins.code_of(plugins.TRAINERS, "torch") is None
    assert plugins.code_of(plugins.RUNTIMES, "nobody's") is None
