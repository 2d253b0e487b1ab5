"""Two trainings of torch in lockstep: what is proved, what stays unexplained, and that all is as before afterwards."""

from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.lockstep.lockstep import lockstep
from zoolens.training.pairs.lockstep.lockstep_words import lockstep_data, lockstep_lines

torch = pytest.importorskip("torch")
nn = torch.nn


def batches(count=2):
    generator = np.random.default_rng(0)
    drawn = generator.standard_normal
    return [TrainingBatch((drawn((8, 2, 4, 4)).astype(np.float32),), generator.integers(0, 3, 8)) for _ in range(count)]


def side(loss=None, keeps=0.1, drop=0.0, **options):
    """A function that a user would write; `keeps` is torch's momentum of norms."""

    def made():
        net = nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, momentum=keeps), nn.ReLU(), nn.Flatten(), nn.Dropout(drop),
            nn.Linear(12, 3),
        )  # fmt: skip
        optimizer = torch.optim.SGD(net.parameters(), **{"lr": 0.1, **options})
        return net, optimizer, loss or nn.CrossEntropyLoss()

    return made


def test_equal_trainings_do_not_depart():
    found = lockstep(side(drop=0.5), side(drop=0.5), ["2x4x4"], batches(), steps=(1, 2))
    assert found.agree
    assert found.without_dropout
    assert found.layers == 3
    assert "They train alike" in "\n".join(lockstep_lines(found))


def test_every_independent_cause_is_proved_in_the_order_in_which_it_shows():
    a, b = side(), side(nn.CrossEntropyLoss(reduction="sum"), keeps=0.5, momentum=0.9)
    found = lockstep(a, b, ["2x4x4"], batches(), steps=(1, 2))
    named = [(cause.departure.step, cause.departure.kind, cause.differences[0].name) for cause in found.causes]
    assert named == [
        (1, "statistic", "norm.kept"),
        (1, "loss", "loss.reduction"),
        (2, "tensor", "optimizer.momentum"),
    ]
    assert all(cause.proved for cause in found.causes)
    assert lockstep_data(found)["agree"] is False
    assert "Proved" in "\n".join(lockstep_lines(found))


def test_what_cannot_be_switched_is_named_with_its_evidence():
    def doubled(answers, targets):
        return 2 * nn.functional.cross_entropy(answers, targets)

    found = lockstep(side(), side(doubled), ["2x4x4"], batches(1), steps=(1,))
    lines = "\n".join(lockstep_lines(found))
    assert not found.causes[0].proved
    assert "the loss is CrossEntropyLoss in A and doubled in B" in lines
    assert "In B it is 2 times what it is in A" in lines


def test_objects_of_the_user_have_their_weights_and_settings_again():
    a, b = side()(), side(momentum=0.9, lr=0.01)()
    before = {name: tensor.clone() for name, tensor in b[0].state_dict().items() if "num_batches" not in name}
    found = lockstep(a, b, ["2x4x4"], batches(1), steps=(1,))
    assert [one.name for one in found.causes[0].differences] == ["optimizer.learning_rate"]
    assert (b[1].param_groups[0]["lr"], b[1].param_groups[0]["momentum"]) == (0.01, 0.9)
    assert all(torch.equal(b[0].state_dict()[name], tensor) for name, tensor in before.items())


def strided(before, rule=None, **conv):
    """A convolution with a stride, and what stands before it; `rule`: of the optimizer."""

    def made():
        net = nn.Sequential(
            *before, nn.Conv2d(2, 3, 3, stride=2, **conv), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3, 3)
        )
        return net, (rule or torch.optim.SGD)(net.parameters(), lr=0.01), nn.CrossEntropyLoss()

    return made


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (([], {"padding": 1}), ([nn.ZeroPad2d((0, 1, 0, 1))], {})),
        (([], {"padding": 1}), ([], {"padding": 1, "padding_mode": "reflect"})),
        (([], {"padding": 1}), ([nn.ReplicationPad2d(1)], {})),
    ],
)
def test_another_padding_is_proved_wherever_the_code_pads(a, b, turned):
    pair = (b, a) if turned else (a, b)
    sides = [strided(before, **conv) for before, conv in pair]
    found = lockstep(*sides, ["2x4x4"], batches(), steps=(1, 2))
    assert [(cause.departure.kind, cause.differences[0].name) for cause in found.causes] == [("activation", "padding")]
    assert found.causes[0].proved
    assert found.causes[0].then is None


