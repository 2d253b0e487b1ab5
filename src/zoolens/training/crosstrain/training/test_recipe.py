"""Recipes keep their keys, and settings that would be ignored are refused."""

import json

import pytest
from pydantic import ValidationError

from zoolens.training.crosstrain.training.recipe import FEATURES, Optimizer, Recipe
from zoolens.training.crosstrain.training.trial_runner import contradicted
from zoolens.training.pairs.semantics import Semantics

PLAIN = {"architecture": "mlp", "learning_rate": 0.1, "batch_size": 5, "epochs": 4}


def test_recipes_of_before_keep_their_keys_and_are_written_as_they_were():
    """Fingerprints of the version that had sgd, adam and cross-entropy alone: stored studies are found by them."""
    recipe = Recipe(**PLAIN)
    assert recipe.fingerprint == "bb518de2e33d9d0a05660c9e57e5ba0b1193862335f2a91e77fff3243eaae9da"
    written = {**PLAIN, "architecture": "convnorm", "mode": "library", "semantics": Semantics(padding="same")}
    other = Recipe(**written, optimizer=Optimizer(name="sgd", momentum=0.9, weight_decay=0.1))
    assert other.fingerprint == "4727f6842977f427402dade57460d623efedf47a7d7c40a2543589cba8d64576"
    optimizer = {"name", "beta1", "beta2", "epsilon", "momentum", "weight_decay"}
    assert json.loads(recipe.model_dump_json())["optimizer"].keys() == optimizer
    assert {"schedule", "label_smoothing"}.isdisjoint(recipe.model_dump())
    assert list(recipe.wanted.model_dump())[-2:] == ["adam_rule", "adam_epsilon"]
    assert recipe.features == frozenset()


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": {"name": "rmsprop", "rho": 0.8, "centered": True}},
        {"optimizer": {"name": "adagrad", "initial_accumulator": 0.0}},
        {"optimizer": {"name": "sgd", "momentum": 0.9, "nesterov": True}},
        {"loss": "binary_cross_entropy", "label_smoothing": 0.1},
        {"schedule": {"name": "cosine", "warmup": 1}},
    ],
)
def test_what_is_new_is_written_and_read_again_and_must_be_known(settings):
    recipe = Recipe(**PLAIN, **settings)
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe
    assert recipe.fingerprint != Recipe(**PLAIN).fingerprint
    assert recipe.features
    assert recipe.features <= FEATURES


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        ({"name": "adam", "nesterov": True}, "adam has no nesterov"),
        ({"name": "sgd", "nesterov": True}, "needs a momentum"),
        ({"name": "sgd", "rho": 0.9}, "sgd has no rho"),
        ({"name": "adagrad", "momentum": 0.9}, "adagrad has no momentum"),
        ({"name": "rmsprop", "initial_accumulator": 0.1}, "rmsprop has no initial_accumulator"),
        ({"name": "lion", "epsilon": 1e-8}, "lion has no epsilon"),
        ({"name": "adamw"}, "adamw needs a weight_decay"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(optimizer, words):
    with pytest.raises(ValidationError, match=words):
        Optimizer(**optimizer)


def test_lion_has_betas_of_its_own():
    assert Optimizer(name="lion").beta2 == 0.99
    assert Optimizer(name="lion", beta2=0.9).beta2 == 0.9


def test_adamw_and_lion_are_decoupled_and_the_others_coupled_where_all_are_told_the_same():
    kinds = {
        name: Recipe(**PLAIN, optimizer=Optimizer(name=name, weight_decay=0.1)).wanted.weight_decay
        for name in ("sgd", "adam", "adamw", "rmsprop", "adagrad", "lion")
    }
    assert {name for name, kind in kinds.items() if kind == "decoupled"} == {"adamw", "lion"}


def test_a_constant_of_the_recipe_goes_before_the_semantics():
    recipe = Recipe(**PLAIN, optimizer=Optimizer(name="rmsprop", rho=0.8, epsilon=1e-3))
    read = Semantics(root_epsilon=1e-3, rmsprop_rho=0.8, root_rule="outside")
    assert contradicted(recipe, recipe.wanted, Semantics(), read) == ()
    assert contradicted(recipe, recipe.wanted, Semantics(), Semantics(root_rule="under")) == ("root_rule",)
    switched = Semantics(rmsprop_rho=0.7)
    assert contradicted(recipe, switched.over(recipe.wanted), switched, read) == ("rmsprop_rho",)
