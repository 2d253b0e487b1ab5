"""Paired training of small torch networks, in this process and in two."""

import json
import sqlite3

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens import port
from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.store.store import open_store
from zoolens.faces.cli.main import cli
from zoolens.training.crosstrain.study.stored_studies import read_study, study_names
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.data.recording import record
from zoolens.training.pairs.data.source_reopening import open_source
from zoolens.training.pairs.data.sources import ArraySource, described
from zoolens.training.pairs.loop.single_run import Length, train_once
from zoolens.training.pairs.loop.trainable_recognition import trainable
from zoolens.training.pairs.loop.trainable_sides import open_trainable_side
from zoolens.training.pairs.networks.recognition import recognised
from zoolens.training.pairs.networks.training_objects import sorted_objects
from zoolens.training.pairs.sides.network_sides import InputShape
from zoolens.training.port.training.paired import train
from zoolens.training.port.training.paired_words import paired_data, paired_lines

torch = pytest.importorskip("torch")
nn = torch.nn
SHAPE = "1x28x28"
SMALL = {"limits": (120, 50), "batch": 40}


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10))


class WithHead(nn.Module):
    """A head that only training has."""

    def __init__(self):
        super().__init__()
        self.body, self.head = network(), nn.Linear(784, 10)

    def forward(self, x):
        return (self.body(x), self.head(x.flatten(1))) if self.training else self.body(x)


def with_a_head():
    made = WithHead()
    return made, torch.optim.SGD(made.parameters(), lr=0.1), nn.CrossEntropyLoss()


def sgd(rate=0.1, **settings):
    def make():
        made = network()
        return made, torch.optim.SGD(made.parameters(), lr=rate, **settings), nn.CrossEntropyLoss()

    return make


@pytest.fixture(scope="module")
def source():
    return ArraySource.of_dataset("demo", InputShape.parse(SHAPE), 40, "none", (120, 50))


def trained(make, source, epochs=2):
    side = open_trainable_side(make, [InputShape.parse(SHAPE)], "A")
    return side, train_once(side, source, 0, Length(epochs))


def test_a_step_is_that_of_a_loop_by_hand(source):
    """Momentum, weight decay, clipping, a schedule and regularisation at once."""

    def make():
        made = network()
        optimizer = torch.optim.SGD(made.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-3)
        return {
            "network": made, "optimizer": optimizer, "loss": nn.CrossEntropyLoss(label_smoothing=0.1),
            "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5), "clip_norm": 0.5,
            "regularisation": lambda module: 1e-3 * module[1].weight.square().sum(),
        }  # fmt: skip

    side, run = trained(make, source)
    torch.manual_seed(0)
    by_hand = make()
    made, expected = by_hand["network"], []
    for epoch in (1, 2):
        for batch in source.batches(epoch, 0):
            by_hand["optimizer"].zero_grad()
            loss = by_hand["loss"](made(torch.tensor(batch.inputs[0])), torch.tensor(batch.targets).long())
            loss = loss + by_hand["regularisation"](made)
            loss.backward()
            nn.utils.clip_grad_norm_(made.parameters(), 0.5)
            by_hand["optimizer"].step()
            expected.append(loss.item())
        by_hand["scheduler"].step()
    assert run.losses == pytest.approx((np.mean(expected[:3]), np.mean(expected[3:])), rel=1e-12)
    for name, tensor in made.named_parameters():
        assert np.array_equal(side.tensors()[name], tensor.detach().numpy())


def test_beginning_again_gives_the_same_training(source):
    made = network()
    optimizer = torch.optim.Adam(made.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    objects = {"network": made, "optimizer": optimizer, "loss": nn.CrossEntropyLoss(), "scheduler": scheduler}
    side, first = trained(objects, source)
    again = train_once(side, source, 0, Length(2))
    assert (again.losses, again.correct) == (first.losses, first.correct)
    captured = side.captured_step(next(source.batches(1, 0)))
    assert {"loss", "output/0", "activation/1", "gradient/1.weight", "first/3.bias", "second/3.bias"} <= set(captured)
    assert np.array_equal(captured["tensor/1.weight"], side.tensors()["1.weight"])


def test_evaluation_and_settings_leave_statistics_alone(source):
    def make():
        made = nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.BatchNorm1d(10), nn.Dropout(0.5))
        return made, torch.optim.SGD(made.parameters(), lr=0.1), nn.CrossEntropyLoss()

    side, _ = trained(make, source, epochs=1)
    before = side.tensors()
    told = side.settings()
    side.held_out_answers(source)
    assert (told["norm.kept"], told["dropout.rate"], told["loss.reduction"]) == (0.9, (0.5,), "mean")
    assert all(np.array_equal(array, before[name]) for name, array in side.tensors().items())


