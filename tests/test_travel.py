"""Models and datasets travel to other machines by content: the same runs where their paths are not there.

A machine is pretended: while a job runs, the sender's folder has another name. Real clusters are at the end.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.test_fanout import OneByOne, Shown, described, facts

import zoolens
from zoolens.base.engine.executors.current_executor import running_on
from zoolens.base.engine.executors.executor import TITLE
from zoolens.base.engine.sandbox import trusting
from zoolens.base.errors import AssetError, StoreError, ZoolensError
from zoolens.base.progress import Silent
from zoolens.base.store.shared_files import shared_files
from zoolens.base.store.store import open_store
from zoolens.findings.graph.structures.structure import structure_of
from zoolens.findings.measure.fanout import entry_fields, entry_of
from zoolens.inventory.datasets.opening import NamedData, open_dataset
from zoolens.inventory.fleet import arrival
from zoolens.inventory.fleet.arrival import arrived
from zoolens.inventory.fleet.parcels import Stays, data_parcel, model_parcel, read_parcel, same_here
from zoolens.inventory.fleet.travel import Travel, run_travelling
from zoolens.inventory.manifests.digests import digest
from zoolens.inventory.manifests.files import write_manifest
from zoolens.inventory.manifests.locations import resolve_asset
from zoolens.inventory.manifests.schema import AssetFile
from zoolens.inventory.preprocess.outputs import labels_of
from zoolens.inventory.zoos.demo import DATA_FOLDER
from zoolens.testing.object_server import VARIABLES, object_server
from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers

OPTIONS = {"limit": 40, "runtimes": ["onnxruntime"], "cold": False, "batches": (), "trust": True}


class Elsewhere(OneByOne):
    """A machine without the folder `hidden`, with a home of its own. `variables`: of its environment."""

    def __init__(self, hidden, home, **variables):
        super().__init__()
        self.hidden, self.variables, self.jobs = hidden, {"ZOOLENS_HOME": str(home), **variables}, []

    def submit_telling(self, function, job, tell, **options):
        self.jobs.append(job)
        with self._there():
            future = super().submit_telling(function, job, tell, **options)
            future.exception()
        return future

    @contextmanager
    def _there(self):
        away = self.hidden.with_name("away")
        self.hidden.rename(away)
        try:
            with pytest.MonkeyPatch.context() as patch:
                for name, value in self.variables.items():
                    patch.setenv(name, value)
                yield
        finally:
            away.rename(self.hidden)


@pytest.fixture(autouse=True)
def fresh():
    arrival._checked.clear()


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a model and a dataset, which other machines do not have. Half of the model is elsewhere in it."""
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_BULK", str(tmp_path / "share"))
    folder = tmp_path / "mine"
    fill(folder)
    return folder


def fill(folder):
    (folder / "fashion").mkdir(parents=True)
    (folder / "models").mkdir()
    for name in ("images-idx3", "labels-idx1"):
        shutil.copy(DATA_FOLDER / f"t2k-{name}-ubyte.gz", folder / "fashion" / f"t10k-{name}-ubyte.gz")
    entry = zoolens.find_model("demo:mlp-small")
    asset = next(asset for asset in entry.manifest.assets if asset.format == "onnx")
    shutil.copy(entry.folder / asset.files[0].location, folder / "models" / "mlp.onnx")
    labels = "\n".join(entry.manifest.outputs[0].labels or [str(number) for number in range(10)])
    (folder / "models" / "names.txt").write_text(labels)
    output = entry.manifest.outputs[0].model_copy(update={"labels": None, "labels_file": "names.txt"})
    inside = asset.files[0].model_copy(update={"location": "mlp.onnx"})
    outside = inside.model_copy(update={"location": "file://${MODELS}/mlp.onnx"})
    for name, file in (("inside", inside), ("outside", outside)):
        assets = (asset.model_copy(update={"files": (file,)}),)
        changes = {"name": name, "assets": assets, "outputs": (output,)}
        write_manifest(entry.manifest.model_copy(update=changes), folder / "models" / f"{name}.yaml")


# --- jobs that read their files, without a model's answers


