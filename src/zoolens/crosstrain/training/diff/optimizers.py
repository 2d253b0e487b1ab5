"""What an optimizer does, found by letting it update one number.

Adam with a constant gradient g has the corrected moments g and g², so its step is rate·g/(|g| + e): e, the size at
which epsilon acts beside the corrected root, follows from the step. Where epsilon is added to the uncorrected root,
e is 1/√(1 − beta2^t) times larger at step t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isclose
from typing import Final, Protocol

from zoolens.crosstrain.training.diff.facts import OptimizerFact

NAMES: Final = ("adam", "sgd")
STEPS: Final = (1, 10, 100, 1000)
_TOLERANCE: Final = 1e-3
_DECAY: Final = 0.1
_MOMENTUM: Final = 0.9
OUTSIDE: Final = "added to the corrected root"
INSIDE: Final = "added to the uncorrected root, inside the bias correction"


class Stepper(Protocol):
    """One live optimizer over one number."""

    def step(self, value: float, gradient: float) -> float:
        """Set the number to `value`, update it once, and return it."""

    def set_rate(self, rate: float) -> None:
        """Change the learning rate from now on."""


Make = Callable[[str, Mapping[str, float]], Stepper]  # name and constants (common names) to a fresh optimizer


def measured(name: str, constants: Mapping[str, float | bool], make: Make) -> OptimizerFact:
    return OptimizerFact(
        name=name,
        constants=dict(constants),
        epsilon_acts=epsilon_acts(constants, make(name, {})) if "epsilon" in constants else {},
        weight_decay=weight_decay(name, float(constants["learning_rate"]), make),
        momentum=momentum(make) if name == "sgd" else None,
    )


def epsilon_acts(constants: Mapping[str, float | bool], optimizer: Stepper) -> dict[int, float]:
    """By step, the effective size of epsilon in units of its declared size."""
    rate, epsilon = float(constants["learning_rate"]), float(constants["epsilon"])
    found: dict[int, float] = {}
    for step in range(1, STEPS[-1] + 1):
        moved = -optimizer.step(0.0, epsilon)
        if step in STEPS:
            found[step] = float(f"{rate / moved - 1:.4g}")
    return found


def rule(fact: OptimizerFact) -> str:
    """Where epsilon sits, from how it acts."""
    beta = float(fact.constants["beta2"])
    if all(isclose(times, 1.0, rel_tol=0.01) for times in fact.epsilon_acts.values()):
        return OUTSIDE
    expected = {step: (1 - beta**step) ** -0.5 for step in fact.epsilon_acts}
    inside = all(isclose(times, expected[step], rel_tol=0.01) for step, times in fact.epsilon_acts.items())
    return INSIDE if inside else "of a rule of its own"


def weight_decay(name: str, rate: float, make: Make) -> str:
    """Decoupled decay takes rate·decay·value at every step; as part of the gradient it passes through the moments."""
    more = {"momentum": _MOMENTUM} if name == "sgd" else {}
    optimizer = make(name, {"weight_decay": _DECAY, **more})
    moved = [1.0 - optimizer.step(1.0, 0.0) for _ in range(2)]
    decoupled = all(isclose(one, rate * _DECAY, rel_tol=_TOLERANCE) for one in moved)
    return "decoupled from the gradient" if decoupled else "added to the gradient"


def momentum(make: Make) -> str:
    """One step with gradient 1, then the rate falls to a tenth and the gradient to 0: what is left is momentum."""
    optimizer = make("sgd", {"momentum": _MOMENTUM, "learning_rate": 1.0})
    optimizer.step(0.0, 1.0)
    optimizer.set_rate(0.1)
    moved = -optimizer.step(0.0, 0.0)
    if isclose(moved, 0.1 * _MOMENTUM, rel_tol=_TOLERANCE):
        return "follows the new rate at once"
    return "keeps the old rate" if isclose(moved, _MOMENTUM, rel_tol=_TOLERANCE) else f"moves by {moved:.3g}"
