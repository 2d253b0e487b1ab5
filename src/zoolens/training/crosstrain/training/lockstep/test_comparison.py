from dataclasses import replace

import pytest

from zoolens.base.errors import ModelError, UnknownName
from zoolens.base.numerics.deviation import Deviation
from zoolens.training.crosstrain.training.lockstep import lockstep
from zoolens.training.crosstrain.training.lockstep.comparison import coverage
from zoolens.training.crosstrain.training.lockstep.recipe_lockstep_words import lines, sentence
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Optimizer
from zoolens.training.pairs.lockstep.quantities import ComparedQuantity
from zoolens.training.pairs.semantics import Semantics


def run(recipe, workers, a="torch", b="torch", steps=(1,), **switched):
    overrides = {"b": Semantics(**switched)} if switched else {}
    return lockstep(recipe, a, b, steps=steps, workers=workers, overrides=overrides, manner=Manner(threads=1))


def place(found):
    row = found.first.departure
    return row.step, row.kind, row.name


@pytest.mark.parametrize(
    ("semantic", "value", "expected"),
    [
        ("norm_momentum", 0.99, (1, "statistic", "conv1_norm.mean")),
        ("norm_epsilon", 1e-3, (1, "activation", "conv1_norm")),
        ("adam_rule", "inside", (1, "tensor", "conv1.kernel")),
        ("adam_epsilon", 1e-5, (1, "tensor", "conv1.kernel")),
        ("padding", "same", (1, "activation", "conv2")),
    ],
)
def test_the_first_difference_is_named_where_it_arises_and_its_cause_proved(recipe, workers, semantic, value, expected):
    found = run(recipe(), workers, **{semantic: value})
    assert place(found) == expected
    assert found.first.sides == ("torch (b)",)
    assert found.first.names == (semantic,)
    assert found.first.proved
    assert not any(row.verdict(0) == "beyond" for row in found.rows)
    if semantic.startswith("adam"):
        assert not any(row.beyond for row in found.rows if row.kind in ("activation", "gradient", "first", "second"))


@pytest.mark.parametrize(
    ("architecture", "semantic", "value", "name"),
    [("convnorm", "conv_bias", True, "conv1.bias"), ("mlp", "dropout", 0.5, "dropout1")],
)
def test_what_only_one_side_has(recipe, workers, architecture, semantic, value, name):
    found = run(recipe(architecture=architecture), workers, **{semantic: value})
    assert place(found) == (1, "definition", name)
    assert [off.why for off in found.first.departure.sides] == ["value", "extra"]
    assert (found.first.names, found.first.proved) == ((semantic,), True)
    assert f"definition of {name}: torch (b) alone has it" in lines(found)[1]


def test_a_bias_that_one_side_lacks(recipe, workers):
    found = run(recipe(semantics=Semantics(conv_bias=True)), workers, conv_bias=False)
    assert place(found) == (1, "definition", "conv1.bias")
    assert [off.why for off in found.first.departure.sides] == ["value", "missing"]


def test_every_cause_of_another_loss_and_update_is_named(recipe, workers):
    told = recipe(architecture="mlp", optimizer=Optimizer(name="rmsprop"), label_smoothing=0.1)
    switched = {"smoothing": "others", "reduction": "sum", "rmsprop_rho": 0.99, "root_rule": "under"}
    found = run(told, workers, **switched)
    assert [(cause.departure.kind, cause.names, cause.proved) for cause in found.causes] == [
        ("loss", ("smoothing",), True),
        ("gradient", ("reduction",), True),
        ("second", ("rmsprop_rho",), True),
        ("tensor", ("root_rule",), True),
    ]