def read_here(job):
    """What a machine finds of a model and its data."""
    with arrived(job) as found:
        entry, data = entry_of(found.job["entry"]), found.job["plan"]["data"]
        asset = entry.manifest.assets[0]
        (path,) = resolve_asset(asset, entry.folder, fetch=False).values()
        with closing(open_dataset(data, limit=10)) as dataset:
            read = {"fingerprint": dataset.fingerprint(), "name": dataset.name}
        labels = list(labels_of(entry.manifest.outputs[0], entry.folder) or ())
        where = {"data": data, "folder": str(entry.folder), "location": asset.files[0].location}
        at = {"model": digest(path), "labels": labels, **read, "at": str(path).startswith(os.environ["ZOOLENS_HOME"])}
        return found.restored({**at, **where, "said": (f"{path} was read.",)})


def sent(executor, models, data, progress=None):
    """What a machine answers for each model."""
    progress = progress or Silent()
    travel, loads = Travel(progress), []
    jobs = []
    for model in models:
        loads = travel.model(zoolens.find_model(model)), travel.data(NamedData(str(data), 10))
        fields = {"entry": entry_fields(loads[0].sent), "plan": {"data": loads[1].sent}}
        jobs.append({TITLE: str(model), **fields, **travel.fields(*loads)})
    with running_on(executor):
        answers = dict(run_travelling(executor, "tests.test_travel:read_here", jobs, progress))
    return [answers[number] for number in range(len(jobs))]


@pytest.mark.parametrize("data", ["fashion", "fashion/t10k-images-idx3-ubyte.gz"])
def test_a_machine_without_the_paths_reads_the_same(mine, tmp_path, monkeypatch, data):
    monkeypatch.setenv("MODELS", str(mine / "models"))
    models = [mine / "models" / name for name in ("inside.yaml", "outside.yaml")]
    with trusting():
        ours = sent(OneByOne(), models, mine / data)
        assert not (tmp_path / "share").exists()  # this machine has them
        node = Elsewhere(mine, tmp_path / "node", MODELS="/nowhere")
        theirs = sent(node, models, mine / data)
    assert [one.pop("at") for one in theirs] == [True] * 2
    assert [one.pop("at") for one in ours] == [False] * 2
    assert theirs == ours
    assert theirs[1]["location"] == "file://${MODELS}/mlp.onnx"
    assert [job["travel"]["sent"] for job in node.jobs] == [0, 0, 1, 1]
    assert len(list((tmp_path / "share").glob("travelled/*/*"))) == 4


def test_another_file_under_the_same_path_is_not_read(mine, tmp_path):
    class Changed(Elsewhere):
        @contextmanager
        def _there(self):
            with super()._there():
                fill(self.hidden)
                (self.hidden / "fashion" / "more.txt").write_text("more")
                yield
                shutil.rmtree(self.hidden)

    (one,) = sent(Changed(mine, tmp_path / "node"), [mine / "models" / "inside.yaml"], mine / "fashion")
    assert one["folder"] == str(mine / "models")
    assert Changed(mine, tmp_path / "node").hidden.is_dir()


def test_without_a_place_both_ways_out_are_named(mine, tmp_path, monkeypatch):
    monkeypatch.delenv("ZOOLENS_BULK")
    (error,) = sent(Elsewhere(mine, tmp_path / "node"), [mine / "models" / "inside.yaml"], "demo")
    assert f"has no {mine / 'models'}. Put it there under the same path, or set ZOOLENS_BULK" in str(error)


def test_a_folder_that_is_not_shared_is_said(mine, tmp_path):
    node = Elsewhere(mine, tmp_path / "node", ZOOLENS_BULK="/nowhere/share")
    (error,) = sent(node, [mine / "models" / "inside.yaml"], "demo")
    assert "cannot fetch the files of file:inside: It has no folder /nowhere/share" in str(error)
    assert "under the same path, or set ZOOLENS_BULK" in str(error)
    assert len(node.jobs) == 2


def test_a_damaged_file_in_the_place_is_published_again(mine, tmp_path):
    model, data = mine / "models" / "inside.yaml", mine / "fashion"
    sent(Elsewhere(mine, tmp_path / "first"), [model], data)
    for path in (tmp_path / "share").glob("travelled/*/*"):
        path.write_bytes(bytes(path.stat().st_size))
    node = Elsewhere(mine, tmp_path / "second")
    (one,) = sent(node, [model], data)
    assert one["at"]
    assert [job["travel"]["sent"] for job in node.jobs] == [0, 1, 2]