def test_equal_sides_have_no_difference_and_others_have():
    same = train(sgd(), sgd(), [SHAPE], seeds=3, **SMALL)
    assert [pair.churn for pair in same.seeds] == [0, 0, 0]
    assert same.beyond_noise is False
    assert same.differences == ()
    other = train(sgd(momentum=0.9), sgd(0.0, momentum=0.9), [SHAPE], seeds=4, epochs=12, **SMALL)
    assert other.beyond_noise is True
    assert other.noise.difference.value < -0.2
    assert any("learning rate is 0.1 in A and 0 in B" in line for line in paired_lines(other))
    data = json.loads(json.dumps(paired_data(other)))
    assert data["beyond_noise"]
    assert data["seeds"][0]["a"]["total"] == 50


def test_numbers_as_targets_are_judged_by_the_loss(source):
    def make():
        made = nn.Sequential(nn.Flatten(), nn.Linear(784, 1))
        return made, torch.optim.SGD(made.parameters(), lr=0.001), nn.MSELoss()

    found = train(make, make, [SHAPE], seeds=2, **SMALL)
    assert found.measure == "held-out loss"
    assert found.noise.difference.value == 0
    assert any("A's loss on the held-out samples" in line for line in paired_lines(found))


def test_a_loss_that_is_no_number_is_said_and_does_not_count():
    found = train(sgd(), sgd(1e30), [SHAPE], seeds=1, **SMALL)
    assert found.seeds[0].runs[1].not_finite is not None
    assert found.noise is None
    assert found.one_lost
    assert any("became no finite number" in note for note in found.notes)


def test_weights_that_are_the_same_for_every_seed_are_said():
    def make():
        torch.manual_seed(7)
        return sgd()()

    assert any("same weights for every seed" in note for note in train(make, make, [SHAPE], seeds=2, **SMALL).notes)


def points(targets, samples=120):
    drawn = np.random.default_rng(0).standard_normal((samples, 4)).astype(np.float32)
    return (drawn, targets(drawn)), (drawn[:50], targets(drawn[:50]))


def small(*layers, loss, rate=0.2, **settings):
    def make():
        made = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), *(layer() for layer in layers))
        return made, torch.optim.SGD(made.parameters(), lr=rate, **settings), loss

    return make


def test_seeds_that_repeat_one_training_count_as_one():
    def make(rate):
        def made():
            torch.manual_seed(0)
            return small(lambda: nn.Linear(8, 2), loss=nn.CrossEntropyLoss(), rate=rate)()

        return made

    batches = [points(lambda x: (x[:, 0] > 0).astype(np.int64))[0]]
    found = train(make(0.1), make(0.1000001), ["4"], data=batches, seeds=3)
    assert found.beyond_noise is None
    assert any("All 3 seeds gave the same training" in note for note in found.notes)


def test_probabilities_are_judged_as_what_they_are():
    """One side answers scores, the other probabilities: they train alike, and come out alike."""
    one = small(lambda: nn.Linear(8, 1), loss=nn.BCEWithLogitsLoss())
    other = small(lambda: nn.Linear(8, 1), nn.Sigmoid, loss=nn.BCELoss())
    for a, b in ((one, other), (other, one)):
        found = train(a, b, ["4"], data=points(lambda x: (x[:, 0] > 0).astype(np.int64)), seeds=2)
        assert found.measure == "held-out loss"
        assert found.noise.difference.value == pytest.approx(0, abs=1e-6)
    logs = small(lambda: nn.Linear(8, 3), lambda: nn.LogSoftmax(-1), loss=nn.NLLLoss())
    scores = small(lambda: nn.Linear(8, 3), loss=nn.CrossEntropyLoss())
    found = train(logs, scores, ["4"], data=points(lambda x: np.digitize(x[:, 0], [-0.5, 0.5])), seeds=1)
    assert found.seeds[0].held_out_losses[0] == pytest.approx(found.seeds[0].held_out_losses[1], rel=1e-5)


def test_several_labels_of_a_sample_are_no_class():
    make = small(lambda: nn.Linear(8, 3), loss=nn.BCEWithLogitsLoss())
    labels = points(lambda x: (x[:, :3] > 0).astype(np.int64))
    assert train(make, make, ["4"], data=labels, seeds=1).measure == "held-out loss"


