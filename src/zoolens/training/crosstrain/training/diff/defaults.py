"""Differences in what training starts from and does: norms' statistics, initial weights, loss, update rules, layout."""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from typing import Final

from zoolens.training.crosstrain.training.diff import losses, optimizers
from zoolens.training.crosstrain.training.diff.heads import flattened
from zoolens.training.crosstrain.training.diff.recipe_findings import Finding, compared, tallied
from zoolens.training.pairs.reading.initialisers import Initialiser, explained
from zoolens.training.pairs.reading.side_facts import Drawn, LossFact, OptimizerFact, SideFacts

_TENSORS: Final = {
    ("conv", "kernel"): "kernels of convolutions",
    ("conv", "bias"): "biases of convolutions",
    ("dense", "kernel"): "kernels of dense layers",
    ("dense", "bias"): "biases of dense layers",
    ("norm", "scale"): "scales of norms",
    ("norm", "shift"): "shifts of norms",
}
_MEASURED: Final = "measured by a training step of a live layer"


def norms(a: SideFacts, b: SideFacts) -> Iterator[Finding]:
    if not (a.norms and b.norms):
        return
    layers = max(len(a.norms), len(b.norms))
    epsilons = (tallied(f"{norm.epsilon:g}" for norm in facts.norms) for facts in (a, b))
    yield compared("norm", "epsilon", *epsilons, evidence="read from the live layers", layers=layers)
    kept = [tallied(norm.keeps for norm in facts.norms) for facts in (a, b)]
    evidence = _MEASURED
    if not any(norm.cumulative for norm in (*a.norms, *b.norms)):
        lives = " and ".join(f"{_half_life(facts.norms[0].kept):.1f}" for facts in (a, b))
        evidence += f"; the first values are half forgotten after {lives} steps"
    yield compared("norm", "share of the old statistics that a step keeps", *kept, evidence=evidence, layers=layers)
    divisors = (tallied(norm.divisor for norm in facts.norms) for facts in (a, b))
    yield compared("norm", "running variance divides by", *divisors, evidence=_MEASURED, layers=layers)


def _half_life(kept: float) -> float:
    return -log(2) / log(kept) if 0 < kept < 1 else 0.0


def initial(a: SideFacts, b: SideFacts) -> Iterator[Finding]:
    """Tensors that both sides have."""
    for (kind, role), title in _TENSORS.items():
        sides = [[tensor for tensor in facts.drawn if (tensor.kind, tensor.role) == (kind, role)] for facts in (a, b)]
        if not all(sides):
            continue
        fits_of_sides = [explained(side) for side in sides]
        known = (_evidence(side, fits) for side, fits in zip(sides, fits_of_sides, strict=True))
        evidence = "; ".join(f"{letter}: {text}" for letter, text in zip("AB", known, strict=True) if text)
        texts = [_initialisers(fits) for fits in fits_of_sides]
        declared = [{tensor.declared for tensor in side} for side in sides]
        if texts[0] != texts[1] and (declared[0] == declared[1] or None in declared[0] | declared[1]):
            texts = _in_one_draw(sides) or texts
        yield compared("init", title, *texts, evidence=evidence, layers=max(map(len, sides)))


def _in_one_draw(sides: list[list[Drawn]]) -> list[str]:
    """What both sides are said to be where one initialiser may have drawn all of their tensors: few numbers fit several
    formulas, of which another one may fit each side best. Empty where none may have."""
    together = explained(tensor for side in sides for tensor in side)
    return [_initialisers(together)] * 2 if len(together) == 1 else []


def _initialisers(fits: tuple[Initialiser, ...]) -> str:
    return fits[0].name if len(fits) == 1 else ", ".join(f"{fit.name} in {len(fit.layers)}" for fit in fits)


def _evidence(side: list[Drawn], fits: tuple[Initialiser, ...]) -> str:
    """Measured spread over predicted, and what the layers themselves declare."""
    ratios = [ratio for fit in fits if fit.ratios for ratio in fit.ratios]
    ends = dict.fromkeys(f"{tensor:.3f}" for tensor in (min(ratios), max(ratios))) if ratios else {}
    parts = [f"measured spread {' to '.join(ends)} of the formula's"] if ends else []
    declared = {tensor.declared for tensor in side if tensor.declared}
    if declared:
        parts.append(f"declared {', '.join(sorted(declared))}")
    return ", ".join(parts)


