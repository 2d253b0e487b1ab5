"""Every optimizer of recipes against arithmetic: plain numpy says what some steps make of a value, and torch (here) and
Keras (in the processes of test_keras_building) must agree."""

import numpy as np
import pytest

from zoolens.training.crosstrain.training.recipe import Optimizer, Recipe
from zoolens.training.pairs.optimizers.optimizer_rules import torch_rule
from zoolens.training.pairs.semantics import Semantics

RATE = 0.05
VALUE = np.array([0.7, -0.3, 0.02, 1.5])
GRADIENTS = np.array([[0.4, -0.1, 1e-4, 0.0], [0.2, 0.3, -2e-4, 0.5], [-0.6, 0.1, 3e-4, 0.25]])
OUTSIDE, UNDER = Semantics(root_rule="outside"), Semantics(root_rule="under")
CURRENT, PAST = Semantics(momentum_rate="current"), Semantics(momentum_rate="past")
CHANGING = np.array([0.05, 0.02, 0.1])
DECAYS = [Semantics(weight_decay=kind) for kind in ("coupled", "decoupled", "independent")]
# An optimizer, and what of its semantics is switched.
CASES = {
    "sgd nesterov": ({"name": "sgd", "momentum": 0.9, "nesterov": True}, Semantics()),
    "sgd decoupled": ({"name": "sgd", "momentum": 0.9, "weight_decay": 0.1}, DECAYS[1]),
    "adam independent": ({"name": "adam", "epsilon": 1e-3, "weight_decay": 0.1}, DECAYS[2]),
    "adamw": ({"name": "adamw", "epsilon": 1e-3, "weight_decay": 0.1}, Semantics()),
    "adamw inside": ({"name": "adamw", "epsilon": 1e-3, "weight_decay": 0.1}, Semantics(adam_rule="inside")),
    "adamw coupled": ({"name": "adamw", "epsilon": 1e-3, "weight_decay": 0.1}, DECAYS[0]),
    "rmsprop outside": ({"name": "rmsprop", "epsilon": 1e-3}, OUTSIDE),
    "rmsprop under": ({"name": "rmsprop", "epsilon": 1e-3, "rho": 0.8}, UNDER),
    "rmsprop centred": (
        {"name": "rmsprop", "epsilon": 1e-3, "momentum": 0.5, "centered": True, "weight_decay": 0.1}, OUTSIDE
    ),
    "rmsprop centred under": (
        {"name": "rmsprop", "epsilon": 1e-3, "momentum": 0.5, "centered": True},
        Semantics(root_rule="under", rmsprop_rho=0.99),
    ),
    "adagrad outside": ({"name": "adagrad", "epsilon": 1e-3, "weight_decay": 0.1}, OUTSIDE.over(DECAYS[1])),
    "adagrad under": ({"name": "adagrad", "epsilon": 1e-3, "initial_accumulator": 0.1}, UNDER),
    "adagrad started": ({"name": "adagrad"}, Semantics(adagrad_start=0.2, root_epsilon=1e-2)),
    "sgd at changing rates": ({"name": "sgd", "momentum": 0.9, "weight_decay": 0.1}, CURRENT),
    "sgd of past rates": ({"name": "sgd", "momentum": 0.9, "weight_decay": 0.1}, PAST.over(DECAYS[2])),
    "nesterov at changing rates": ({"name": "sgd", "momentum": 0.9, "nesterov": True}, CURRENT),
    "nesterov of past rates": ({"name": "sgd", "momentum": 0.9, "nesterov": True}, PAST),
    "rmsprop at changing rates": ({"name": "rmsprop", "momentum": 0.5, "epsilon": 1e-3}, CURRENT.over(UNDER)),
    "rmsprop of past rates": ({"name": "rmsprop", "momentum": 0.5, "epsilon": 1e-3}, PAST),
    "rmsprop under, of past rates": ({"name": "rmsprop", "momentum": 0.5, "epsilon": 1e-3}, PAST.over(UNDER)),
    "adamw at changing rates": ({"name": "adamw", "epsilon": 1e-3, "weight_decay": 0.1}, Semantics()),
    "lion at changing rates": ({"name": "lion", "weight_decay": 0.1}, Semantics()),
    "lion": ({"name": "lion", "weight_decay": 0.1}, Semantics()),
    "lion coupled": ({"name": "lion", "weight_decay": 0.1}, DECAYS[0]),
}  # fmt: skip


