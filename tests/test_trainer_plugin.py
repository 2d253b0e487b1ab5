"""A fourth trainer, as the documentation shows it, has diff, lockstep and live models because it declares them."""

import os
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from zoolens.base import plugins
from zoolens.base.errors import ModelError, UnknownName
from zoolens.base.store.store import open_store
from zoolens.findings.measure.answers import trained_answers
from zoolens.testing.trainer_contract import TrainerContract
from zoolens.training.crosstrain import crosstrain_api
from zoolens.training.crosstrain.study.store_training import begin_study, train_into
from zoolens.training.crosstrain.training.diff.static_diff import static_diff
from zoolens.training.crosstrain.training.lockstep import lockstep
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Optimizer, Recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trainers.registry import default_frameworks, reference_trainer, trainer_named
from zoolens.training.crosstrain.training.trainers.trainer import Trainer
from zoolens.training.crosstrain.training.trial_runner import TrialRequest
from zoolens.training.pairs.data.prepared_data import load, prepared

pytest.importorskip("torch")
PAGE = Path(__file__).parent.parent / "docs" / "plugins.md"
BARE = """
from zoolens_numpy.trainer import Numpy
from zoolens.training.crosstrain.training.trainers.trainer import Trainer

class Bare(Trainer):
    name, summary, distributions = "bare", "Declares nothing", ("numpy",)
    train = Numpy.train
"""
RECIPE = Recipe(
    architecture="mlp",
    dataset="demo",
    train_limit=60,
    test_limit=30,
    optimizer=Optimizer(name="sgd"),
    learning_rate=0.05,
    batch_size=20,
    epochs=1,
    weights="shared",
)


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory):
    """The package of the documentation, on the path as pip would put it, for this process and for its workers."""
    folder = tmp_path_factory.mktemp("site")
    package, about = folder / "zoolens_numpy", folder / "zoolens_numpy-1.0.dist-info"
    package.mkdir()
    about.mkdir()
    section = PAGE.read_text(encoding="utf-8").partition("## A trainer")[2]
    blocks = [part.partition("```")[0] for part in section.split("```python\n")[1:3]]
    for name, code in zip(("trainer", "inspection", "bare", "__init__"), (*blocks, BARE, ""), strict=True):
        (package / f"{name}.py").write_text(code, encoding="utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: zoolens-numpy\nVersion: 1.0\n", encoding="utf-8")
    points = "[zoolens.trainers]\nnumpy = zoolens_numpy.trainer:Numpy\nbare = zoolens_numpy.bare:Bare\n"
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    sys.path.insert(0, str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        plugins.forget()
        TestNumpy.trainer_class = trainer_named("numpy")
        yield
    sys.path.remove(str(folder))
    plugins.forget()


@pytest.fixture(scope="module")
def workers(installed):
    with Workers() as workers:
        yield workers


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))


class TestNumpy(TrainerContract):
    trainer_class = Trainer  # the fixture puts the installed one here
    settings: ClassVar = {"optimizer": Optimizer(name="sgd")}


def test_a_trainer_that_nobody_knows_is_no_default_and_no_reference():
    assert default_frameworks() == ("torch", "tensorflow")
    assert reference_trainer().name == "torch"


@pytest.mark.slow  # two frameworks; test_lockstep compares the same trainer step by step
def test_diff():
    found = static_diff("torch:mlp", "numpy:mlp", input_shape=(1, 8, 8))
    assert found.networks[1] == "dense layers in numpy"
    assert found.versions[1] == {"numpy": np.__version__}
    different = {item.what: (item.a, item.b) for item in found.items}
    assert different["biases of dense layers"] == ("uniform ±1/√(fan in)", "zeros")
    assert "parameters to learn" in {same.what for same in found.same}
    with pytest.raises(ModelError, match="knows mlp alone"):
        static_diff("numpy:lenet", "torch:lenet")


def test_lockstep(workers, home):
    found = lockstep(RECIPE, "torch", "numpy", workers=workers, steps=(1, 3), manner=Manner(threads=1))
    assert found.first is None, found.first
    assert found.compared == (1, 3)
    assert {row.kind for row in found.rows} == {"activation", "loss", "gradient", "tensor"}


def test_live_model(workers, home, tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        begin_study(store, "fourth", ("torch", "numpy"), {})
        manner = Manner(threads=1, keep_weights=True)
        trial = train_into(store, "fourth", TrialRequest(RECIPE, ("torch", "numpy"), "1"), workers, manner=manner)
        assert [side.status for side in trial.sides] == ["finished", "finished"]
        network = crosstrain_api.model(trial, "numpy", store)
        images = np.asarray(load(prepared(RECIPE).folder).test_x) / np.float32(255)
        assert network(images).argmax(1).tolist() == trained_answers(store, trial.side("numpy").run).tolist()
        with pytest.raises(ModelError, match="bare makes no live models"):
            trainer_named("bare")().live_model(None, {})


def test_what_is_not_declared_is_refused(workers, home):
    with pytest.raises(ModelError, match=r"bare does not write what its steps compute.*torch, tensorflow, jax, numpy"):
        lockstep(RECIPE, "torch", "bare", workers=workers, manner=Manner(threads=1))
    with pytest.raises(UnknownName, match="no framework named 'bare'"):
        static_diff("bare:mlp", "torch:mlp")
