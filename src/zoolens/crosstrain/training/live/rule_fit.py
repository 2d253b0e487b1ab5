"""Which rule an optimizer follows that shows no settings, found by letting it take steps with chosen gradients.

Each rule of `update_rules` is fitted in closed form to a few answers and then has to predict further steps; one that
does not is not the optimizer's. Gradients begin small, so that clipping does nothing; where clipping begins is found
afterwards. Ratios of two moves at the same step do not depend on a schedule of the learning rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, isclose, sqrt
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from zoolens.crosstrain.training.live.update_rules import Clipping, UpdateRule, clipped, empty_slots, updated

Array = NDArray[np.float64]
PREDICTED: Final = 1e-6  # largest error of predicted moves, relative to the largest move of the step
_SIZES: Final = (1e-6, 1e-3, 1.0)  # of gradients, tried in this order: an epsilon may hide what smaller ones do
RATES: Final = 8  # steps whose learning rates are told
_LARGEST: Final = 1e6  # of gradients that clipping is looked for with
_LOOKED: Final = 6  # steps that a rule has to predict
_HALVINGS: Final = 45
_MOST_ACCUMULATED: Final = 64


class Prober(Protocol):
    """An optimizer that shows no settings, over tensors of these shapes, in float64."""

    shapes: Sequence[tuple[int, ...]]

    def run(self, gradients: Sequence[Sequence[Array]], values: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """What it adds to each tensor at each step, from a fresh state; `values`: the tensors before each step."""


@dataclass(frozen=True)
class FittedOptimizer:
    """`rules`: of each tensor, with the learning rate of the first step. `rates`: of the first steps, for the first
    tensor. `shares`: how large the learning rate of each tensor is beside that of the first one."""

    rules: tuple[UpdateRule, ...]
    clipping: Clipping
    accumulation: int
    rates: tuple[float, ...]
    shares: tuple[float, ...]


class NotFitted(Exception):
    """No rule predicts what the optimizer does; the message says what was seen."""


class _NoSuchRule(Exception):
    """The answers are none that this rule could give."""


def fitted(prober: Prober) -> FittedOptimizer:
    """NotFitted: no rule that is known here predicts the optimizer's steps."""
    probe = _Probe(prober)
    problems: list[str] = []
    for size in _SIZES:
        try:
            with np.errstate(all="ignore"):
                return _fitted(probe, size)
        except NotFitted as problem:
            problems.append(str(problem))
    raise NotFitted(problems[0])


def _fitted(probe: _Probe, size: float) -> FittedOptimizer:
    """From gradients of this size, which must not be clipped."""
    rules: list[UpdateRule] = []
    for leaf in range(len(probe.prober.shapes)):
        known = (rule for rule in dict.fromkeys(rules) if probe.error_alone(leaf, rule, size) <= PREDICTED)
        rules.append(next(known, None) or _rule(probe, leaf, size))
    clipping = _clipping(probe, rules, size)
    rates = [[_seven_digits(rate) for rate in probe.rates(leaf, rule, RATES)] for leaf, rule in enumerate(rules)]
    told = [_rounded(replace(rule, learning_rate=first)) for rule, (first, *_) in zip(rules, rates, strict=True)]
    if probe.error(told, clipping, size) > 10 * PREDICTED:
        raise NotFitted("its constants cannot be told apart from one another")
    shares = [float(f"{several[-1] / rates[0][-1]:.6g}") if rates[0][-1] else 1.0 for several in rates]
    return FittedOptimizer(tuple(told), clipping, probe.accumulation, tuple(rates[0]), tuple(shares))


