"""What an optimizer does, found by letting it update one number.

Adam with a constant gradient g has the corrected moments g and g², so its step is rate·g/(|g| + e): e, the size at
which epsilon acts beside the corrected root, follows from the step. Where epsilon is added to the uncorrected root,
e is 1/√(1 − beta2^t) times larger at step t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isclose
from typing import Final, Protocol

from zoolens.training.pairs.reading.side_facts import OptimizerFact

NAMES: Final = ("adam", "adamw", "sgd", "rmsprop", "adagrad", "lion")
STEPS: Final = (1, 10, 100, 1000)
_FEW_STEPS: Final = (1, 10)  # for AdamW, whose rule is Adam's or not by then
_TOLERANCE: Final = 1e-3
_DECAY: Final = 0.1
_MOMENTUM: Final = 0.9
OUTSIDE: Final = "added to the corrected root"
INSIDE: Final = "added to the uncorrected root, inside the bias correction"
BESIDE: Final = "added to the root"
UNDER: Final = "added under the root"
UNKNOWN: Final = "of a rule of its own"
NESTEROV: Final = "the gradient and the momentum that has it, once more"


class Stepper(Protocol):
    """One live optimizer over one number."""

    def step(self, value: float, gradient: float) -> float:
        """Set the number to `value`, update it once, and return it."""

    def set_rate(self, rate: float) -> None:
        """Change the learning rate from now on."""


Make = Callable[[str, Mapping[str, float]], Stepper]  # name and constants (common names) to a fresh optimizer


def measured(name: str, constants: Mapping[str, float | bool], make: Make) -> OptimizerFact:
    """`constants`: its defaults, under the names of recipes."""
    return OptimizerFact(
        name=name,
        constants=dict(constants),
        epsilon_acts=_acting(name, constants, make),
        weight_decay=weight_decay(name, float(constants["learning_rate"]), make),
        momentum=momentum(make, name) if name in ("sgd", "rmsprop") else None,
        epsilon=root_epsilon(name, constants, make) if name in ("rmsprop", "adagrad") else None,
        nesterov=nesterov(make) if name == "sgd" else None,
    )


def _acting(name: str, constants: Mapping[str, float | bool], make: Make) -> dict[int, float]:
    if name not in ("adam", "adamw"):
        return {}
    return epsilon_acts(constants, make(name, {}), STEPS if name == "adam" else _FEW_STEPS)


def epsilon_acts(
    constants: Mapping[str, float | bool], optimizer: Stepper, steps: tuple[int, ...] = STEPS
) -> dict[int, float]:
    """Measures, by step, the effective size of epsilon in units of its declared size."""
    rate, epsilon = float(constants["learning_rate"]), float(constants["epsilon"])
    by_step: dict[int, float] = {}
    for step in range(1, steps[-1] + 1):
        moved = -optimizer.step(0.0, epsilon)
        if step in steps:
            by_step[step] = float(f"{rate / moved - 1:.4g}")
    return by_step


def rule(fact: OptimizerFact) -> str:
    """Where epsilon sits, from how it acts."""
    beta = float(fact.constants["beta2"])
    if all(isclose(times, 1.0, rel_tol=0.01) for times in fact.epsilon_acts.values()):
        return OUTSIDE
    expected = {step: (1 - beta**step) ** -0.5 for step in fact.epsilon_acts}
    inside = all(isclose(times, expected[step], rel_tol=0.01) for step, times in fact.epsilon_acts.items())
    return INSIDE if inside else UNKNOWN


def root_epsilon(name: str, constants: Mapping[str, float | bool], make: Make) -> str:
    """Where RMSprop and Adagrad add epsilon, from the first step with one that is as large as the squared gradient."""
    gradient, epsilon = 0.1, 0.01
    empty = {"initial_accumulator": 0.0} if name == "adagrad" else {}
    moved = -make(name, {"epsilon": epsilon, **empty}).step(0.0, gradient)
    squares = gradient**2 * (1 - float(constants["rho"]) if name == "rmsprop" else 1)
    expected = {BESIDE: squares**0.5 + epsilon, UNDER: (squares + epsilon) ** 0.5}
    scaled = float(constants["learning_rate"]) * gradient
    return next((rule for rule, root in expected.items() if isclose(moved, scaled / root, rel_tol=0.01)), UNKNOWN)


def weight_decay(name: str, rate: float, make: Make) -> str:
    """Decoupled decay takes rate·decay·value at every step; as part of the gradient it passes through the moments."""
    more = {"momentum": _MOMENTUM} if name == "sgd" else {}
    optimizer = make(name, {"weight_decay": _DECAY, **more})
    moved = [1.0 - optimizer.step(1.0, 0.0) for _ in range(2)]
    if all(isclose(move, rate * _DECAY, rel_tol=_TOLERANCE) for move in moved):
        return "decoupled from the gradient"
    if all(isclose(move, _DECAY, rel_tol=_TOLERANCE) for move in moved):
        return "decoupled from the gradient and from the learning rate"
    return "added to the gradient"


def momentum(make: Make, name: str = "sgd") -> str:
    """One step with gradient 1, then the rate falls to a tenth and the gradient to 0: what is left is momentum."""
    optimizer = make(name, {"momentum": _MOMENTUM, "learning_rate": 1.0})
    first = -optimizer.step(0.0, 1.0)
    optimizer.set_rate(0.1)
    kept = -optimizer.step(0.0, 0.0) / first
    if isclose(kept, 0.1 * _MOMENTUM, rel_tol=_TOLERANCE):
        return "follows the new rate at once"
    return "keeps the old rate" if isclose(kept, _MOMENTUM, rel_tol=_TOLERANCE) else f"moves by {kept:.3g}"


def nesterov(make: Make) -> str:
    """What one gradient of 1 moves, and what it still moves in the step after it."""
    optimizer = make("sgd", {"momentum": _MOMENTUM, "learning_rate": 1.0, "nesterov": True})
    moved = [-optimizer.step(0.0, gradient) for gradient in (1.0, 0.0)]
    usual = (1 + _MOMENTUM, _MOMENTUM**2)
    if all(isclose(move, expected, rel_tol=_TOLERANCE) for move, expected in zip(moved, usual, strict=True)):
        return NESTEROV
    return f"{moved[0]:.3g} times the gradient, then {moved[1]:.3g} times"