def loss(a: SideFacts, b: SideFacts) -> Iterator[Finding]:
    if a.loss is None or b.loss is None:
        return
    called = f"by calling {a.loss.name} and {b.loss.name}"
    yield compared("loss", "reduction over a batch", a.loss.reduction, b.loss.reduction, evidence=called)
    yield compared("loss", "takes", a.loss.takes, b.loss.takes, evidence=called)
    answers = ("probabilities" if _ends_in_softmax(facts) else "logits" for facts in (a, b))
    yield compared("loss", "the network answers", *answers, evidence="its last operation")
    limits = (_limit(fact) for fact in (a.loss, b.loss))
    yield compared("loss", "largest loss of one sample", *limits, evidence="a wrong answer given with certainty")


def _ends_in_softmax(facts: SideFacts) -> bool:
    return bool(facts.layers) and facts.layers[-1].op == "softmax"


def _limit(fact: LossFact) -> str:
    return "unlimited" if losses.unlimited(fact) else f"{fact.largest:g}"


def updates(a: SideFacts, b: SideFacts) -> Iterator[Finding]:
    sides = [{optimizer.name: optimizer for optimizer in facts.optimizers} for facts in (a, b)]
    if not all(sides):
        return
    for name in {**sides[0], **sides[1]}:
        if name in sides[0] and name in sides[1]:
            yield from _optimizer(name, sides[0][name], sides[1][name])
        else:
            has = ("in the library" if name in side else "not in the library" for side in sides)
            yield compared("optimizer", f"{name} is", *has, evidence="looked for")


def _optimizer(name: str, a: OptimizerFact, b: OptimizerFact) -> Iterator[Finding]:
    if a.epsilon_acts and b.epsilon_acts:
        sizes = f"A: {_acting(a)}; B: {_acting(b)}"
        rules = (optimizers.rule(fact) for fact in (a, b))
        yield compared("optimizer", f"{name}: epsilon is", *rules, evidence=f"measured on one number: {sizes}")
    if a.epsilon and b.epsilon:
        yield compared("optimizer", f"{name}: epsilon is", a.epsilon, b.epsilon, evidence="measured on one number")
    for key in a.constants:
        if key in b.constants:
            values = (_value(fact.constants[key]) for fact in (a, b))
            yield compared("optimizer", f"{name}: default {key.replace('_', ' ')}", *values)
    yield compared("optimizer", f"{name}: weight decay is", a.weight_decay, b.weight_decay, evidence="measured")
    if a.momentum and b.momentum:
        what = f"{name}: after a change of the learning rate momentum"
        yield compared("optimizer", what, a.momentum, b.momentum, evidence="measured")
    if a.nesterov and b.nesterov:
        yield compared("optimizer", f"{name}: with nesterov a step is", a.nesterov, b.nesterov, evidence="measured")


def _acting(fact: OptimizerFact) -> str:
    times = fact.epsilon_acts
    if len(set(times.values())) == 1:
        return f"{next(iter(times.values())):.3g}× its size at every step"
    return ", ".join(f"{value:.3g}× {'its size ' if step == 1 else ''}at step {step}" for step, value in times.items())


def _value(value: float | bool) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else f"{value:g}"


def behaviours(a: SideFacts, b: SideFacts) -> Iterator[Finding]:
    """Subjects and questions that both sides have."""
    others = {fact.subject: fact for fact in b.behaviours}
    for fact in a.behaviours:
        other = others.get(fact.subject)
        for question in fact.does if other is not None else ():
            if other is not None and question in other.does:
                evidence = f"by running {' and '.join(dict.fromkeys((fact.name, other.name)))}"
                answers = fact.does[question], other.does[question]
                yield compared(fact.kind, f"{fact.subject}: {question}", *answers, evidence=evidence)


def layout(a: SideFacts, b: SideFacts) -> Iterator[Finding]:
    maps = flattened(a), flattened(b)
    flat = min(maps)
    evidence = "no dense layer reads a map"
    if flat:
        evidence = f"{flat} dense layer reads a flattened map in another order"
    elif any(maps):
        evidence = f"a dense layer reads a flattened map in {'A' if maps[0] else 'B'} alone"
    yield compared("layout", "channels of an image come", a.channels, b.channels, evidence=evidence, layers=flat)