def told(case):
    """A recipe, and all that its semantics say."""
    settings, switched = CASES[case]
    recipe = Recipe(
        architecture="mlp", learning_rate=RATE, batch_size=4, epochs=1, precision="float64", semantics=switched,
        optimizer=Optimizer(**settings),
    )  # fmt: skip
    return recipe, recipe.wanted


def rates_of(case):
    """Of each step, where they change."""
    return CHANGING if case.endswith("rates") else None


def by_hand(recipe, semantics, rates):
    """The value after each step, with the slots. A momentum of past rates is told in units of the recipe's rate."""
    optimizer, kind = recipe.optimizer, semantics.weight_decay
    epsilon = next((e for e in (optimizer.epsilon, semantics.root_epsilon) if e is not None), None)
    value, first, second, average = VALUE.copy(), np.zeros(4), np.zeros(4), np.zeros(4)
    if optimizer.name == "adagrad":
        start = optimizer.initial_accumulator
        second += semantics.adagrad_start if start is None else start
    rho = semantics.rmsprop_rho if optimizer.rho is None else optimizer.rho
    beta1, beta2, momentum, decay = optimizer.beta1, optimizer.beta2, optimizer.momentum, optimizer.weight_decay
    past = semantics.momentum_rate == "past" and rates is not None
    for step, gradient in enumerate(GRADIENTS, start=1):
        rate = RATE if rates is None else rates[step - 1]
        weight = rate / RATE if past else 1
        if kind == "coupled":
            gradient = gradient + decay * value
        elif decay:
            value = value * (1 - decay * (rate if kind == "decoupled" else rate / RATE))
        if optimizer.name == "sgd":
            first = momentum * first + weight * gradient
            direction = weight * gradient + momentum * first if optimizer.nesterov else first
        elif optimizer.name in ("adam", "adamw"):
            first, second = beta1 * first + (1 - beta1) * gradient, beta2 * second + (1 - beta2) * gradient**2
            mean, grown = first / (1 - beta1**step), 1 - beta2**step
            if semantics.adam_rule == "outside":
                direction = mean / (np.sqrt(second / grown) + epsilon)
            else:
                direction = mean * np.sqrt(grown) / (np.sqrt(second) + epsilon)
        elif optimizer.name == "lion":
            direction = np.sign(beta1 * first + (1 - beta1) * gradient)
            first = beta2 * first + (1 - beta2) * gradient
        else:
            second = second + gradient**2 if rho is None else rho * second + (1 - rho) * gradient**2
            squares = second
            if optimizer.centered:
                average = rho * average + (1 - rho) * gradient
                squares = second - average**2
            if semantics.root_rule == "outside":
                direction = gradient / (np.sqrt(squares) + epsilon)
            else:
                direction = gradient / np.sqrt(squares + epsilon)
            if momentum:
                direction = first = momentum * first + weight * direction
        value = value - (RATE if past and momentum else rate) * direction
        yield value, {"first": first, "second": second, "average": average}


def check(case, steps, *, tolerance=1e-12):
    """`steps`: value and slots of each step as a framework computed them."""
    for (value, slots), (computed, kept) in zip(by_hand(*told(case), rates_of(case)), steps, strict=True):
        np.testing.assert_allclose(computed, value, rtol=tolerance, atol=tolerance, err_msg=case)
        for name, slot in kept.items():
            np.testing.assert_allclose(slot, slots[name], rtol=tolerance, atol=tolerance, err_msg=f"{case}: {name}")