def test_what_differs_in_losses_and_optimizers_is_told():
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]), ignore_index=7)

    def frozen():
        made = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
        made[0].weight.requires_grad_(False)
        made[1].eval()
        groups = [{"params": made[:2].parameters()}, {"params": made[3].parameters(), "lr": 0.01}]
        return made, torch.optim.SGD(groups, lr=0.2, maximize=True), weighted

    def plain():
        made = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
        return made, torch.optim.SGD(made.parameters(), lr=0.2), nn.CrossEntropyLoss()

    found = train(frozen, plain, ["4"], data=points(lambda x: (x[:, 0] > 0).astype(np.int64)), seeds=1)
    told = {one.name: (one.a, one.b) for one in found.differences}
    assert told == {
        "optimizer.maximize": (True, False),
        "optimizer.varied": ("learning rate 0.2 for 56 numbers, 0.01 for 18 numbers", "none"),
        "optimizer.trained": (42, 74),
        "loss.weights": ((1.0, 2.0), "none"),
        "loss.constants": ("ignore_index 7", "none"),
        "norm.frozen": (1, 0),
    }
    before = frozen()[0][1].running_mean
    side = open_trainable_side(frozen, [InputShape((4,))], "A")
    side.captured_step(TrainingBatch((np.ones((8, 4), np.float32),), np.zeros(8, np.int64)))
    assert np.array_equal(side.tensors()["1.running_mean"], before)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (network, "returned no optimizer"),
        (lambda: (network(), nn.CrossEntropyLoss()), "returned no optimizer"),
        (lambda: (network(), torch.optim.SGD(network().parameters(), lr=1.0), nn.CrossEntropyLoss()), "none of the"),
        (lambda: (*sgd()()[:2], nn.CrossEntropyLoss(reduction="none")), "not one number"),
        (lambda: (*sgd()(), nn.MSELoss()), "two objects that may be the loss"),
        (lambda: (*sgd()(), 3), "no optimizer, schedule or loss"),
        (with_a_head, "answers 2 tensors in training"),
        (lambda: {"network": network(), "optimiser": 1}, "optimiser, which means nothing"),
        (lambda: {"network": network(), "precision": "float8"}, "float8"),
        (lambda: {"network": network(), "clip_norm": -1}, "clip_norm"),
    ],
)
def test_what_cannot_be_trained_is_said(make, words, source):
    with pytest.raises(ModelError, match=words):
        trained(make, source)


def test_networks_with_too_few_answers_are_refused():
    def make():
        made = nn.Sequential(nn.Flatten(), nn.Linear(784, 5))
        return made, torch.optim.SGD(made.parameters(), lr=0.1), nn.CrossEntropyLoss()

    with pytest.raises(ModelError, match=r"answers 5 numbers for a sample, and .* has 10 classes"):
        train(make, make, [SHAPE], seeds=1, **SMALL)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"batch": -4}, "1 to 1,048,576 samples; got -4"),
        ({"batch": 0}, "1 to 1,048,576 samples; got 0"),
        ({"batch": 1 << 40}, "1 to 1,048,576 samples"),
        ({"epochs": 0}, "at least one epoch"),
        ({"most_steps": -1}, "at least one epoch and one step"),
        ({"epoch_steps": -1}, "at least 1 step; got -1"),
        ({"limits": (-1, 50)}, "at least 1; got -1"),
        ({"limits": (120, 0)}, "at least 1; got 0"),
        ({"seeds": 0}, "at least one"),
        ({"seeds": [1 << 40]}, "from 0 to 2,147,483,647"),
        ({"augmentation": "blur"}, "no augmentation 'blur'"),
    ],
)
def test_a_training_that_cannot_be_is_refused(given, words):
    with pytest.raises(ZoolensError, match=words):
        train(sgd(), sgd(), [SHAPE], **{**SMALL, **given})


def test_what_the_public_function_alone_refuses():
    with pytest.raises(ZoolensError, match="train_on must be 'a' or 'own'"):
        port.train(sgd(), sgd(), [SHAPE], data_b="demo", train_on="b", **SMALL)


class NoBatches(ArraySource):
    def batches(self, epoch, seed):
        return iter(())


def test_a_training_without_steps_is_no_verdict():
    """Both sides would keep equal weights, and so give the same answers."""
    empty = NoBatches.of_dataset("demo", InputShape.parse(SHAPE), 40, "none", (120, 50))
    with pytest.raises(ZoolensError, match="gives no batch"):
        train(sgd(0.1), sgd(0.2), [SHAPE], data=empty)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--batch", "2000000"), "--batch cannot be 2000000: it should be less than or equal to 1048576"),
        (("--record-limit", "nan"), "--record-limit cannot be nan"),
        (("--lockstep", "--steps", "-1"), "Steps are counted from 1"),
    ],
)
def test_options_that_no_training_has(options, words):
    told = CliRunner().invoke(cli, ["port", "train", "a.py:net", "b.py:net", "--input", SHAPE, "--no-keep", *options])
    assert told.exception.exit_code == 2
    assert words in told.exception.message


def test_a_keras_loss_is_recognised_without_keras():
    """A string beside a network is the name of a loss."""
    assert sorted_objects((network(), "mse")).loss == "mse"