class _Probe:
    """Runs with one number as the gradient of everything, which are asked again and again, and random ones."""

    def __init__(self, prober: Prober) -> None:
        self.prober, self._kept = prober, dict[tuple[tuple[float, ...], float], list[list[Array]]]()
        self.accumulation = 1
        self.accumulation = self._accumulation()
        self._kept.clear()
        self._noise = [
            [np.random.default_rng([step, leaf]).standard_normal(shape) for leaf, shape in enumerate(prober.shapes)]
            for step in range(2 * _LOOKED)
        ]

    def _accumulation(self) -> int:
        """The number of steps from one that moves something to the next."""
        moving = [step for step, one in enumerate(self.moves(0, (1e-6,) * 6)) if one]
        if len(moving) > 2 and moving[1] == moving[0] + 1:
            return 1
        moving = [step for step, one in enumerate(self.moves(0, (1e-6,) * 2 * _MOST_ACCUMULATED)) if one]
        if len(moving) < 2:
            raise NotFitted("nothing moves in its first steps")
        return moving[1] - moving[0]

    def moves(self, leaf: int, gradients: tuple[float, ...], value: float = 0.0) -> Array:
        """What each step moves the first number of a tensor by."""
        key = gradients, value
        if key not in self._kept:
            shapes = self.prober.shapes
            given = [[np.full(shape, one) for shape in shapes] for one in gradients]
            self._kept[key] = self.run(given, [[np.full(shape, value) for shape in shapes]] * len(gradients))
        return np.array([step[leaf].reshape(-1)[0] for step in self._kept[key]])

    def run(self, gradients: Sequence[Sequence[Array]], values: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """One step for each update: what is accumulated is the same gradient each time."""
        count = self.accumulation
        repeated = self.prober.run(
            [one for one in gradients for _ in range(count)], [one for one in values for _ in range(count)]
        )
        return repeated[count - 1 :: count]

    def rates(self, leaf: int, rule: UpdateRule, count: int) -> list[float]:
        """The learning rate of the first steps: the moves beside those at a rate of 1."""
        gradients = (_SIZES[0],) * count
        at_one = predicted(rule, [np.full(1, one) for one in gradients], [np.zeros(1)] * count, rates=[1.0] * count)
        moved = self.moves(leaf, gradients)
        return [float(move / one[0]) for move, one in zip(moved, at_one, strict=True)]

    def random(self, size: float) -> tuple[list[list[Array]], list[list[Array]]]:
        """Gradients of this size, and values around 1."""
        half = len(self._noise) // 2
        return [[size * one for one in step] for step in self._noise[:half]], self._noise[half:]

    def error_alone(self, leaf: int, rule: UpdateRule, size: float) -> float:
        """How far the rule is from the moves of one tensor with gradients of this size, if nothing clips them."""
        gradients, values = self.random(size)
        moved = self._random_run(size)
        expected = predicted(
            rule, [one[leaf] for one in gradients], [one[leaf] for one in values],
            rates=self.rates(leaf, rule, len(gradients)),
        )  # fmt: skip
        return max(_apart(one, other[leaf]) for one, other in zip(expected, moved, strict=True))

    def _random_run(self, size: float) -> list[list[Array]]:
        key = ((size,), inf)
        if key not in self._kept:
            self._kept[key] = self.run(*self.random(size))
        return self._kept[key]

    def error(self, rules: Sequence[UpdateRule], clipping: Clipping, size: float) -> float:
        """How far all tensors' moves are from those that the rules and this clipping predict."""
        gradients, values = self.random(size)
        moved = self._random_run(size)
        cut = [clipped(clipping, step, np) for step in gradients]
        worst = 0.0
        for leaf, rule in enumerate(rules):
            rates = self.rates(leaf, rule, len(cut))
            expected = predicted(rule, [one[leaf] for one in cut], [one[leaf] for one in values], rates=rates)
            worst = max(worst, *(_apart(one, other[leaf]) for one, other in zip(expected, moved, strict=True)))
        return worst


def predicted(
    rule: UpdateRule, gradients: Sequence[Array], values: Sequence[Array], *, rates: Sequence[float]
) -> list[Array]:
    """What the rule moves one tensor by at each step."""
    slots, found = empty_slots(rule, values[0], np), []
    for step, (gradient, value, rate) in enumerate(zip(gradients, values, rates, strict=True), 1):
        moved, slots = updated(rule, gradient, slots, value, step=step, rate=rate, xp=np)
        found.append(moved)
    return found


def _apart(expected: Array, moved: Array) -> float:
    size = max(float(np.abs(moved).max(initial=0.0)), float(np.abs(expected).max(initial=0.0)))
    apart = float(np.abs(expected - moved).max(initial=0.0)) / size if size else 0.0
    return apart if np.isfinite(apart) else inf


def _rule(probe: _Probe, leaf: int, size: float) -> UpdateRule:
    """The rule that predicts the tensor's steps. Of several that do, one without a schedule: some rules are another one
    with a learning rate that changes."""
    best: tuple[float, str] = (inf, "none")
    found: list[UpdateRule] = []
    for rule in _candidates(probe, leaf, size):
        error = max(probe.error_alone(leaf, rule, one) for one in {size, _SIZES[0]})
        best = min(best, (error, rule.name))
        if error <= PREDICTED:
            rates = probe.rates(leaf, rule, RATES)
            if max(rates) - min(rates) <= PREDICTED * max(map(abs, rates)):
                return rule
            found.append(rule)
    if found:
        return found[0]
    far = f"; the nearest, {best[1]}, is off by {best[0]:.1g} of a move" if best[0] < inf else ""
    raise NotFitted(f"no known rule predicts its steps{far}")


def _candidates(probe: _Probe, leaf: int, size: float) -> Iterator[UpdateRule]:
    """What each rule would have to be, without and with each kind of weight decay."""
    for fit in _FITS:
        try:
            bare = fit(lambda gradients, value=0.0: probe.moves(leaf, gradients, value), size)
        except (_NoSuchRule, ZeroDivisionError):
            continue
        if not all(np.isfinite(one) for one in vars(bare).values() if isinstance(one, float)):
            continue
        yield from _decayed(probe, leaf, bare, size)


def _decayed(probe: _Probe, leaf: int, bare: UpdateRule, size: float) -> Iterator[UpdateRule]:
    step = 2  # the first may have a learning rate of 0
    still = probe.moves(leaf, (size,) * step)[-1]
    if probe.moves(leaf, (size,) * step, 1.0)[-1] == still:
        yield bare
        return
    coupled = _coupled_decay(probe, leaf, size)
    if coupled is not None:
        yield replace(bare, decay_kind="coupled", weight_decay=coupled)
    rate = probe.rates(leaf, bare, step)[-1]
    if rate:
        alone = (still - probe.moves(leaf, (size,) * step, 1.0)[-1]) / rate
        yield replace(bare, decay_kind="decoupled", weight_decay=float(alone))


def _coupled_decay(probe: _Probe, leaf: int, size: float) -> float | None:
    """As part of the gradient it takes the gradient away where the value is −gradient/decay: moves change their sign
    there. None: they never do."""

    def against(decay: float) -> bool:
        moved = probe.moves(leaf, (size,) * 3, -size / decay)[-1]
        return bool(moved > 0)  # the value is negative, and decay that is stronger than this moves it up

    # A stronger assumed decay means a smaller value, where the gradient wins.
    weak, strong = 1e-9, 1e3
    if not against(weak) or against(strong):
        return None
    return _between(weak, strong, against)


def _between(low: float, high: float, holds: Callable[[float], bool]) -> float:
    """The number at which something ends that holds at `low` and not at `high`."""
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return sqrt(low * high)


Moves = Callable[..., Array]


def _sgd(moves: Moves, size: float) -> UpdateRule:
    """What a single gradient moves at its own step and at those after it."""
    first, second, third = (moves(tuple(size * (step == place) for step in range(3))) for place in range(3))
    if not second[1] or not third[2]:
        raise _NoSuchRule
    near, kept = second[2] / third[2], 0.0
    if near:
        if not second[2]:
            raise _NoSuchRule
        kept = float(first[2] / second[2])
    nesterov = bool(near) and not isclose(near, kept, rel_tol=1e-6)
    own = 1 + kept if nesterov else 1.0
    return UpdateRule("sgd", float(-first[0] / size / own), momentum=kept, nesterov=nesterov)


def _adam(moves: Moves, size: float) -> UpdateRule:
    """With equal gradients both corrected moments are those of one; with −g after g, the second moment still is."""
    same = moves((size, size))[1]
    turned = moves((size, -size))[1] / same
    beta1 = (1 + turned) / (1 - turned)
    under, e2 = _epsilon(lambda one: moves((one,) * 2)[1], size)
    _, e3 = _epsilon(lambda one: moves((one,) * 3)[2], size)
    root = sqrt(size**2 + e2) if under else size + e2
    doubled = (beta1 + 2) / (1 + beta1) * root / (moves((size, 2 * size))[1] / same)  # the root after g and 2·g
    square = (doubled**2 - e2 if under else (doubled - e2) ** 2) / size**2
    beta2 = (4 - square) / (square - 1)
    if not (0 <= beta1 < 1 and 0 < beta2 < 1):
        raise _NoSuchRule
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
        x = [one**2 if under else one for one in sizes]
        y = [(one / -move(one)) ** (2 if under else 1) for one in sizes]
        slope = (y[2] - y[0]) / (x[2] - x[0])
        if not slope:
            raise _NoSuchRule
        misses = abs(y[0] + slope * (x[1] - x[0]) - y[1]) / abs(y[1])
        ways.append((misses, under, y[0] / slope - x[0]))
    misses, under, epsilon = ways[0] if ways[0][0] < 1e-12 else min(ways)
    if misses > 1e-7:
        raise _NoSuchRule
    return under, max(epsilon, 0.0)


def _whole(epsilon: float, size: float) -> float:
    """An epsilon below the rounding of the probes is none."""
    return float(epsilon) if epsilon > 1e-14 * size else 0.0


def _rmsprop(moves: Moves, size: float) -> UpdateRule:
    """A gradient after none shows the root alone; one after another shows what the mean square keeps."""
    after_none = {one: -moves((0.0, one))[1] for one in (size, 4 * size, 16 * size)}
    under, ratio = _epsilon(lambda one: -after_none[one], size)  # epsilon in units of √(1 − rho), or of 1 − rho
    power = 2 if under else 1
    slope = (size / after_none[size]) ** power / (size**power + ratio)
    plus, minus = moves((size, size)), moves((size, -size))
    alone, kept = (minus[1] - plus[1]) / 2, (plus[1] + minus[1]) / 2 / plus[0] if plus[0] else 0.0
    y = size / alone
    square = (y**2 / slope - ratio) if under else (y / slope - ratio) ** 2
    rho = square / size**2 - 1
    if not 0 < rho < 1 - 1e-5:  # one of nearly 1 is Adagrad's sum
        raise _NoSuchRule
    epsilon = ratio * (1 - rho) if under else ratio * sqrt(1 - rho)
    return UpdateRule(
        "rmsprop", 1.0, rho=float(rho), epsilon=_whole(epsilon, size**power), momentum=_small(kept),
        epsilon_place="under" if under else "outside",
    )  # fmt: skip


def _adagrad(moves: Moves, size: float) -> UpdateRule:
    """The sum of squares begins with something, to which an epsilon under the root is the same as more of it."""
    under, start = _epsilon(lambda one: moves((0.0, one))[1], size)
    if not under:
        return UpdateRule("adagrad", 1.0, epsilon=_whole(start, size), epsilon_place="outside")
    begins = float(f"{start:.3g}")
    begins = begins if begins <= start and start - begins < 0.01 * start and start > 1e-4 else 0.0
    return UpdateRule("adagrad", 1.0, initial_accumulator=begins, epsilon=float(start - begins), epsilon_place="under")


def _lion(moves: Moves, size: float) -> UpdateRule:
    """Every move is as large as the learning rate; where its sign turns tells what is kept."""
    if not isclose(moves((size, size))[1], moves((size, 3 * size))[1], rel_tol=1e-9):
        raise _NoSuchRule

    def turns(*between: float) -> float:
        """How much of the first gradient a later one must undo."""
        return _between(1e-9, 1e3, lambda times: bool(moves((size, *between, -times * size))[-1] < 0))

    soon, later = turns(), turns(0.0)
    beta2 = later / soon
    share = soon / (1 - beta2)  # beta1 / (1 − beta1)
    return UpdateRule("lion", 1.0, beta1=float(share / (1 + share)), beta2=float(beta2))


_FITS: Final = (_sgd, _rmsprop, _adam, _adagrad, _lion)


def _clipping(probe: _Probe, rules: Sequence[UpdateRule], smallest: float) -> Clipping:
    """Where moves begin to differ from those of unclipped gradients, and which kind of clipping predicts the rest."""
    none = Clipping()

    def unclipped(size: float) -> bool:
        return probe.error(rules, none, size) <= PREDICTED

    if unclipped(_LARGEST) and unclipped(1.0):
        return none
    size = _between(smallest, _LARGEST, unclipped)
    step = max(probe.random(1.0)[0], key=lambda one: sum(float((leaf**2).sum()) for leaf in one))
    largest = [leaf for one in probe.random(1.0)[0] for leaf in one]
    ways = (
        Clipping(norm=size * sqrt(sum(float((leaf**2).sum()) for leaf in step))),
        Clipping(tensor_norm=size * max(sqrt(float((leaf**2).sum())) for leaf in largest)),
        Clipping(value=size * max(float(np.abs(leaf).max(initial=0.0)) for leaf in largest)),
    )
    for way, digits in product(ways, (2, 4, 6)):
        told = Clipping(**{name: one and float(f"{one:.{digits}g}") for name, one in vars(way).items()})
        if all(probe.error(rules, told, one) <= 10 * PREDICTED for one in (1.01 * size, 3 * size, 30 * size)):
            return told
    raise NotFitted(f"large gradients (from {size:.2g} on) are changed in a way that is no clipping known here")


def _small(value: Any) -> float:
    return float(value) if abs(value) > 1e-9 else 0.0


def _rounded(rule: UpdateRule) -> UpdateRule:
    """With seven digits: a constant of 0.1 is measured as 0.1000000000003."""
    told = {name: _seven_digits(one) for name, one in vars(rule).items() if isinstance(one, float)}
    return replace(rule, **told)  # type: ignore[arg-type]


def _seven_digits(value: float) -> float:
    return float(f"{value:.7g}")
