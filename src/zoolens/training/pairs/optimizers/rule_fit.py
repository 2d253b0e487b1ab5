"""Which rule an optimizer follows that shows no settings, found by letting it take steps with chosen gradients.

Each rule of `update_rules` is fitted in closed form to a few answers and then has to predict further steps; one that
does not is not the optimizer's. Gradients begin small, so that clipping does nothing; where clipping begins is found
afterwards. Ratios of two moves at the same step do not depend on a schedule of the learning rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, sqrt
from typing import Final

import numpy as np

from zoolens.training.pairs.optimizers.rule_formulas import RULE_FORMULAS, NoSuchRule, boundary
from zoolens.training.pairs.optimizers.rule_probe import SMALLEST, NotFitted, Prober, RuleProbe
from zoolens.training.pairs.optimizers.update_rules import Clipping, UpdateRule

PREDICTED: Final = 1e-6  # largest error of predicted moves, relative to the largest move of the step
_SIZES: Final = (SMALLEST, 1e-3, 1.0)  # of gradients, tried in this order: an epsilon may hide what smaller ones do
RATES: Final = 8  # steps whose learning rates are told
_LARGEST: Final = 1e6  # of gradients that clipping is looked for with


@dataclass(frozen=True)
class FittedOptimizer:
    """The rule that predicts the steps of an optimizer."""

    rules: tuple[UpdateRule, ...]  # of each tensor, with the learning rate of the first step
    clipping: Clipping
    accumulation: int
    rates: tuple[float, ...]  # of the first steps, for the first tensor
    shares: tuple[float, ...]  # how large the learning rate of each tensor is beside that of the first one


def fitted(prober: Prober) -> FittedOptimizer:
    """NotFitted: no rule that is known here predicts the optimizer's steps."""
    probe = RuleProbe(prober)
    problems: list[str] = []
    for size in _SIZES:
        try:
            with np.errstate(all="ignore"):
                return _fitted(probe, size)
        except NotFitted as problem:
            problems.append(str(problem))
    raise NotFitted(problems[0])


def _fitted(probe: RuleProbe, size: float) -> FittedOptimizer:
    """Fits the optimizer from gradients of this size, which must not be clipped."""
    rules: list[UpdateRule] = []
    for leaf in range(len(probe.prober.shapes)):
        known = (rule for rule in dict.fromkeys(rules) if probe.error_alone(leaf, rule, size) <= PREDICTED)
        rules.append(next(known, None) or _rule(probe, leaf, size))
    clipping = _clipping(probe, rules, size)
    rates = [[_seven_digits(rate) for rate in probe.rates(leaf, rule, RATES)] for leaf, rule in enumerate(rules)]
    rounded = [_rounded(replace(rule, learning_rate=first)) for rule, (first, *_) in zip(rules, rates, strict=True)]
    if probe.error(rounded, clipping, size) > 10 * PREDICTED:
        raise NotFitted("its constants cannot be told apart from one another")
    shares = [float(f"{several[-1] / rates[0][-1]:.6g}") if rates[0][-1] else 1.0 for several in rates]
    return FittedOptimizer(tuple(rounded), clipping, probe.accumulation, tuple(rates[0]), tuple(shares))


def _rule(probe: RuleProbe, leaf: int, size: float) -> UpdateRule:
    """The rule that predicts the tensor's steps. Of several that do, one without a schedule: some rules are another one
    with a learning rate that changes."""
    best: tuple[float, str] = (inf, "none")
    scheduled: list[UpdateRule] = []  # their learning rate would have to change
    for rule in _candidates(probe, leaf, size):
        error = max(probe.error_alone(leaf, rule, tried) for tried in {size, _SIZES[0]})
        best = min(best, (error, rule.name))
        if error <= PREDICTED:
            rates = probe.rates(leaf, rule, RATES)
            if max(rates) - min(rates) <= PREDICTED * max(map(abs, rates)):
                return rule
            scheduled.append(rule)
    if scheduled:
        return scheduled[0]
    far = f"; the nearest, {best[1]}, is off by {best[0]:.1g} of a move" if best[0] < inf else ""
    raise NotFitted(f"no known rule predicts its steps{far}")


def _candidates(probe: RuleProbe, leaf: int, size: float) -> Iterator[UpdateRule]:
    """What each rule would have to be, without and with each kind of weight decay."""
    for formula in RULE_FORMULAS:
        try:
            bare = formula(lambda gradients, value=0.0: probe.moves(leaf, gradients, value), size)
        except (NoSuchRule, ZeroDivisionError):
            continue
        if not all(np.isfinite(constant) for constant in vars(bare).values() if isinstance(constant, float)):
            continue
        yield from _decayed(probe, leaf, bare, size)


def _decayed(probe: RuleProbe, leaf: int, bare: UpdateRule, size: float) -> Iterator[UpdateRule]:
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


def _coupled_decay(probe: RuleProbe, leaf: int, size: float) -> float | None:
    """Finds a weight decay that is part of the gradient. It takes the gradient away where the value is −gradient/decay:
    moves change their sign there. None: they never do."""

    def against(decay: float) -> bool:
        moved = probe.moves(leaf, (size,) * 3, -size / decay)[-1]
        return bool(moved > 0)  # the value is negative, and decay that is stronger than this moves it up

    # A stronger assumed decay means a smaller value, where the gradient wins.
    weak, strong = 1e-9, 1e3
    if not against(weak) or against(strong):
        return None
    return boundary(weak, strong, against)


def _clipping(probe: RuleProbe, rules: Sequence[UpdateRule], smallest: float) -> Clipping:
    """Where moves begin to differ from those of unclipped gradients, and which kind of clipping predicts the rest."""
    none = Clipping()

    def unclipped(size: float) -> bool:
        return probe.error(rules, none, size) <= PREDICTED

    if unclipped(_LARGEST) and unclipped(1.0):
        return none
    size = boundary(smallest, _LARGEST, unclipped)
    step = max(probe.random(1.0)[0], key=lambda leaves: sum(float((leaf**2).sum()) for leaf in leaves))
    largest = [leaf for leaves in probe.random(1.0)[0] for leaf in leaves]
    ways = (
        Clipping(norm=size * sqrt(sum(float((leaf**2).sum()) for leaf in step))),
        Clipping(tensor_norm=size * max(sqrt(float((leaf**2).sum())) for leaf in largest)),
        Clipping(value=size * max(float(np.abs(leaf).max(initial=0.0)) for leaf in largest)),
    )
    for way, digits in product(ways, (2, 4, 6)):
        rounded = Clipping(**{name: limit and float(f"{limit:.{digits}g}") for name, limit in vars(way).items()})
        sizes = (1.01 * size, 3 * size, 30 * size)
        if all(probe.error(rules, rounded, tried) <= 10 * PREDICTED for tried in sizes):
            return rounded
    raise NotFitted(f"large gradients (from {size:.2g} on) are changed in a way that is no clipping known here")


def _rounded(rule: UpdateRule) -> UpdateRule:
    """Rounds the constants to seven digits: a constant of 0.1 is measured as 0.1000000000003."""
    rounded = {name: _seven_digits(value) for name, value in vars(rule).items() if isinstance(value, float)}
    return replace(rule, **rounded)  # type: ignore[arg-type]


def _seven_digits(value: float) -> float:
    return float(f"{value:.7g}")