@pytest.mark.parametrize(
    ("semantic", "value", "expected"),
    [("schedule_unit", "epoch", (2, "tensor")), ("warmup_start", 0.5, (1, "tensor")),
     ("momentum_rate", "past", (1, "first"))],
)  # fmt: skip
def test_a_schedule_that_means_something_else_is_named(recipe, workers, semantic, value, expected):
    """Three steps make an epoch; the cosine is that of the recipe's eight epochs, though few steps are taken."""
    told = recipe(
        architecture="mlp", epochs=8, optimizer=Optimizer(name="sgd", momentum=0.9),
        schedule={"name": "cosine", "warmup": 1}, semantics=Semantics(warmup_start=0.25),
    )  # fmt: skip
    found = run(told, workers, steps=(1, 2), **{semantic: value})
    assert place(found)[:2] == expected
    assert (found.first.names, found.first.proved) == ((semantic,), True)
    assert found.recipe.schedule.epochs == 8


def test_equal_sides_stay_within_a_floor_that_grows(recipe, workers):
    found = run(recipe(), workers, steps=(9, 1, 3, 3))
    assert found.first is None
    assert "Nothing exceeds the noise floor." in lines(found)
    assert found.compared == (1, 3, 9)  # an epoch has three steps: more of them are trained than the recipe has
    floors = [next(row.floor for row in found.rows if (row.step, row.name) == (step, "logits")) for step in (1, 9)]
    assert 0 < 3 * floors[0] < floors[1] < 1
    assert all(row.floor > 0 for row in found.rows)


def test_biases_before_norms_have_gradients_of_noise_alone_and_accuse_nobody(recipe, workers):
    """Adam makes whole steps of them: only runs in float32 can tell how far."""
    found = run(recipe(semantics=Semantics(conv_bias=True)), workers, steps=(1, 2), norm_momentum=0.5)
    assert {row.kind for row in found.rows if row.beyond} == {"statistic"}


def test_a_difference_that_began_before_the_first_captured_step(recipe, workers):
    found = run(recipe(optimizer=Optimizer(name="adam")), workers, steps=(3,), adam_epsilon=1e-2)
    assert place(found)[:2] == (3, "activation")
    assert (found.first.names, found.first.proved) == (("adam_epsilon",), True)


@pytest.mark.slow
def test_tensorflow_trains_as_the_reference_does(recipe, workers):
    found = run(recipe(architecture="lenet"), workers, b="tensorflow", steps=(1, 2, 5))
    assert found.first is None, lines(found)
    assert found.sides[1].versions["tensorflow"]


@pytest.mark.slow
def test_libraries_own_defaults_part_at_the_first_norm(recipe, workers):
    found = run(recipe(mode="library"), workers, b="tensorflow", steps=(1, 2))
    assert place(found) == (1, "activation", "conv1_norm")
    assert found.first.sides == ("tensorflow",)
    assert (found.first.names, found.first.proved) == (("norm_epsilon",), True)
    later = {row.name for row in found.rows if row.step == 1 and row.beyond}
    assert {"conv1_norm.mean", "conv2"} <= later


@pytest.mark.parametrize("framework", ["tensorflow", pytest.param("jax", marks=pytest.mark.slow)])
def test_aligned_norms_still_count_variance_otherwise(recipe, workers, framework):
    found = run(recipe(), workers, b=framework)
    assert place(found) == (1, "statistic", "conv1_norm.variance")
    assert found.first.proved
    assert "divides by n" in sentence(found.first)
    others = {row.name.partition(".")[2] for row in found.rows if row.beyond}
    assert others == {"variance"}


@pytest.mark.slow
def test_another_precision_than_the_floors_is_named(recipe, workers):
    found = run(recipe(precision="bfloat16"), workers)
    assert place(found) == (1, "activation", "conv1")
    assert found.first.sides == ("torch (a)", "torch (b)")
    assert "bfloat16" in sentence(found.first)


def test_a_side_that_leaves_the_range_of_numbers(recipe, workers):
    found = run(recipe(optimizer=Optimizer(name="sgd"), learning_rate=1e30), workers, steps=(1, 2, 300))
    assert found.sides[0].status == "non-finite"
    assert 1 in found.compared
    assert 300 not in found.compared
    assert found.first is None
    assert "torch (a) ended early: The loss of step" in lines(found)[1]