def test_another_rule_is_proved_with_its_constants_and_live_objects_have_their_own_again():
    a, b = strided([], torch.optim.Adam, padding=1), strided([], torch.optim.RMSprop, padding=1)()
    own = b[1].param_groups[0]["alpha"]
    found = lockstep(a, b, ["2x4x4"], batches(), steps=(1, 2))
    assert [one.name for cause in found.causes for one in cause.differences] == ["optimizer.rule"]
    assert found.causes[0].proved
    assert "the optimizer is adam (learning rate 0.01, beta1 0.9, " in "\n".join(lockstep_lines(found))
    assert type(b[1]).__name__ == "RMSprop"
    assert b[1].param_groups[0]["alpha"] == own


def test_more_steps_than_batches_are_refused():
    with pytest.raises(ZoolensError, match="the data have 1 batches"):
        lockstep(side(), side(), ["2x4x4"], batches(1), steps=(1, 2))


def dense(loss=None, **options):
    def made():
        net = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
        return net, torch.optim.SGD(net.parameters(), **{"lr": 0.1, **options}), loss or nn.CrossEntropyLoss()

    return made


def test_a_schedule_that_counts_epochs_goes_on_after_an_epoch():
    """It also did not, where floors were measured: a run in float64 began where the schedule had ended."""

    def falling():
        net, optimizer, loss = dense()()
        return net, optimizer, loss, torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)

    given = [replace(batch, ends_epoch=number == 1) for number, batch in enumerate(batches(4))]
    found = lockstep(falling, dense(), ["2x4x4"], given, steps=(1, 4))
    assert [one.name for one in found.causes[0].differences] == ["schedule.rates"]
    assert found.causes[0].proved


def test_numbers_that_are_not_finite_on_both_sides_are_said():
    found = lockstep(dense(lr=1e38), dense(lr=1e38), ["2x4x4"], batches(3), steps=(1, 3))
    assert found.lost == 3
    assert "The loss or a tensor of A is not finite at step 3: from there" in "\n".join(lockstep_lines(found))


def test_a_row_of_an_embedding_that_is_not_trained_is_a_suspect():
    def made(padding):
        net = nn.Sequential(nn.Embedding(5, 4, padding_idx=padding), nn.Flatten(), nn.Linear(12, 3))
        return net, torch.optim.SGD(net.parameters(), lr=0.1), nn.CrossEntropyLoss()

    given = [TrainingBatch((np.arange(24).reshape(8, 3) % 5,), np.arange(8) % 3)]
    found = lockstep(lambda: made(0), lambda: made(None), ["int:3"], given, steps=(1,))
    assert "the row of an embedding that is not trained is 0 in A and none in B" in "\n".join(lockstep_lines(found))


def test_weights_that_hardly_move_do_not_hide_another_gradient():
    a, b = dense(lr=1e-9), dense(nn.CrossEntropyLoss(reduction="sum"), lr=1e-9)
    found = lockstep(a, b, ["2x4x4"], batches(1), steps=(1,))
    assert [one.name for one in found.causes[0].differences] == ["loss.reduction"]


@pytest.mark.parametrize(
    ("drops", "words"),
    [
        (lambda x, on: nn.functional.dropout(x, 0.5, on), "Code of the network calls dropout as a function"),
        (lambda x, on: x * (torch.rand_like(x) > 0.5) if on else x, "another one under another seed"),
    ],
)
def test_a_network_that_draws_numbers_by_itself_is_refused(drops, words):
    class Dropping(nn.Linear):
        def forward(self, x):
            return super().forward(drops(x.flatten(1), self.training))

    def made():
        net = Dropping(32, 3)
        return net, torch.optim.SGD(net.parameters(), lr=0.1), nn.CrossEntropyLoss()

    with pytest.raises(ZoolensError, match=words):
        lockstep(made, made, ["2x4x4"], batches(1), steps=(1,))


def test_what_no_tensor_shows_is_put_back_between_runs():
    """Counters of norms that keep the mean of all steps, gradients of what no optimizer has, weights of a loss."""

    def made(momentum=None):
        def make():
            net = nn.Sequential(
                nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, momentum=momentum), nn.Flatten(), nn.Linear(12, 3)
            )
            optimizer = torch.optim.SGD(net[3].parameters(), lr=0.1)
            loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))
            return {"network": net, "optimizer": optimizer, "loss": loss, "clip_norm": 0.1}

        return make

    assert lockstep(made(), made(), ["2x4x4"], batches(), steps=(1, 2)).agree
    found = lockstep(made(), made(0.1), ["2x4x4"], batches(), steps=(1, 2))
    assert [one.name for cause in found.causes for one in cause.differences if cause.proved] == ["norm.kept"]
    assert "as much as makes the mean of all steps in A and 0.9 in B" in "\n".join(lockstep_lines(found))