def test_what_was_swept_is_published_again(mine, tmp_path):
    model, data = mine / "models" / "inside.yaml", mine / "fashion"
    sent(Elsewhere(mine, tmp_path / "first"), [model], data)
    removed, _ = shared_files(str(tmp_path / "share")).sweep(older_than=0)
    assert len(removed) == 4
    (one,) = sent(Elsewhere(mine, tmp_path / "second"), [model], data)
    assert one["at"]


def test_what_cannot_travel_is_said_and_needs_its_path(mine, tmp_path):
    (mine / "fashion" / "link").symlink_to("/etc/hostname")
    said = []

    class Heard(Shown):
        def say(self, text):
            said.append(text)

    (error,) = sent(Elsewhere(mine, tmp_path / "node"), [mine / "models" / "inside.yaml"], mine / "fashion", Heard())
    assert f"does not travel, and nodes need it under the same path: {mine / 'fashion' / 'link'} is a link." in said[0]
    assert f"has no {mine / 'fashion'}" in str(error)


@pytest.mark.parametrize("option", ["labels=/etc/hostname", "labels=../models/names.txt"])
def test_a_dataset_whose_option_names_a_file_elsewhere_stays(mine, option):
    with pytest.raises(Stays, match="The option labels of the dataset names"):
        data_parcel(f"idx:{mine / 'fashion'}?{option}")


def test_what_others_may_not_read_stays_unless_its_manifest_is_trusted(mine, monkeypatch, tmp_path):
    """A stranger's manifest may name any file of ours."""
    monkeypatch.setenv("MODELS", str(mine / "models"))
    entry = zoolens.find_model(mine / "models" / "outside.yaml")
    with pytest.raises(Stays, match=r"mlp.onnx, outside of its folder, which others may not read\. Put it into"):
        model_parcel(entry)
    with trusting():
        assert model_parcel(entry)
    with tempfile.TemporaryDirectory() as made:
        outside = Path(made, "mlp.onnx")
        shutil.copy(mine / "models" / "mlp.onnx", outside)
        monkeypatch.setenv("MODELS", made)
        for folder, file, stays in ((0o755, 0o644, False), (0o755, 0o640, True), (0o700, 0o644, True)):
            Path(made).chmod(folder)
            outside.chmod(file)
            with pytest.raises(Stays, match="which others may not read") if stays else nullcontext():
                assert model_parcel(entry)


def test_labels_outside_of_the_folder_and_pipes_in_a_dataset_stay(mine):
    entry = zoolens.find_model(mine / "models" / "inside.yaml")
    output = entry.manifest.outputs[0].model_copy(update={"labels_file": f"file://{mine}/models/names.txt"})
    with pytest.raises(Stays, match="names its labels as file:///"):
        model_parcel(replace(entry, manifest=entry.manifest.model_copy(update={"outputs": (output,)})))
    os.mkfifo(mine / "fashion" / "pipe")
    with pytest.raises(Stays, match=r"pipe cannot be read: it is a pipe"):
        data_parcel(f"idx:{mine / 'fashion'}")


def test_names_that_collide_on_some_file_systems_stay(mine):
    for name in ("a.txt", "A.txt"):
        (mine / "fashion" / name).write_text(name)
    with pytest.raises(Stays, match=r"cannot travel: it has 'd0/fashion/a.txt' beside"):
        data_parcel(f"idx:{mine / 'fashion'}")


def test_empty_folders_travel(mine, tmp_path):
    (mine / "fashion" / "none" / "inner").mkdir(parents=True)
    _, parcel = data_parcel(f"idx:{mine / 'fashion'}")
    assert parcel.files.empty == ("d0/fashion/none/inner",)
    assert read_parcel(parcel.as_data()) == parcel
    assert same_here(parcel)
    (mine / "fashion" / "none" / "inner").rmdir()
    assert not same_here(parcel)


def test_a_root_outside_of_the_list_is_refused(mine):
    _, parcel = data_parcel(f"idx:{mine / 'fashion'}")
    for inside in ("../..", "d0", "d0/other", "/etc"):
        with pytest.raises(AssetError, match="is refused"):
            read_parcel({**parcel.as_data(), "roots": [["/somewhere", inside, True]]})


def test_models_of_packages_need_no_travel(mine):
    entry = zoolens.find_model("demo:mlp-small")
    file = AssetFile(location="package://zoolens/inventory/zoos/demo_data/models/mlp-small.onnx")
    assets = (entry.manifest.assets[0].model_copy(update={"files": (file,)}),)
    manifest = entry.manifest.model_copy(update={"assets": assets})
    assert model_parcel(replace(entry, manifest=manifest, folder=None)) is None