@pytest.mark.parametrize(
    ("changes", "switched", "steps", "message"),
    [
        ({"architecture": "vgg16", "mode": "library"}, {}, (1,), "no layers in common"),
        ({"architecture": "mlp", "semantics": Semantics(dropout=0.5)}, {}, (1,), "With dropout"),
        ({}, {"init": "glorot_uniform"}, (1,), "same weights"),
        ({}, {}, (), "counted from 1"),
        ({}, {}, (0, 1), "counted from 1"),
        ({}, {}, (10**9,), "counted from 1"),
        ({}, {}, range(1, 200), "counted from 1"),
    ],
)
def test_what_cannot_be_compared(recipe, workers, changes, switched, steps, message):
    with pytest.raises(ModelError, match=message):
        run(recipe(**changes), workers, steps=steps, **switched)


def test_steps_in_which_nothing_can_be_told_are_no_agreement():
    """Where rounding alone moves even the loss by its size, a gradient that is lost in it accuses its tensor."""
    floors = {"loss": 1.0, "gradient": 1.0, "tensor": 1.0}
    rows = [ComparedQuantity(1, kind, "w", (Deviation(0.5),) * 2, floor) for kind, floor in floors.items()]
    found = coverage(rows, (1,), (1,))
    assert not found.whole
    assert "tensor w, which rounding alone moves by its size" in found.text
    rows[0] = replace(rows[0], name="", floor=1e-6)
    assert coverage(rows, (1,), (1,)).whole  # a bias before a norm


def test_an_unknown_framework(recipe, workers):
    with pytest.raises(UnknownName, match="torch"):
        run(recipe(), workers, b="torhc")


DECAYING = Optimizer(weight_decay=0.1), Optimizer(name="sgd", momentum=0.9, weight_decay=0.1)


def causes(found, label):
    return [one.names for one in found.causes if one.sides == (label,)]


def test_every_independent_cause_is_listed(recipe, workers):
    found = run(recipe(), workers, norm_epsilon=1e-3, norm_momentum=0.5, adam_rule="inside", padding="same")
    assert place(found) == (1, "activation", "conv1_norm")
    assert found.first.names == ("norm_epsilon",)
    assert sorted(causes(found, "torch (b)")) == [("adam_rule",), ("norm_epsilon",), ("norm_momentum",), ("padding",)]
    assert all(one.proved for one in found.causes)
    said = "\n".join(lines(found))
    assert "All causes, each beside a reference that has taken over those of its side before it:" in said
    assert "adam_rule is outside in the reference and inside in torch (b); with that, the reference agrees" in said


@pytest.mark.parametrize("optimizer", DECAYING, ids=lambda one: one.name)
def test_weight_decay_may_be_a_part_of_the_gradient_or_not(recipe, workers, optimizer):
    found = run(recipe(architecture="mlp", optimizer=optimizer), workers, weight_decay="decoupled")
    assert (causes(found, "torch (b)"), found.first.proved) == ([("weight_decay",)], True)
    again = run(recipe(architecture="mlp", optimizer=optimizer), workers, weight_decay="coupled")
    assert again.first is None


@pytest.mark.parametrize(
    "optimizer", [DECAYING[0], pytest.param(DECAYING[1], marks=pytest.mark.slow)], ids=lambda one: one.name
)
def test_keras_own_weight_decay_is_decoupled_as_its_users_get_it(recipe, workers, optimizer):
    told = recipe(architecture="mlp", mode="library", optimizer=optimizer)
    found = run(told, workers, b="tensorflow")
    assert (found.sides[0].semantics.weight_decay, found.sides[1].semantics.weight_decay) == ("coupled", "decoupled")
    assert causes(found, "tensorflow")[0] == ("weight_decay",)
    assert all(one.proved for one in found.causes if one.names)
    assert all(one.proved or "single precision" in sentence(one) for one in found.causes)
    aligned = run(recipe(architecture="mlp", optimizer=optimizer), workers, b="tensorflow")
    assert aligned.first is None
