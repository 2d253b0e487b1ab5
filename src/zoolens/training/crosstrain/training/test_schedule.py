"""Learning rates by step, beside those of the frameworks' own schedules."""

import numpy as np
import pytest
from pydantic import ValidationError

from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.schedule import learning_rates, schedule_semantics
from zoolens.training.crosstrain.training.trial_runner import apply
from zoolens.training.pairs.semantics import Semantics

PER = 5  # steps in an epoch
HABITS = Semantics(schedule_unit="step", warmup_start=0.0, momentum_rate="past")


def recipe(trained=6, **schedule):
    return Recipe(architecture="mlp", learning_rate=0.4, batch_size=8, epochs=trained, schedule=schedule)


def rates(told, unit="step", start=0.0):
    return learning_rates(told, Semantics(schedule_unit=unit, warmup_start=start), PER)


def test_a_rate_that_nothing_changes_is_the_recipe_s():
    assert rates(recipe()).tolist() == [0.4] * 6 * PER


def test_a_cosine_and_its_warm_up_by_hand():
    found = rates(recipe(name="cosine", warmup=2, final=0.1), start=0.5)
    assert found[:3] == pytest.approx([0.2, 0.22, 0.24])
    assert found[2 * PER] == 0.4
    assert found[4 * PER] == pytest.approx(0.4 * 0.55)  # half of the four epochs that are left
    assert found[-1] == pytest.approx(0.4 * (0.1 + 0.9 * (1 + np.cos(np.pi * 19 / 20)) / 2))


def test_steps_begin_with_an_epoch_in_either_unit():
    told = recipe(name="step", every=2, factor=0.5)
    expected = np.repeat([0.4, 0.2, 0.1], 2 * PER)
    for unit in ("step", "epoch"):
        np.testing.assert_allclose(rates(told, unit), expected)


def test_an_end_of_its_own_holds_however_few_epochs_are_trained():
    told = {"name": "cosine", "epochs": 6}
    np.testing.assert_array_equal(rates(recipe(trained=2, **told)), rates(recipe(trained=6, **told))[: 2 * PER])
    assert rates(recipe(trained=8, **told))[6 * PER :].tolist() == [0.0] * 2 * PER


def test_once_an_epoch_is_torchs_schedulers():
    torch = pytest.importorskip("torch")
    from zoolens.training.crosstrain.training.trainers.torch_schedule import habits

    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    schedulers = torch.optim.lr_scheduler
    parts = [schedulers.LinearLR(optimizer, total_iters=2), schedulers.CosineAnnealingLR(optimizer, T_max=4)]
    whole = schedulers.SequentialLR(optimizer, parts, milestones=[2])
    theirs = []
    for _ in range(6):
        theirs += [optimizer.param_groups[0]["lr"]] * PER
        optimizer.step()
        whole.step()
    told = recipe(name="cosine", warmup=2)
    decided = schedule_semantics(told, Semantics(), habits())
    assert (decided.schedule_unit, decided.warmup_start) == ("epoch", pytest.approx(1 / 3))
    np.testing.assert_allclose(learning_rates(told, decided, PER), theirs, rtol=1e-12)


def check_keras(keras):
    """Called in a process that has Keras: at every step its own schedules give the table."""
    schedules, numbers = keras.optimizers.schedules, range(6 * PER)
    cosine = schedules.CosineDecay(0.0, 4 * PER, warmup_target=0.4, warmup_steps=2 * PER)
    found = rates(recipe(name="cosine", warmup=2))
    np.testing.assert_allclose([float(cosine(number)) for number in numbers], found, rtol=1e-5, atol=1e-7)
    stairs = schedules.ExponentialDecay(0.4, 2 * PER, 0.5, staircase=True)
    found = rates(recipe(name="step", every=2, factor=0.5))
    np.testing.assert_allclose([float(stairs(number)) for number in numbers], found, rtol=1e-5)


def test_semantics_are_told_only_where_they_make_a_difference():
    def decided(momentum=0.0, **schedule):
        told = apply(recipe(**schedule), {"optimizer.name": "sgd", "optimizer.momentum": momentum})
        return schedule_semantics(told, Semantics(), HABITS)

    assert decided(momentum=0.9) == Semantics()
    assert decided(name="step", every=2) == Semantics()
    assert decided(0.9, name="step", every=2) == Semantics(momentum_rate="past")
    assert decided(name="cosine") == Semantics(schedule_unit="step")
    assert decided(warmup=1) == Semantics(schedule_unit="step", warmup_start=0.0)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({"name": "step"}, "every is needed by the schedule step"),
        ({"name": "cosine", "every": 2}, "every is needed by the schedule step, and belongs to no other"),
        ({"name": "cosine", "factor": 0.5}, "cosine has no factor"),
        ({"name": "step", "every": 1, "final": 0.5}, "step has no final"),
        ({"warmup": 6}, "warmup takes all epochs"),
        ({"name": "cosine", "warmup": 3, "epochs": 3}, "warmup takes all epochs"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(schedule, words):
    with pytest.raises(ValidationError, match=words):
        recipe(**schedule)


def test_a_hyperparameter_leads_into_a_schedule_that_was_not_there():
    assert apply(recipe(), {"schedule.warmup": 2}).schedule.warmup == 2
