import pytest

from zoolens.training.crosstrain.study.explanation.contest import Arm, Factor, contest
from zoolens.training.pairs.explanation.design import FRAMEWORK
from zoolens.training.pairs.semantics import Semantics

TORCH = Semantics(norm_momentum=0.9, padding="symmetric", adam_rule="outside", dropout=0.0)
KERAS = Semantics(norm_momentum=0.99, padding="same", adam_rule="inside", dropout=0.0, init="glorot_uniform")


def test_players_are_what_differs_and_the_framework():
    game = contest(Arm("torch"), TORCH, Arm("jax"), KERAS)
    assert game.players == ("norm_momentum", "padding", "adam_rule", FRAMEWORK)
    assert game.unnamed == (Factor("init", None, "glorot_uniform"),)
    assert game.everyone == 0b1111


def test_the_corners_are_the_sides_as_they_are():
    game = contest(Arm("torch"), TORCH, Arm("jax", Semantics(dropout=0.0)), KERAS)
    assert game.arm(0) == Arm("torch")
    assert game.arm(game.everyone) == Arm("jax", Semantics(dropout=0.0))


def test_cells_are_trained_one_way_and_the_other():
    game = contest(Arm("torch"), TORCH, Arm("jax", Semantics(dropout=0.0)), KERAS)
    assert game.arm(0b0001) == Arm("torch", Semantics(norm_momentum=0.99))
    assert game.arm(0b0110) == Arm("torch", Semantics(padding="same", adam_rule="inside"))
    assert game.arm(0b1110) == Arm("jax", Semantics(norm_momentum=0.9, dropout=0.0))
    assert game.arm(0b1000) == Arm(
        "jax", Semantics(norm_momentum=0.9, padding="symmetric", adam_rule="outside", dropout=0.0)
    )


def test_one_framework_told_two_ways():
    a, b = Arm("torch", Semantics(norm_momentum=0.99)), Arm("torch", Semantics(padding="same"))
    game = contest(a, TORCH.model_copy(update={"norm_momentum": 0.99}), b, TORCH.model_copy(update={"padding": "same"}))
    assert game.players == ("norm_momentum", "padding")
    assert game.arm(0) == a
    assert game.arm(0b11) == b
    assert game.arm(0b01) == Arm("torch", Semantics(norm_momentum=0.9))
    assert game.arm(0b10) == Arm("torch", Semantics(norm_momentum=0.99, padding="same"))


def test_what_has_no_name_makes_the_framework_a_player():
    b = Arm("torch", Semantics(init="glorot_uniform"))
    game = contest(Arm("torch"), TORCH, b, TORCH.model_copy(update={"init": "glorot_uniform"}))
    assert game.players == (FRAMEWORK,)
    assert (game.arm(0), game.arm(1)) == (Arm("torch"), b)


@pytest.mark.parametrize(("side", "value"), [("a", 0.99), ("b", 0.9)])
def test_a_side_is_given_the_other_ones_values(side, value):
    game = contest(Arm("torch"), TORCH, Arm("jax"), KERAS)
    arm = getattr(game, side)
    assert game.fixed(arm, ["norm_momentum"]) == Arm(arm.framework, Semantics(norm_momentum=value))
