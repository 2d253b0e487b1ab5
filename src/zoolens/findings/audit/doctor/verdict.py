"""What a search means: is the manifest right, what should it say instead, and what does the model mind?"""

from __future__ import annotations

from collections.abc import Sequence

from zoolens.base.statistics.multiplicity import holm
from zoolens.findings.audit.doctor.bench import Level, VariantBench
from zoolens.findings.audit.doctor.diagnosis import (
    Confirmation,
    Diagnosis,
    Fault,
    Sensitivity,
    Status,
    VariantTrial,
)
from zoolens.findings.audit.doctor.evidence import ALPHA, Contrast, Evidence
from zoolens.findings.audit.doctor.evidence_figures import SCORE
from zoolens.findings.audit.doctor.search import equals_of
from zoolens.findings.audit.doctor.variants import DECLARED, Axis, AxisChoice, NotSwept, Variant, neighbours
from zoolens.findings.audit.doctor.verdict_words import VerdictWords
from zoolens.inventory.tasks.judgement import Metric


def judge(bench: VariantBench, axes: Sequence[Axis], not_swept: Sequence[NotSwept], final: Variant) -> Diagnosis:
    manifest = bench.job.manifest
    confirmation = _confirm(bench, final) if final != DECLARED else None
    # Before the scores are probed, which is no trial: it hardly changes the figure.
    trials = _trials(bench)
    telling = bench.telling
    confirmed = confirmation is not None and confirmation.better
    better = final if confirmed else DECLARED
    proven = _proven(bench, axes, better)
    fixed = better.choosing(proven) if proven else better
    faults = tuple(_faults(fixed, axes))
    metric = judged_metric(bench, final)
    few = bench.task.discrete and not bench.enough
    words = VerdictWords(metric, bench.noun, confirmation, trials, few=few, held_out=bench.held_out)
    settled = telling and words.unconfirmed is None
    status = _status(fixed) if faults or settled else Status.UNDECIDED
    error = bench.measure(DECLARED, Level.SCREEN).error or trials[0].error
    return Diagnosis(
        model=bench.job.entry.full_ref,
        runtime=bench.job.runtime.full_name,
        data=bench.data[Level.ALL].name,
        metric=metric.name,
        unit=metric.unit,
        lower_is_better=metric.lower_is_better,
        noun=bench.noun,
        status=status,
        sentence=words.sentence(status, _faults(better, axes), proven.proof if proven else None, error),
        faults=faults,
        confirmation=confirmation,
        trials=trials,
        sensitivity=tuple(_sensitivity(bench, axes, final)),
        equals=tuple(variant.name for variant in equals_of(bench, final)) if confirmed else (),
        not_swept=tuple(not_swept),
        declared=manifest,
        corrected=fixed.apply(manifest) if faults else None,
        remedy=words.remedy if status is Status.UNDECIDED else "",
    )


def _confirm(bench: VariantBench, final: Variant) -> Confirmation:
    """Test the final variant: once on inputs that the search did not use, or else adjusted as one of many tests."""
    if not bench.held_out:
        contrast = bench.contrast(DECLARED, final, Level.ALL)
        return _confirmation(contrast, fresh=False, tests=len(bench.tried))
    return _confirmation(bench.fresh(DECLARED, final), fresh=True, tests=1)


def _confirmation(contrast: Contrast, *, fresh: bool, tests: int) -> Confirmation:
    return Confirmation(
        fresh=fresh,
        n=contrast.base.n,
        before=contrast.base.value,
        after=contrast.other.value,
        change=contrast.known_change,
        change_interval=contrast.interval,
        p_value=contrast.difference.adjusted(tests),
        test=contrast.difference.test,
        better=contrast.gain > 0 and contrast.difference.adjusted(tests) < ALPHA,
    )


def judged_metric(bench: VariantBench, final: Variant) -> Metric:
    """What variants are judged by."""
    figure = bench.measure(final, Level.SCREEN).figure
    return SCORE if figure is None else figure.metric


def _status(fixed: Variant) -> Status:
    if not fixed.choices:
        return Status.RIGHT
    return Status.IMPROVABLE if all(choice.is_protocol for choice in fixed.choices) else Status.WRONG


