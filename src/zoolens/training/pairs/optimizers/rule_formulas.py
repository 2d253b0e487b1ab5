"""The constants of each update rule, in closed form from a few moves of an optimizer.

Each function takes what moves a number at given gradients, and says which constants the rule would need; whether it is
the optimizer's rule at all is for `rule_fit` to check. Ratios of two moves at the same step do not depend on a schedule
of the learning rate.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isclose, sqrt
from typing import Any, Final

from zoolens.training.pairs.optimizers.rule_probe import Array
from zoolens.training.pairs.optimizers.update_rules import UpdateRule

_HALVINGS: Final = 45
Moves = Callable[..., Array]


class NoSuchRule(Exception):
    """The answers are none that this rule could give."""


def boundary(low: float, high: float, holds: Callable[[float], bool]) -> float:
    """The number at which something ends that holds at `low` and not at `high`."""
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return sqrt(low * high)


def _sgd(moves: Moves, size: float) -> UpdateRule:
    """What a single gradient moves at its own step and at those after it."""
    first, second, third = (moves(tuple(size * (step == place) for step in range(3))) for place in range(3))
    if not second[1] or not third[2]:
        raise NoSuchRule
    near, kept = second[2] / third[2], 0.0
    if near:
        if not second[2]:
            raise NoSuchRule
        kept = float(first[2] / second[2])
    nesterov = bool(near) and not isclose(near, kept, rel_tol=1e-6)
    own = 1 + kept if nesterov else 1.0
    return UpdateRule("sgd", float(-first[0] / size / own), momentum=kept, nesterov=nesterov)


def _adam(moves: Moves, size: float) -> UpdateRule:
    """With equal gradients both corrected moments are those of one; with −g after g, the second moment still is."""
    same = moves((size, size))[1]
    turned = moves((size, -size))[1] / same
    beta1 = (1 + turned) / (1 - turned)
    under, e2 = _epsilon(lambda gradient: moves((gradient,) * 2)[1], size)
    _, e3 = _epsilon(lambda gradient: moves((gradient,) * 3)[2], size)
    root = sqrt(size**2 + e2) if under else size + e2
    doubled = (beta1 + 2) / (1 + beta1) * root / (moves((size, 2 * size))[1] / same)  # the root after g and 2·g
    square = (doubled**2 - e2 if under else (doubled - e2) ** 2) / size**2
    beta2 = (4 - square) / (square - 1)
    if not (0 <= beta1 < 1 and 0 < beta2 < 1):
        raise NoSuchRule
    place, epsilon = ("under" if under else "outside"), e2
    if not under and e2 > 1e-13 * size and isclose(e2 / e3, sqrt((1 - beta2**3) / (1 - beta2**2)), rel_tol=1e-4):
        place, epsilon = "inside", e2 * sqrt(1 - beta2**2)
    return UpdateRule(
        "adam", 1.0, beta1=float(beta1), beta2=float(beta2), epsilon=_whole(epsilon, size),
        epsilon_place=place,  # type: ignore[arg-type]
    )  # fmt: skip


def _epsilon(move: Callable[[float], float], size: float) -> tuple[bool, float]:
    """Whether epsilon lies under the root, and its size: gradient / move is (g + e)/rate, or √(g² + e)/rate."""
    sizes = (size, 4 * size, 16 * size)
    ways: list[tuple[float, bool, float]] = []
    for under in (False, True):
        x = [gradient**2 if under else gradient for gradient in sizes]
        y = [(gradient / -move(gradient)) ** (2 if under else 1) for gradient in sizes]
        slope = (y[2] - y[0]) / (x[2] - x[0])
        if not slope:
            raise NoSuchRule
        misses = abs(y[0] + slope * (x[1] - x[0]) - y[1]) / abs(y[1])
        ways.append((misses, under, y[0] / slope - x[0]))
    misses, under, epsilon = ways[0] if ways[0][0] < 1e-12 else min(ways)
    if misses > 1e-7:
        raise NoSuchRule
    return under, max(epsilon, 0.0)


def _whole(epsilon: float, size: float) -> float:
    """An epsilon below the rounding of the probes is none."""
    return float(epsilon) if epsilon > 1e-14 * size else 0.0


def _rmsprop(moves: Moves, size: float) -> UpdateRule:
    """A gradient after none shows the root alone; one after another shows what the mean square keeps."""
    sizes = (size, 4 * size, 16 * size)
    after_none = {gradient: -moves((0.0, gradient))[1] for gradient in sizes}
    # The ratio is epsilon in units of √(1 − rho), or of 1 − rho.
    under, ratio = _epsilon(lambda gradient: -after_none[gradient], size)
    power = 2 if under else 1
    slope = (size / after_none[size]) ** power / (size**power + ratio)
    plus, minus = moves((size, size)), moves((size, -size))
    alone, kept = (minus[1] - plus[1]) / 2, (plus[1] + minus[1]) / 2 / plus[0] if plus[0] else 0.0
    y = size / alone
    square = (y**2 / slope - ratio) if under else (y / slope - ratio) ** 2
    rho = square / size**2 - 1
    if not 0 < rho < 1 - 1e-5:  # one of nearly 1 is Adagrad's sum
        raise NoSuchRule
    epsilon = ratio * (1 - rho) if under else ratio * sqrt(1 - rho)
    return UpdateRule(
        "rmsprop", 1.0, rho=float(rho), epsilon=_whole(epsilon, size**power), momentum=_small(kept),
        epsilon_place="under" if under else "outside",
    )  # fmt: skip


def _adagrad(moves: Moves, size: float) -> UpdateRule:
    """The sum of squares begins with something, to which an epsilon under the root is the same as more of it."""
    under, start = _epsilon(lambda gradient: moves((0.0, gradient))[1], size)
    if not under:
        return UpdateRule("adagrad", 1.0, epsilon=_whole(start, size), epsilon_place="outside")
    begins = float(f"{start:.3g}")
    begins = begins if begins <= start and start - begins < 0.01 * start and start > 1e-4 else 0.0
    return UpdateRule("adagrad", 1.0, initial_accumulator=begins, epsilon=float(start - begins), epsilon_place="under")


def _lion(moves: Moves, size: float) -> UpdateRule:
    """Every move is as large as the learning rate; where its sign turns tells what is kept."""
    if not isclose(moves((size, size))[1], moves((size, 3 * size))[1], rel_tol=1e-9):
        raise NoSuchRule

    def turns(*between: float) -> float:
        """How much of the first gradient a later one must undo."""
        return boundary(1e-9, 1e3, lambda times: bool(moves((size, *between, -times * size))[-1] < 0))

    soon, later = turns(), turns(0.0)
    beta2 = later / soon
    share = soon / (1 - beta2)  # beta1 / (1 − beta1)
    return UpdateRule("lion", 1.0, beta1=float(share / (1 + share)), beta2=float(beta2))


def _small(value: Any) -> float:
    return float(value) if abs(value) > 1e-9 else 0.0


RULE_FORMULAS: Final = (_sgd, _rmsprop, _adam, _adagrad, _lion)
