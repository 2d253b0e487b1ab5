"""The real packages, on real networks: what they say is what their conventions predict, to the last operation."""

import importlib.util
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from zoolens.base import plugins
from zoolens.findings.graph.counters import conventions
from zoolens.findings.graph.counters.counter import Counter, always
from zoolens.findings.graph.counters.runner import run_counters
from zoolens.findings.graph.counters.terms import Convention
from zoolens.findings.graph.structures.structure_sources import find_entries, source_of

LIGHT = "onnx:light/squeezenet"
BAD = """
import os
from zoolens.findings.graph.counters.counter import Counter, always
from zoolens.findings.graph.counters.terms import Convention

def die(subject):
    os._exit(7)

def fail(subject):
    raise ValueError("no such luck\\nand more")

DEADLY = Counter("deadly", "pytest", "onnx", always(Convention("nothing")), die)
CLUMSY = Counter("clumsy", "pytest", "onnx", always(Convention("nothing")), fail)
"""


def installed(kind):
    return [one for one in conventions.COUNTERS.values() if one.kind == kind and one.version]


def source(ref, size):
    return source_of(find_entries([ref])[0], size)


@pytest.mark.parametrize(
    ("ref", "size", "kind"),
    [
        pytest.param("torchvision:squeezenet1_0", (64, 64), "torch", marks=pytest.mark.slow),
        (LIGHT, (224, 224), "onnx"),
        ("onnx:light/shufflenet", (224, 224), "onnx"),
        pytest.param("torchvision:mobilenet_v2", (224, 224), "torch", marks=pytest.mark.slow),
        pytest.param("torchvision:vit_b_16", (224, 224), "torch", marks=pytest.mark.slow),
        pytest.param("keras:ResNet50V2", (224, 224), "keras", marks=pytest.mark.slow),
        pytest.param("keras:MobileNetV2", (224, 224), "keras", marks=pytest.mark.slow),
    ],
)
def test_every_figure_is_explained_without_a_residual(ref, size, kind):
    if importlib.util.find_spec(kind) is None:
        pytest.skip(f"{kind} is not installed")
    counters = installed(kind)
    counts = run_counters(source(ref, size), counters)
    assert {one.counter.name: (one.reason, one.residual) for one in counts} == {
        one.name: (None, 0.0) for one in counters
    }
    assert all(one.value > 0 for one in counts)


def test_a_counter_for_another_kind_of_network_says_so_and_one_that_is_not_installed_too():
    pytest.importorskip("onnx")
    absent = Counter("absent", "no-such-package", "onnx", always(Convention("nothing")), lambda subject: 0.0)
    counts = run_counters(source(LIGHT, None), [conventions.COUNTERS["torch"], absent])
    assert [one.value for one in counts] == [None, None]
    assert [one.reason for one in counts] == ["for live torch networks only", "not installed"]


def test_a_counter_that_dies_or_fails_stops_no_other(tmp_path, monkeypatch):
    pytest.importorskip("onnx_opcounter")
    (tmp_path / "bad_counters.py").write_text(BAD)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    registered = plugins.registered
    points = {name: EntryPoint(name, f"bad_counters:{name.upper()}", plugins.COUNTERS) for name in ("deadly", "clumsy")}
    monkeypatch.setattr(
        plugins, "registered", lambda group: registered(group) | (points if group == plugins.COUNTERS else {})
    )
    bad = [plugins.load(plugins.COUNTERS, name) for name in ("deadly", "clumsy")]
    counts = run_counters(source(LIGHT, None), [*bad, conventions.COUNTERS["onnx-opcounter"]])
    assert "exited with code 7" in counts[0].reason
    assert counts[1].reason == "ValueError: no such luck"
    assert counts[2].value == 353_610_488


def test_built_in_counters_are_registered_as_any_plug_in_is():
    assert set(conventions.COUNTERS) <= set(plugins.names(plugins.COUNTERS))
    for name, counter in conventions.COUNTERS.items():
        assert plugins.load(plugins.COUNTERS, name) is counter


def test_conventions_import_no_framework_and_no_counter():
    heavy = {"torch", "tensorflow", "keras", "onnx", "fvcore", "thop", "ptflops", "calflops", "torchinfo", "onnx_tool"}
    code = f"import sys, zoolens.findings.graph.counters.conventions; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
