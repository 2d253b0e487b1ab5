"""Structure in the store, with a small library of our own (registered as any plug-in is) and the demo's files."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from zoolens.base import plugins
from zoolens.base.engine.sandbox import trusting
from zoolens.base.errors import MissingDependency, ModelError, UnknownName
from zoolens.base.store.store import open_store
from zoolens.findings.graph.structures.structure import graph_of, structure_of
from zoolens.findings.graph.structures.structure_sources import find_entries, making_files, manifest_size, source_of
from zoolens.inventory.manifests.schema import Input, Manifest, Output
from zoolens.inventory.zoos.demo import DemoZoo
from zoolens.inventory.zoos.zoo import Entry, Weights

# A plug-in as anyone could install it. "glass" breaks unless a file lies beside the log, which notes every call.
LIBRARY = """
import os
from pathlib import Path
from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.importers.importer import Importer

def load(request):
    log = Path(os.environ["ZOOLENS_TOY_LOG"])
    with log.open("a") as stream:
        stream.write(request.subject + chr(10))
    if request.subject == "glass" and not log.with_name("mended").exists():
        raise ModelError("It is made of glass.", hint="Mend it.")
    height, width = request.size or (8, 8)
    graph = GraphBuilder(request.subject)
    value = graph.add("input", (), (1, 3, height, width), axes="NCHW")
    kernel = graph.parameter("kernel", (4, 3, 1, 1), "w")
    value = graph.add("conv", [value], (1, 4, height, width), axes="NCHW", kernel=(1, 1), parameters=[kernel])
    return graph.finish([value], {"library": "toy"})