def test_a_dataset_that_reads_files_outside_of_its_folder_is_refused(mine, tmp_path, monkeypatch):
    expected = arrival.identity_of
    monkeypatch.setattr(arrival, "identity_of", lambda dataset: {**expected(dataset), "size": 7})
    (error,) = sent(Elsewhere(mine, tmp_path / "node"), [mine / "models" / "inside.yaml"], mine / "fashion")
    assert isinstance(error, ZoolensError)
    assert "The dataset has another size on the node" in str(error)


def test_credentials_do_not_travel(mine, monkeypatch):
    monkeypatch.setenv("ZOOLENS_BULK", "s3://key:secret@bucket/prefix")
    with pytest.raises(StoreError, match="holds credentials"):
        Travel(Silent())


# --- evaluations


@pytest.fixture
def stores(tmp_path):
    with open_store(tmp_path / "here.sqlite") as here, open_store(tmp_path / "there.sqlite") as there:
        yield here, there


@pytest.mark.slow  # evaluations
@pytest.mark.parametrize("data", ["fashion", "fashion/t10k-images-idx3-ubyte.gz"])
def test_runs_are_the_same_where_no_path_is(mine, stores, tmp_path, monkeypatch, data):
    monkeypatch.setenv("MODELS", str(mine / "models"))
    models = [mine / "models" / name for name in ("inside.yaml", "outside.yaml", "mlp.onnx")]
    here, there = stores
    zoolens.evaluate(models, mine / data, store=here, **OPTIONS)
    node = Elsewhere(mine, tmp_path / "node", MODELS="/nowhere")
    with running_on(node):
        outcomes = zoolens.evaluate(models, mine / data, store=there, **OPTIONS)
    assert [outcome.errors for outcome in outcomes] == [()] * 3
    assert len(here.runs()) == 2  # two of the models are one
    assert facts(there) == facts(here)
    assert [job["travel"]["sent"] for job in node.jobs] == [0, 0, 0, 1, 1, 1]
    assert str(tmp_path / "node") not in json.dumps([dict(run.resolved) for run in there.runs()])


@pytest.mark.slow
def test_what_is_there_under_the_same_path_is_not_published(mine, stores, tmp_path):
    with running_on(OneByOne()):
        (outcome,) = zoolens.evaluate(mine / "models" / "mlp.onnx", mine / "fashion", store=stores[1], **OPTIONS)
    assert not outcome.errors
    assert not (tmp_path / "share").exists()


@pytest.mark.slow
def test_slices_and_traces_travel_too(mine, stores, tmp_path):
    model, data = mine / "models" / "inside.yaml", mine / "fashion"
    here, there = stores
    traced = {"runtimes": "onnxruntime", "repeats": 2, "seconds": 0.05}
    zoolens.evaluate(model, data, store=here, **OPTIONS)
    (ours,) = zoolens.trace(model, data, store=here, **traced)
    with running_on(Elsewhere(mine, tmp_path / "node")):
        zoolens.evaluate(model, data, store=there, shards=2, **OPTIONS)
        (theirs,) = zoolens.trace(model, data, store=there, **traced)
    assert described(theirs) == described(ours)
    assert facts(there) == facts(here)


@pytest.mark.slow
def test_comparisons_and_structures_travel_too(mine, tmp_path):
    node = Elsewhere(mine, tmp_path / "node")
    sides = f"{mine}/models/mlp.onnx@onnxruntime", f"{mine}/models/inside.yaml@onnxruntime:threads=1"
    asked = {"limit": 20, "examined": 1, "store": tmp_path / "store.sqlite"}
    with trusting():
        ours = zoolens.diverge(*sides, mine / "fashion", **asked)
        structures = structure_of([mine / "models" / "mlp.onnx"], store=tmp_path / "here.sqlite")
        with running_on(node):
            theirs = zoolens.diverge(*sides, mine / "fashion", **asked)
            their_structures = structure_of([mine / "models" / "mlp.onnx"], store=tmp_path / "there.sqlite")
    assert theirs == ours
    assert [one.packed for one in their_structures] == [one.packed for one in structures]
    assert [job["travel"]["sent"] for job in node.jobs] == [0, 1, 0]
    assert not their_structures[0].error


