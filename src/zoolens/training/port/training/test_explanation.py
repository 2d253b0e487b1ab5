"""A gap between two trainings of one network, shared out among the settings that differ."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Silent
from zoolens.base.store.store import open_store
from zoolens.faces.cli.main import cli
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.loop.single_run import Length
from zoolens.training.port.training.explanation import ExplanationPlan, explain
from zoolens.training.port.training.explanation_words import explanation_data, explanation_lines

torch = pytest.importorskip("torch")
nn = torch.nn


class Blobs(BatchSource):
    """Four clouds of points, of which a few steps learn a part; the order depends on the seed."""

    kind, name, classes, fingerprint = "blobs", "blobs", 4, "blobs"
    samples, steps, held_out_samples, batch = 256, 8, 400, 32

    def batches(self, epoch, seed):
        generator = np.random.default_rng([seed, epoch])
        return iter([self._drawn(generator, self.batch) for _ in range(self.steps)])

    def held_out(self):
        yield self._drawn(np.random.default_rng(99), self.held_out_samples)

    def description(self):
        return {}

    def _drawn(self, generator, count):
        classes = generator.integers(0, self.classes, count)
        places = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], np.float32)
        noise = generator.standard_normal((count, 4)).astype(np.float32)
        return TrainingBatch((places[classes] + 0.4 * noise,), classes)


class Told(Silent):
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


def side(rate, momentum, init=1.0):
    def made():
        net = nn.Linear(4, 4)
        with torch.no_grad():
            net.weight.mul_(init)
        return net, torch.optim.SGD(net.parameters(), lr=rate, momentum=momentum), nn.CrossEntropyLoss()

    return made


def test_the_setting_that_makes_a_gap_has_its_share_and_closes_it():
    progress = Told()
    a, b = side(0.002, 0.0), side(0.2, 0.1)
    found = explain(a, b, ["4"], Blobs(), ExplanationPlan(Length(1), 3), progress=progress)
    assert [one.name for one in found.players] == ["optimizer.learning_rate", "optimizer.momentum"]
    assert found.pair.beyond_noise
    assert found.explained.shares[0].name == "optimizer.learning_rate"
    assert found.explained.shares[0].share.value > 0.8
    assert found.verification.culprits == ("optimizer.learning_rate",)
    assert found.verification.closed
    assert found.trained == found.planned == 33
    assert progress.said[0].startswith("Up to 33 trainings of 8 steps")
    lines = "\n".join(explanation_lines(found))
    assert "the learning rate: +" in lines
    assert "This closes the gap" in lines
    assert explanation_data(found)["verification"]["closed"]


def test_initial_weights_are_a_player_where_each_side_draws_its_own():
    a, b = side(0.5, 0.0, init=200.0), side(0.5, 0.0)
    found = explain(a, b, ["4"], Blobs(), ExplanationPlan(Length(1), 3, own_init=True))
    assert [one.name for one in found.players] == ["initial weights"]
    assert found.explained.shares[0].name == "initial weights"
    assert found.verification.culprits == ("initial weights",)


class Steep(nn.Module):
    """A network whose answers overflow when it learns fast, under odd seeds or under all."""

    def __init__(self, *, always):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.register_buffer("slope", torch.tensor(10.0 if always or torch.initial_seed() % 2 else 1.0))

    def forward(self, x):
        return torch.exp(self.slope * self.inner(x))


@pytest.mark.parametrize(("always", "left_out"), [(True, (0, 1, 2, 3)), (False, (1, 3))])
def test_a_training_that_is_lost_is_named_and_the_others_go_on(always, left_out):
    def steep():
        net = Steep(always=always)
        return net, torch.optim.SGD(net.parameters(), lr=1e-12), nn.CrossEntropyLoss()

    found = explain(steep, side(0.5, 0.0), ["4"], Blobs(), ExplanationPlan(Length(1), 4))
    text = "\n".join(explanation_lines(found))
    assert found.left_out == left_out
    assert (found.explained is None) is always
    assert [(lost.arm.side, sorted(lost.arm.switched)) for lost in found.lost] == [(0, ["optimizer.learning_rate"])]
    assert "A with the learning rate of B: under seed" in text


def test_without_a_gap_nothing_is_shared_out():
    found = explain(side(0.02, 0.0), side(0.02, 0.0), ["4"], Blobs(), ExplanationPlan(Length(1), 2))
    assert found.explained is None
    assert found.trained == 4
    assert "nothing to explain" in "\n".join(explanation_lines(found))


def test_numbers_without_classes_are_refused():
    source = Blobs()
    source.classes = None
    with pytest.raises(ZoolensError, match="no held-out samples with classes"):
        explain(side(0.02, 0.0), side(0.02, 0.0), ["4"], source, ExplanationPlan(Length(1)))


@pytest.mark.slow
def test_a_port_to_keras_is_explained_by_the_command(monkeypatch):
    pytest.importorskip("keras")
    monkeypatch.chdir(Path(__file__).parents[5] / "examples" / "port")
    data = ["--input", "1x7x7", "--data", "stripes_data.py:arrays", "--batch", "32", "--epochs", "4"]
    words = ["stripes_torch.py:net", "stripes_keras.py:net", *data, "--explain", "--no-keep", "--json"]
    done = CliRunner().invoke(cli, ["port", "train", *words])
    assert done.exit_code == 1, done.output
    found = json.loads(done.stdout)
    assert [player["name"] for player in found["players"]] == ["optimizer.rule", "padding"]
    assert found["structure"] == []
    assert sorted(found["verification"]["culprits"]) == ["optimizer.rule", "padding"]
    assert found["verification"]["closed"]


@pytest.mark.slow
def test_an_explanation_that_was_killed_goes_on_with_the_trainings_that_are_left(tmp_path):
    examples = Path(__file__).parents[5] / "examples" / "port"
    (tmp_path / "clouds_data.py").write_text((examples / "clouds_data.py").read_text())
    network = (examples / "clouds_torch.py").read_text().replace("lr=0.02", "lr=0.0008")
    (tmp_path / "one.py").write_text(network)
    (tmp_path / "other.py").write_text(network.replace(", momentum=0.9", ""))
    store = str(tmp_path / "store.db")
    words = ["port", "train", "one.py:net", "other.py:net", "--input", "4", "--data", "clouds_data.py:arrays"]
    words += ["--batch", "32", "--epochs", "50", "--explain", "--replicates", "2", "--store", store, "--json"]
    command = [sys.executable, "-m", "zoolens", *words]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        while first.poll() is None and _kept(store) < 3:
            time.sleep(0.1)
        first.kill()
    before = _kept(store)
    runs = [
        json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout) for _ in range(2)
    ]
    assert runs[0]["kept"] == before >= 3
    assert runs[0]["trained"] > 0
    assert (runs[1]["trained"], runs[1]["kept"]) == (0, runs[0]["trained"] + before)
    assert runs[0]["pair"] == runs[1]["pair"]


def _kept(store):
    """How many trainings are in the store."""
    if not Path(store).exists():
        return 0
    with open_store(store) as opened:
        return sum(len(opened.trials(name)) for name in opened.studies_with_trials())