TOY = Importer(load, ("zoolens-toy",))
"""


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    """A home of its own, and a library "toy" that an installed distribution registers; `toy(version)` upgrades it."""
    site = tmp_path / "site"

    def install(version):
        shutil.rmtree(site, ignore_errors=True)
        folder = site / f"zoolens_toy-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: zoolens-toy\nVersion: {version}\n")
        (folder / "entry_points.txt").write_text("[zoolens.graph.libraries]\ntoy = zoolens_toy:TOY\n")
        (site / "zoolens_toy.py").write_text(LIBRARY)
        plugins.forget()

    install("1.0")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_TOY_LOG", str(tmp_path / "log"))
    with trusting():  # the library writes down what is read, which a sandbox would not let it
        yield install
    sys.modules.pop("zoolens_toy", None)
    plugins.forget()


@pytest.fixture
def reads(tmp_path):
    """What was read since the last look."""

    def look():
        log = tmp_path / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return sorted(lines)

    return look


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def entry(architecture, name=None, size=8, **attributes):
    manifest = Manifest(
        name=name or architecture,
        inputs=(Input(shape=(None, 3, size, size)),),
        outputs=(Output(),),
        attributes={"library": "toy", "architecture": architecture, **attributes},
    )
    return Entry("zoo", manifest, Weights.ABSENT)


def test_a_structure_is_read_once_and_kept_with_its_figures(store, reads):
    [first] = structure_of(entry("net"), store=store)
    [again] = structure_of([entry("net")], store=store)
    assert reads() == ["net"]
    assert (first.kept, again.kept) == (False, True)
    assert first.graph == again.graph
    assert [node.op for node in first.graph] == ["input", "conv"]
    figures = {"macs": 64 * 12, "parameters": 12, "unknown_operators": 0, "nodes": 2}
    assert {name: again.figures[name] for name in figures} == figures
    assert again.figures == first.figures
    run = store.run(first.run)
    assert (run.stack.runtime, run.stack.version, run.dataset.name) == ("graph:toy", "1.0", "structure at 8×8")
    assert run.stages == {"structure": "done"}


def test_models_that_share_an_architecture_share_its_structure(store, reads):
    models = [entry("net", "net/V1"), entry("net", "net/V2"), entry("net", "net/ten", arguments={"classes": 10})]
    found = structure_of(models, store=store, workers=1)
    assert [one.ref for one in found] == ["zoo:net/V1@0.0.0", "zoo:net/V2@0.0.0", "zoo:net/ten@0.0.0"]
    assert found[0].run == found[1].run != found[2].run
    assert reads() == ["net", "net"]


def test_another_size_is_another_structure(store, reads):
    assert graph_of(entry("net"), store=store, size=16).inputs[0].shape == (1, 3, 16, 16)
    assert graph_of(entry("net"), store=store, size=(4, 6)).inputs[0].shape == (1, 3, 4, 6)
    assert graph_of(entry("net", size=16), store=store).inputs[0].shape == (1, 3, 16, 16)
    assert reads() == ["net", "net"]


def test_a_new_version_or_a_fresh_start_reads_again(store, reads, toy):
    structure_of(entry("net"), store=store)
    structure_of(entry("net"), store=store, fresh=True)
    assert reads() == ["net", "net"]
    toy("1.1")
    [newer] = structure_of(entry("net"), store=store)
    assert reads() == ["net"]
    assert store.run(newer.run).stack.version == "1.1"


def test_all_code_that_makes_graphs_is_part_of_its_version():
    """What importers and passes import, in a process of their own; whatever is missing would leave stale graphs."""
    contributed = "zoolens.contrib.caffe, zoolens.contrib.gluon, zoolens.contrib.tensorflow_models"
    code = (
        "import importlib, pkgutil, sys\n"
        f"import zoolens.findings.graph.cost.cost, zoolens.findings.graph.importers, {contributed}\n"
        "import zoolens.findings.graph.passes\n"
        "for room in (zoolens.findings.graph.importers, zoolens.findings.graph.passes):\n"
        "    for one in pkgutil.iter_modules(room.__path__):\n"
        "        if not one.name.startswith(('test_', 'conftest')):\n"
        "            importlib.import_module(f'{room.__name__}.{one.name}')\n"
        "print(*(sys.modules[name].__file__ for name in sys.modules if name.startswith('zoolens.')), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    making = set(making_files())
    missing = {path.name for path in map(Path, done.stdout.split()) if path not in making}
    assert missing <= {
        "__init__.py",
        "errors.py",
        "runtime.py",
        "abilities.py",
        "coverage.py",  # what was understood follows from a graph
        "devices.py",
        "gates.py",
        "model_reading.py",
        "observing.py",
        "phrases.py",  # wording
        "plugins.py",
        "remedies.py",  # advice
        "placeholder_modules.py",
        "untrusted.py",
        "xml_tree.py",  # refuses files, and changes none that it reads
        "verdict.py",
        "version.py",  # of zoolens as a whole, which says nothing of graphs
        "lazy_names.py",  # how public names are found
        "results.py",  # how results show themselves
        "display_hook.py",
    }


def test_a_failure_is_kept_and_tried_again_only_on_demand(store, reads, tmp_path):
    models = [entry("glass"), entry("net")]
    found = structure_of(models, store=store, workers=1)
    assert [one.error for one in found] == ["It is made of glass. Mend it.", None]
    with pytest.raises(ModelError, match="made of glass"):
        _ = found[0].graph
    (tmp_path / "mended").touch()
    assert [one.error for one in structure_of(models, store=store)] == ["It is made of glass. Mend it.", None]
    assert reads() == ["glass", "net"]
    assert structure_of(models[0], store=store, fresh=True)[0].error is None
    assert [one.error for one in structure_of(models, store=store)] == [None, None]
    assert reads() == ["glass"]


def test_what_was_interrupted_is_not_begun_anew(store, reads):
    class Impatient:
        def begin(self, title, stage, total, unit=""): ...
        def end(self): ...
        def say(self, text): ...
        def advance(self, steps):
            raise KeyboardInterrupt

    models = [entry(name) for name in "abcd"]
    with pytest.raises(KeyboardInterrupt):
        structure_of(models, store=store, progress=Impatient(), workers=1)
    reads()
    found = structure_of(models, store=store, workers=1)
    assert [one.kept for one in found].count(True) == 1
    assert len(reads()) == 3


def test_a_lost_file_is_read_again(store, reads):
    [first] = structure_of(entry("net"), store=store)
    shutil.rmtree(store.bulk_dir)
    [again] = structure_of(entry("net"), store=store)
    assert again.graph == first.graph
    assert structure_of(entry("net"), store=store)[0].kept
    assert reads() == ["net", "net"]


def test_structures_are_no_evaluations(store):
    [found] = structure_of(entry("net"), store=store)
    assert store.runs() == []
    with pytest.raises(UnknownName):
        store.run("last")
    assert [run.id for run in store.runs(runtime="graph:*")] == [found.run]
    assert store.run(found.run[:8]).id == found.run


def test_what_cannot_be_read_is_said_and_not_kept(store):
    strange = replace(entry("net"), manifest=entry("net", library="unheard-of").manifest)
    [found] = structure_of(strange, store=store)
    assert "no importer for its library unheard-of" in found.error
    assert store.runs(runtime="graph:*") == []


def test_a_library_that_is_not_installed(store, monkeypatch):
    source = source_of(entry("net"))
    bare = replace(source, importer=replace(source.importer, distributions=("not-installed",)))
    with pytest.raises(MissingDependency, match="not-installed"):
        _ = bare.key


def test_an_environment_is_known_by_what_it_pins():
    source = source_of(entry("net"))
    spec = {"environment": ("zoolens-toy==3.1", "numpy<2"), "without_dependencies": ("odd==2",)}
    elsewhere = replace(source, importer=replace(source.importer, distributions=("zoolens-toy", "odd"), **spec))
    assert elsewhere.stack.identity["packages"] == {"zoolens-toy": "3.1", "odd": "2"}
    assert elsewhere.environment.alone == ("odd==2",)
    assert elsewhere.key != source.key


# --- which importer


def test_the_first_file_that_is_here_and_can_be_read():
    demo = next(one for one in DemoZoo().entries() if one.manifest.name == "lenet-torch")
    source = source_of(demo)
    assert source.plugin in plugins.names(plugins.GRAPH_FILES)
    assert Path(source.request.subject).is_file()
    assert source.request.size == manifest_size(demo.manifest) == (28, 28)


def test_one_file_by_whatever_name_is_one_structure(tmp_path):
    demo = next(one for one in DemoZoo().entries() if one.manifest.name == "lenet-torch")
    original = demo.folder / "lenet-torch.onnx"
    copy = tmp_path / "other.onnx"
    shutil.copyfile(original, copy)
    sources = [source_of(one) for one in find_entries([str(original), copy])]
    assert [one.plugin for one in sources] == ["onnx", "onnx"]
    assert sources[0].key == sources[1].key
    assert sources[0].request.size is None  # a bare file says itself


def test_the_graphs_inside_the_onnx_package():
    [light] = find_entries(["onnx:light/squeezenet"])
    source = source_of(light)
    assert (source.plugin, source.request.size) == ("onnx", (224, 224))
    assert source.request.subject.endswith("light_squeezenet.onnx")


def test_a_caffe_network_needs_no_weights(tmp_path):
    (tmp_path / "net.prototxt").write_text("name: 'net'")
    [found] = find_entries([tmp_path / "net.prototxt"])
    source = source_of(found)
    assert (source.plugin, dict(source.request.files)) == ("caffe", {})


def test_a_file_that_is_not_here_is_said():
    [hub] = find_entries(["onnx:resnet50-v1-12"])
    if hub.weights is Weights.REMOTE:
        [found] = structure_of(hub)
        assert "not on this machine" in found.error


def test_a_demo_model_end_to_end(store):
    [found] = structure_of("demo:lenet-torch", store=store)
    assert found.error is None
    assert found.figures["unknown_operators"] == 0
    assert found.figures["macs"] > 0


def test_a_size_that_no_image_has_is_refused_before_anything_is_read(store, reads):
    for size in (100_000, (0, 8), -1):
        with pytest.raises(ModelError, match="Image sides must be 1 to"):
            structure_of(entry("net"), store=store, size=size)
    assert reads() == []


@pytest.mark.parametrize("library", ["gluon", "official", "slim"])
def test_a_manifest_alone_has_nothing_installed(store, monkeypatch, tmp_path, library):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    named = entry("resnet50_v1", library=library)
    [found] = structure_of(named, store=store)
    assert found.error.startswith("The manifest of zoo:resnet50_v1 asks to install ")
    assert not (tmp_path / "home" / "cache" / "envs").exists()
    assert source_of(replace(named, zoo=library)).asked_by is None  # the user named that zoo