def _proven(bench: VariantBench, axes: Sequence[Axis], better: Variant) -> AxisChoice | None:
    """A choice that every input proves, though the figure cannot tell: a softmax or sigmoid that is applied twice."""
    for axis in axes:
        for choice in axis.choices:
            level = next((level for level in Level if bench.sizes[level] >= choice.proven_by), None)
            if choice.proof and better.choice(axis.slot) is None and level is not None:
                contrast = bench.contrast(better, better.choosing(choice), level)
                if contrast.other.error is None and not contrast.worse:
                    return choice
    return None


def _faults(fixed: Variant, axes: Sequence[Axis]) -> list[Fault]:
    declared = {axis.slot: axis.declared for axis in axes}
    return [Fault(choice.factor, declared[choice.slot], choice.name) for choice in fixed.choices]


# --- all that was tried


def _trials(bench: VariantBench) -> tuple[VariantTrial, ...]:
    level = max(level for level in Level if bench.known(DECLARED, level))
    declared = bench.measure(DECLARED, level)
    contrasts = {variant: bench.contrast(DECLARED, variant, bench.widest(variant)) for variant in bench.tried}
    by_metric = _adjusted([contrast.difference.p_metric for contrast in contrasts.values()])
    by_inputs = _adjusted([contrast.difference.p_inputs for contrast in contrasts.values()])
    others = [
        _trial(variant, contrast, contrast.difference.p_value(metric, inputs))
        for (variant, contrast), metric, inputs in zip(contrasts.items(), by_metric, by_inputs, strict=True)
    ]
    return (_as_declared(declared), *others)


def _adjusted(p_values: Sequence[float | None]) -> list[float]:
    """Holm's adjustment. A comparison that no test applies to counts as one that shows nothing."""
    adjusted: list[float] = holm([1.0 if p_value is None else p_value for p_value in p_values]).tolist()
    return adjusted


def _as_declared(evidence: Evidence) -> VariantTrial:
    """It is not compared with itself."""
    return VariantTrial(
        variant=DECLARED.name,
        factor=DECLARED.factor,
        run=evidence.run,
        n=evidence.n,
        value=evidence.value,
        interval=evidence.interval,
        change=None,
        change_interval=None,
        p_value=None,
        steps=0,
        error=evidence.error,
    )


def _trial(variant: Variant, contrast: Contrast, p_value: float) -> VariantTrial:
    evidence = contrast.other
    return VariantTrial(
        variant=variant.name,
        factor=variant.factor,
        run=evidence.run,
        n=evidence.n,
        value=evidence.value,
        interval=evidence.interval,
        change=contrast.known_change,
        change_interval=contrast.interval,
        p_value=p_value if contrast.difference.tested else None,
        steps=len(variant.choices),
        error=evidence.error,
    )


def _sensitivity(bench: VariantBench, axes: Sequence[Axis], final: Variant) -> list[Sensitivity]:
    by_factor: dict[str, dict[str, Evidence]] = {}
    best = bench.measure(final, Level.SCREEN)
    declared = {axis.slot: axis.declared for axis in axes}
    for variant in neighbours(final, [axis for axis in axes if axis.ranked]):
        changed = next(iter(set(variant.choices) ^ set(final.choices)))
        choice = variant.choice(changed.slot)
        own = final.choice(changed.slot)
        group = by_factor.setdefault((choice or changed).factor, {own.name if own else declared[changed.slot]: best})
        group[choice.name if choice else declared[changed.slot]] = bench.measure(variant, Level.SCREEN)
    spreads = [_spread(factor, group) for factor, group in by_factor.items()]
    return sorted((spread for spread in spreads if spread is not None), key=lambda spread: -spread.spread)


def _spread(factor: str, group: dict[str, Evidence]) -> Sensitivity | None:
    """None where fewer than two of them have a figure."""
    judged = {name: evidence for name, evidence in group.items() if evidence.figure is not None}
    if len(judged) < 2:
        return None
    worst = min(judged, key=lambda name: judged[name].rank)
    # Of equal ones the last, so that two are named.
    best = max(reversed(judged), key=lambda name: judged[name].rank)
    low, high = (judged[name].value or 0.0 for name in (worst, best))
    return Sensitivity(factor, judged[best].n, abs(high - low), worst, low, best, high)