@pytest.mark.slow
def test_data_of_trainings_travel_too(mine, tmp_path):
    pytest.importorskip("torch")
    folder = mine / "prepared"
    folder.mkdir()
    draw = np.random.default_rng(0)
    for part, count in (("train", 96), ("test", 32)):
        np.save(folder / f"{part}_x.npy", draw.integers(0, 256, (count, 28, 28, 1), np.uint8))
        np.save(folder / f"{part}_y.npy", draw.integers(0, 10, count, np.int32))
    recipe = Recipe(architecture="mlp", dataset="demo", learning_rate=0.01, batch_size=32, epochs=1)

    def job(name):
        given = {"recipe": recipe, "framework": "torch", "semantics": recipe.wanted, "data": folder}
        return Job(**given, output=tmp_path / name, loop="eager", threads=1)

    with Workers() as workers:
        ours, answers = workers.train(job("here"))
    node = Elsewhere(mine, tmp_path / "node")
    with running_on(node), Workers() as workers:
        theirs, their_answers = workers.train(job("there"))
    assert theirs.status == ours.status == "finished"
    assert np.array_equal(their_answers, answers)
    assert [job["travel"]["sent"] for job in node.jobs] == [0, 1]


# --- a real cluster, whose nodes cannot see the sender's folder


@pytest.fixture(scope="module")
def objects():
    with object_server() as server:
        yield server


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """A folder for the sender's files, and a cluster of two nodes in a namespace of their own, in which that folder is
    empty. Each has a home of its own, and credentials of its own for the object store: jobs bring none."""
    pytest.importorskip("ray", reason="RAY ABSENT: install zoolens[ray] to test running on it")
    hide = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*hide, "true"], check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED on nodes without our paths: this machine makes no mount namespaces")
    from ray.cluster_utils import Cluster

    root = tmp_path_factory.mktemp("apart")
    (root / "mine").mkdir()
    nodes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(root / "home"))  # Ray keeps a token there
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")
        patch.delenv("ZOOLENS_BULK", raising=False)
        small = {"num_cpus": 0, "object_store_memory": 100 << 20}
        made = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
        patch.setenv("RAY_ADDRESS", made.address)
        start = f"mount -t tmpfs none {root / 'mine'} && exec {sys.executable} -m ray.scripts.scripts start --block "
        start += f"--address={made.address} --num-cpus=1 --object-store-memory={100 << 20}"
        try:
            for number in range(2):
                own = {**os.environ, **VARIABLES, "ZOOLENS_HOME": str(root / f"node{number}")}
                nodes.append(subprocess.Popen([*hide, "sh", "-c", start], env=own, stdout=subprocess.DEVNULL))
                deadline = time.monotonic() + 120
                # One after the other: two that start at once may choose the same port.
                while len(made.global_state._live_node_ids()) < 2 + number:
                    assert time.monotonic() < deadline, "a node did not start"
                    time.sleep(0.1)
            yield root
        finally:
            for node in nodes:
                node.terminate()
            for node in nodes:
                node.wait(60)
            made.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["folder", "objects"])
def test_a_cluster_without_our_paths_finds_the_same(apart, stores, tmp_path, monkeypatch, request, place):
    pytest.importorskip("onnxruntime")
    mine = apart / "mine" / place
    fill(mine)
    for cache in apart.glob("node*/cache/travelled"):
        shutil.rmtree(cache)  # what the other place brought
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MODELS", str(mine / "models"))
    shared = str(tmp_path / "share")
    if place == "objects":
        server = request.getfixturevalue("objects")
        server.make_bucket("travel")
        shared = server.url("travel")
        for name, value in VARIABLES.items():
            monkeypatch.setenv(name, value)
    models = [mine / "models" / name for name in ("inside.yaml", "mlp.onnx")]
    here, there = stores
    options = {**OPTIONS, "trust": False}
    zoolens.evaluate(models, mine / "fashion", store=here, **options)
    with running_on("ray"):
        refused = zoolens.evaluate(models[:1], mine / "fashion", store=there, **options)
        assert f"has no {mine / 'models'}" in refused[0].errors[0]
        monkeypatch.setenv("ZOOLENS_BULK", shared)
        outcomes = zoolens.evaluate(models, mine / "fashion", store=there, shards=2, **options)
    assert [outcome.errors for outcome in outcomes] == [()] * 2
    assert facts(there) == facts(here)
    fetched = [path for path in apart.glob("node*/cache/travelled/kept/*/*") if path.suffix != ".part"]
    assert len(fetched) >= 4
    assert len(shared_files(shared).place.names()) == 4