def test_sources_open_again_and_resize(source):
    again = open_source(json.loads(json.dumps(described(source))))
    ours, theirs = next(source.batches(3, 1)), next(again.batches(3, 1))
    assert np.array_equal(ours.inputs[0], theirs.inputs[0])
    assert np.array_equal(ours.targets, theirs.targets)
    assert ours.inputs[0].shape == (40, 1, 28, 28)
    larger = ArraySource.of_dataset("demo", InputShape.parse("3x32x32"), 40, "none", (120, 50))
    assert next(larger.batches(3, 1)).inputs[0].shape == (40, 3, 32, 32)
    assert next(larger.held_out()).inputs[0].max() <= 1


NETS = """
import os
import torch
from torch import nn

def net():
    made, rate = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), float(os.environ.get("RATE", 0.1))
    return made, torch.optim.SGD(made.parameters(), lr=rate), nn.CrossEntropyLoss()

def raising():
    made, optimizer, _ = net()
    def loss(answer, target):
        raise RuntimeError("no loss today")
    return made, optimizer, loss
"""


@pytest.mark.slow
def test_seeds_that_are_done_are_kept_until_something_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_STORE", str(tmp_path / "store.sqlite"))
    (tmp_path / "nets.py").write_text(NETS)
    side = f"{tmp_path}/nets.py:net"
    words = ["port", "train", side, side, "--input", SHAPE, "--train-limit", "80", "--test-limit", "40", "--json"]

    def kept(*more):
        done = CliRunner().invoke(cli, [*words, *more])
        assert done.exit_code in (0, 4), done.output  # one seed cannot tell
        return [pair["kept"] for pair in json.loads(done.stdout)["seeds"]]

    assert kept("--seeds", "2") == [False, False]
    assert kept("--seeds", "3") == [True, True, False]
    assert kept("--seeds", "1", "--batch", "20") == [False]
    assert kept("--seeds", "1", "--no-keep") == [False]
    monkeypatch.setenv("RATE", "0.3")  # the text of the code is the same
    assert kept("--seeds", "1") == [False]
    monkeypatch.delenv("RATE")
    (tmp_path / "nets.py").write_text(NETS.replace("0.1", "0.2"))
    assert kept("--seeds", "1") == [False]
    with sqlite3.connect(tmp_path / "store.sqlite") as full:
        full.execute("CREATE TRIGGER full BEFORE INSERT ON trials BEGIN SELECT RAISE(ABORT, 'no room'); END")
    done = CliRunner().invoke(cli, [*words, "--seeds", "1", "--batch", "10"])
    assert done.exit_code == 4, done.output  # trained all the same; one seed cannot tell
    assert any("could not be kept" in note for note in json.loads(done.stdout)["notes"])
    with open_store() as store:
        (name, *_) = study_names(store)
        study = read_study(store, name)
        assert study.frameworks == ("torch (a)", "torch (b)")
        assert str(tmp_path) not in str(study)


@pytest.mark.slow
def test_the_command_in_two_processes(tmp_path):
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "port.yaml").write_text(
        "a: nets.py:net\nb: nets.py:raising\ninput: 1x28x28\ntrain_limit: 80\ntest_limit: 40\nseeds: 2\n"
    )
    done = CliRunner().invoke(cli, ["--yes", "port", "train", str(tmp_path / "port.yaml"), "--no-keep"])
    assert done.exception.exit_code == 2
    assert done.exception.message == "nets.py:13 raises RuntimeError: no loss today"


def test_what_is_wrong_in_a_command_or_a_recipe_is_said(tmp_path):
    wrong = CliRunner().invoke(cli, ["port", "train", "nets.py:net"])
    assert "Two sides are trained" in wrong.exception.message
    (tmp_path / "port.yaml").write_text("a: x\nb: y\ninput: 3x8x8\nepoch: 3\n")
    wrong = CliRunner().invoke(cli, ["--yes", "port", "train", str(tmp_path / "port.yaml")])
    assert "line 4: epoch is no field" in wrong.exception.message


def test_a_network_that_works_in_place_spoils_no_recorded_data():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 2)

        def forward(self, x):
            return self.head(x.zero_())

    values, labels = np.ones((6, 4), np.float32), np.zeros(6, np.int64)
    network = InPlace()
    made = network, torch.optim.SGD(network.parameters(), 0.1), nn.CrossEntropyLoss()
    with record([(values, labels)], [InputShape((4,))], epochs=1) as stream:
        training = trainable(made, recognised(made, [(4,)], ["float"], "mine"))
        training.begin(0)
        training.steps(stream.batches(1, 0))
        np.testing.assert_array_equal(next(stream.batches(1, 0)).inputs[0], values)
