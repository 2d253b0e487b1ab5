"""Which settings of two torch trainings a paired training names: schedules by their rates, groups by what they hold."""

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.training.pairs.live.differences import equal_rates
from zoolens.training.pairs.loop.trainable_sides import open_trainable_side
from zoolens.training.pairs.sides.network_sides import InputShape
from zoolens.training.port.training.paired import train
from zoolens.training.port.training.paired_words import paired_lines

torch = pytest.importorskip("torch")
nn, schedules = torch.nn, torch.optim.lr_scheduler
RANDOM = np.random.default_rng(0)
POINTS = RANDOM.standard_normal((20, 4)).astype(np.float32), RANDOM.integers(0, 3, 20)


def side(optimizer=None, loss=None, **others):
    """`optimizer` and the values of `others` are functions, of the network and of the optimizer."""

    def make():
        network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        given = optimizer(network) if optimizer else torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        made = {name: value(given) for name, value in others.items()}
        return {"network": network, "optimizer": given, "loss": loss or nn.CrossEntropyLoss(), **made}

    return make


def told(a, b):
    """The names of what differs, and the lines that say it."""
    found = train(a, b, ["4"], data=POINTS, batch=10, epochs=3, seeds=1)
    return [difference.name for difference in found.differences], "\n".join(paired_lines(found))


def test_schedules_are_compared_by_the_rates_of_all_steps():
    names, lines = told(
        side(scheduler=lambda given: schedules.CosineAnnealingLR(given, 3)),
        side(scheduler=lambda given: schedules.CosineAnnealingLR(given, 30)),
    )
    assert names == ["schedule.rates"]
    assert "the learning rate from step 3 on is 0.075, 0.075, 0.025, 0.025 in A and 0.0997261," in lines
    halved = side(scheduler=lambda given: schedules.StepLR(given, 1, 0.5))
    assert equal_rates((0.1, 0.00380602, 0.000960736), (0.1, 0.00380602, 0.000960735)) == 3  # as torch and Keras say
    assert equal_rates((0.1, 0.05), (0.1, 0.0501)) == 1
    names, lines = told(halved, side(scheduler=lambda given: schedules.ExponentialLR(given, 0.5)))
    assert names == []
    assert "No setting of the live objects differs, of " in lines


def test_a_schedule_of_more_than_the_rate_is_not_known_by_its_rates():
    """Its momentum is at the end what it was at the beginning."""
    cycle = side(
        scheduler=lambda given: schedules.OneCycleLR(given, 0.1, total_steps=6), scheduler_unit=lambda _: "step"
    )
    halves = [lambda _: 1.0, lambda epoch: 0.5**epoch]
    of_groups = side(
        lambda network: torch.optim.SGD([{"params": layer.parameters()} for layer in network[::2]], lr=0.1),
        scheduler=lambda given: schedules.LambdaLR(given, halves),
    )
    for make in (cycle, of_groups):
        assert open_trainable_side(make, [InputShape((4,))], "A").rates([2, 2, 2]) is None
    assert "neither side tells: the learning rate of each step" in told(cycle, cycle)[1]


def spared(first, decay=0.1):
    """Weight decay of kernels alone, whose group comes first or last."""

    def optimizer(network):
        kernels, biases = ([p for p in network.parameters() if p.ndim == axes] for axes in (2, 1))
        groups = [{"params": kernels, "weight_decay": decay}, {"params": biases, "weight_decay": 0.0 if first else 0}]
        return torch.optim.AdamW(groups if first else groups[::-1], lr=0.01)

    return side(optimizer)


def test_the_order_of_groups_says_nothing():
    names, lines = told(spared(True), spared(False))
    assert (names, "No setting of the live objects differs, of " in lines) == ([], True)
    live = open_trainable_side(spared(False)(), [InputShape((4,))], "A")
    assert (live.settings()["optimizer.weight_decay"], live.settings()["optimizer.decay_kind"]) == (0.1, "decoupled")
    for decay in (0.0, 0.5):
        live.switch("optimizer.weight_decay", decay)
        groups = live.network.objects.optimizer.param_groups
        assert [group["weight_decay"] for group in groups] == [0.0, decay]


def test_functions_of_torch_are_the_losses_that_they_compute():
    assert told(side(loss=nn.functional.cross_entropy), side())[0] == []


def test_two_functions_of_the_users_own_are_not_said_to_be_the_same():
    losses = [
        lambda answer, target, s=s: nn.functional.cross_entropy(answer, target, label_smoothing=s) for s in (0, 1)
    ]
    names, lines = told(side(loss=losses[0]), side(loss=losses[1]))
    assert names == []
    assert "Not compared, since neither side tells: the loss' reduction, the label smoothing" in lines
    assert "Not known whether another setting differs: " in lines


def test_a_schedule_that_ends_before_the_training_is_said():
    short = side(scheduler=lambda given: schedules.OneCycleLR(given, 0.1, total_steps=2))
    with pytest.raises(ModelError, match="The schedule OneCycleLR ends before the training: Tried to step"):
        told(short, short)


def test_an_optimizer_that_computes_the_loss_itself_is_refused():
    with pytest.raises(ModelError, match="LBFGS of torch computes the loss several times"):
        told(side(lambda network: torch.optim.LBFGS(network.parameters())), side())


def test_groups_that_spare_another_tensor_of_the_same_size_are_told():
    def decaying(place):
        def optimizer(network):
            ours = [network[place].bias]
            others = [p for p in network.parameters() if p is not ours[0]]
            return torch.optim.AdamW([{"params": ours, "weight_decay": 0.5}, {"params": others, "weight_decay": 0.0}])

        def make():
            network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3))
            return network, optimizer(network), nn.CrossEntropyLoss()

        return make

    names, lines = told(decaying(0), decaying(2))
    assert names == ["optimizer.varied"]
    assert "(share of the learning rate and weight decay of 0.bias: 1 and 0.5, 2.bias: 1 and 0)" in lines