def updated_semantics(semantics, recipe):
    """What an optimizer can show of what was told: the recipe's own constants go before the semantics'."""
    names = {"adam": ["adam_rule", "adam_epsilon"], "rmsprop": ["root_rule", "root_epsilon", "rmsprop_rho"],
             "adagrad": ["root_rule", "root_epsilon", "adagrad_start"]}  # fmt: skip
    optimizer = recipe.optimizer
    own = {
        "adam_epsilon": optimizer.epsilon, "root_epsilon": optimizer.epsilon, "rmsprop_rho": optimizer.rho,
        "adagrad_start": optimizer.initial_accumulator,
    }  # fmt: skip
    shown = ["weight_decay", *names.get(optimizer.name.removesuffix("w"), [])]
    return Semantics(**{name: getattr(semantics, name) if own.get(name) is None else own[name] for name in shown})


@pytest.mark.parametrize(
    ("case", "captured"),
    [*((case, False) for case in CASES), *((case, True) for case in CASES if case.startswith(("rms", "adag")))],
)
def test_steps_in_torch_are_what_arithmetic_says(case, captured):
    """`captured`: as a CUDA graph needs them, where torch has no such optimizer of its own."""
    torch = pytest.importorskip("torch")
    from zoolens.training.crosstrain.training.trainers.torch_optimizers import (
        make_optimizer,
        optimizer_semantics,
        reset_state,
    )
    from zoolens.training.crosstrain.training.trainers.torch_schedule import RateTable
    from zoolens.training.pairs.optimizers.torch_slots import slots

    recipe, semantics = told(case)
    number = torch.nn.Parameter(torch.tensor(VALUE))
    optimizer = make_optimizer([number], recipe, semantics, captured=captured)
    assert optimizer_semantics(optimizer, recipe) == updated_semantics(semantics, recipe)

    rates = None if rates_of(case) is None else RateTable(optimizer, rates_of(case), on_device=captured)

    def steps():
        for gradient in GRADIENTS:
            number.grad = torch.tensor(gradient)
            optimizer.step()
            if rates is not None:
                rates.step()
            kept = {
                name.removesuffix("/x"): slot.numpy().copy() for name, slot in slots(optimizer, {"x": number}).items()
            }
            yield number.detach().numpy().copy(), kept

    tolerance = 1e-7 if captured and rates is not None else 1e-12  # rates on a device are in single precision
    check(case, steps(), tolerance=tolerance)
    if captured:  # a graph's warm-up is forgotten
        reset_state(optimizer)
        if rates is not None:
            rates.reset()
        number.data.copy_(torch.tensor(VALUE))
        check(case, steps(), tolerance=tolerance)


def test_what_a_live_optimizer_of_torch_does_is_read_from_it():
    torch = pytest.importorskip("torch")
    weights = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))]
    rule = torch_rule(torch.optim.RMSprop(weights, lr=0.1, momentum=0.9, centered=True))
    assert (rule.name, rule.known, rule.constants["rho"], rule.constants["centered"]) == ("rmsprop", True, 0.99, True)
    assert rule.semantics == Semantics(root_rule="outside", root_epsilon=1e-8, rmsprop_rho=0.99)
    grouped = torch_rule(torch.optim.AdamW([{"params": weights[:1]}, {"params": weights[1:], "weight_decay": 0.0}]))
    assert (grouped.semantics.weight_decay, grouped.varied) == ("decoupled", ("weight_decay",))

    class Clipping(torch.optim.SGD):
        decoupled = True

    strange = torch_rule(Clipping(weights, lr=0.1))
    assert (strange.name, strange.known, strange.semantics) == ("Clipping", False, Semantics())
    other = torch_rule(torch.optim.Adadelta(weights))
    assert (other.name, other.known) == ("Adadelta", False)
