"""What a search means: is the manifest right, what should it say instead, and what does the model mind?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from zoolens.base.present.results import Result, frame
from zoolens.base.statistics.intervals import Interval
from zoolens.base.statistics.multiplicity import holm
from zoolens.findings.audit.doctor.bench import MIN_HELD_OUT, Level, VariantBench
from zoolens.findings.audit.doctor.evidence import ALPHA, WORTH_SEEING, Contrast, Evidence
from zoolens.findings.audit.doctor.search import equals_of
from zoolens.findings.audit.doctor.variants import DECLARED, PROTOCOL, Axis, AxisChoice, NotSwept, Variant, neighbours
from zoolens.inventory.manifests.schema import Manifest


class Status(StrEnum):
    RIGHT = "right"
    IMPROVABLE = "improvable"  # another decoder, crop or resize is better: a matter of protocol, and no fault
    WRONG = "wrong"
    UNDECIDED = "undecided"  # nothing is better, but on so few images nothing could have been
    SUSPICIOUS = "suspicious"  # nothing works, or only with the classes in an order that has no name


@dataclass(frozen=True)
class VariantTrial:
    """One variant against the declared one, on the same images. `p_value` is adjusted (Holm) for all variants."""

    variant: str
    factor: str
    run: str | None
    n: int
    accuracy: float
    interval: Interval
    change: float
    change_interval: Interval
    p_value: float
    steps: int  # how many axes differ from the declared variant
    error: str | None = None

    @property
    def compared(self) -> bool:
        """Whether this is another variant than the declared one, which is not compared with itself."""
        return self.steps > 0

    def as_row(self) -> dict[str, object]:
        """Returns the trial for a table. A variant that cannot run has no figures."""
        ran = not self.error
        compared = ran and self.compared
        return {
            "variant": self.variant,
            "factor": self.factor,
            "images": self.n,
            "accuracy": self.accuracy if ran else None,
            "low": self.interval.low if ran else None,
            "high": self.interval.high if ran else None,
            "change": self.change if compared else None,
            "change_low": self.change_interval.low if compared else None,
            "change_high": self.change_interval.high if compared else None,
            "p_value": self.p_value if compared else None,
            "run": self.run,
            "error": self.error,
        }


@dataclass(frozen=True)
class Sensitivity:
    """How much one factor matters, all others being those of the best variant."""

    factor: str
    n: int
    spread: float
    worst: str
    worst_accuracy: float
    best: str
    best_accuracy: float


@dataclass(frozen=True)
class Fault:
    """One thing the manifest says wrongly."""

    factor: str
    declared: str
    correct: str


@dataclass(frozen=True)
class Confirmation:
    """The declared variant against the best one. `fresh`: on images the search did not use."""

    fresh: bool
    n: int
    before: float
    after: float
    change_interval: Interval
    p_value: float


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    model: str
    runtime: str
    data: str
    status: Status
    sentence: str
    faults: tuple[Fault, ...]
    confirmation: Confirmation | None
    trials: tuple[VariantTrial, ...]  # the declared one first
    sensitivity: tuple[Sensitivity, ...]
    equals: tuple[str, ...]  # variants that cannot be told from the best one
    not_swept: tuple[NotSwept, ...]
    declared: Manifest
    corrected: Manifest | None
    notes: tuple[str, ...] = ()  # what else the user should know

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each variant that was tried, the declared one first. Figures of
        a variant that cannot run are missing."""
        return frame((trial.as_row() for trial in self.trials), "Diagnosis.frame")


def judge(bench: VariantBench, axes: Sequence[Axis], not_swept: Sequence[NotSwept], final: Variant) -> Diagnosis:
    manifest = bench.job.manifest
    confirmation = _confirm(bench, final) if final != DECLARED else None
    # Before the scores are probed, which is no trial: it cannot change top-1.
    trials = _trials(bench)
    doubled = _already_probabilities(bench, axes, final)
    confirmed = confirmation is not None and confirmation.p_value < ALPHA and confirmation.after > confirmation.before
    better = final if confirmed else DECLARED
    fixed = better.choosing(doubled) if doubled else better
    faults = tuple(_faults(fixed, axes))
    status = _status(fixed) if faults or bench.telling else Status.UNDECIDED
    return Diagnosis(
        model=bench.job.entry.full_ref,
        runtime=bench.job.runtime.full_name,
        data=bench.data[Level.ALL].name,
        status=status,
        sentence=_sentence(bench, _faults(better, axes), status, confirmation, trials, doubled is not None),
        faults=faults,
        confirmation=confirmation,
        trials=trials,
        sensitivity=tuple(_sensitivity(bench, axes, final)),
        equals=tuple(variant.name for variant in equals_of(bench, final)) if confirmed else (),
        not_swept=tuple(not_swept),
        declared=manifest,
        corrected=fixed.apply(manifest) if faults else None,
    )


def _confirm(bench: VariantBench, final: Variant) -> Confirmation:
    """Test the final variant: once on images that the search did not use, or else adjusted as one of many tests."""
    if not bench.held_out:
        contrast = bench.contrast(DECLARED, final, Level.ALL)
        return _confirmation(contrast, fresh=False, tests=len(bench.tried))
    return _confirmation(bench.fresh(DECLARED, final), fresh=True, tests=1)


def _confirmation(contrast: Contrast, *, fresh: bool, tests: int) -> Confirmation:
    return Confirmation(
        fresh=fresh,
        n=contrast.base.n,
        before=contrast.base.accuracy,
        after=contrast.other.accuracy,
        change_interval=contrast.interval,
        p_value=min(1.0, contrast.p_value * tests),
    )


def _status(fixed: Variant) -> Status:
    slots = {choice.slot for choice in fixed.choices}
    return Status.RIGHT if not slots else Status.IMPROVABLE if slots <= PROTOCOL else Status.WRONG


def _already_probabilities(bench: VariantBench, axes: Sequence[Axis], final: Variant) -> AxisChoice | None:
    """Declared logits that pass for probabilities on every image: softmax was applied twice. Top-1 cannot tell."""
    axis = next(axis for axis in axes if axis.slot == "scores")
    if axis.ranked or axis.declared != "logits" or final.choice("scores") is not None:
        return None
    (other,) = axis.choices
    return other if bench.measure(final.choosing(other), Level.SCREEN).error is None else None


def _faults(fixed: Variant, axes: Sequence[Axis]) -> list[Fault]:
    declared = {axis.slot: axis.declared for axis in axes}
    return [Fault(choice.factor, declared[choice.slot], choice.name) for choice in fixed.choices]


# --- all that was tried


def _trials(bench: VariantBench) -> tuple[VariantTrial, ...]:
    level = max(level for level in Level if bench.known(DECLARED, level))
    declared = bench.measure(DECLARED, level)
    contrasts = {variant: bench.contrast(DECLARED, variant, bench.widest(variant)) for variant in bench.tried}
    adjusted = holm([contrast.p_value for contrast in contrasts.values()]).tolist()
    others = [
        _trial(variant, contrast, p_value)
        for (variant, contrast), p_value in zip(contrasts.items(), adjusted, strict=True)
    ]
    return (_trial(DECLARED, Contrast(declared, declared), 1.0), *others)


def _trial(variant: Variant, contrast: Contrast, p_value: float) -> VariantTrial:
    evidence = contrast.other
    return VariantTrial(
        variant=variant.name,
        factor=variant.factor,
        run=evidence.run,
        n=evidence.n,
        accuracy=evidence.accuracy,
        interval=evidence.interval,
        change=contrast.change,
        change_interval=contrast.interval if variant != DECLARED else Interval(0.0, 0.0),
        p_value=p_value,
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
    return sorted(spreads, key=lambda sensitivity: -sensitivity.spread)


def _spread(factor: str, group: dict[str, Evidence]) -> Sensitivity:
    worst = min(group, key=lambda name: group[name].accuracy)
    best = max(group, key=lambda name: group[name].accuracy)
    low, high = group[worst].accuracy, group[best].accuracy
    return Sensitivity(factor, group[best].n, high - low, worst, low, best, high)


# --- in words


def _sentence(
    bench: VariantBench,
    faults: Sequence[Fault],
    status: Status,
    confirmation: Confirmation | None,
    trials: Sequence[VariantTrial],
    doubled: bool,
) -> str:
    """The verdict in one sentence. `faults` are those that cost right answers, which a second softmax does not."""
    if confirmation is None or not faults:
        return f"The manifest is wrong: {_DOUBLED}" if doubled else _no_fault(status, trials, confirmation)
    what = " and ".join(f"{fault.factor} {fault.correct} instead of {fault.declared}" for fault in faults)
    fresh = " that the search did not use" if confirmation.fresh else ""
    tests = "" if confirmation.fresh else f", adjusted for {len(trials) - 1} variants"
    words = "wrong" if status is Status.WRONG else "not the best"
    error = bench.measure(DECLARED, Level.SCREEN).error
    return (
        f"The manifest is {words}: with {what}, "
        f"top-1 rises from {100 * confirmation.before:.1f} % to {100 * confirmation.after:.1f} % "
        f"({confirmation.n:,} images{fresh}, exact McNemar p {_p(confirmation.p_value)}{tests})."
        + (f" Besides, {_DOUBLED}" if doubled else "")
        + (f" As declared it cannot be evaluated at all: {error}" if error else "")
    )


_DOUBLED: Final = (
    "it declares logits, but the outputs are probabilities already, so that softmax is applied twice; top-1 does not "
    "suffer, every probability does."
)


def _no_fault(status: Status, trials: Sequence[VariantTrial], confirmation: Confirmation | None) -> str:
    declared, *others = trials
    text = f"The manifest is right: none of {len(others)} variants is better than it by more than noise"
    if status is Status.UNDECIDED:
        text = (
            f"Undecided: {declared.n:,} images are too few to distinguish a variant that is "
            f"{100 * WORTH_SEEING:.0f} points better from noise, "
            f"{len(others)} variants being tried; {2 * MIN_HELD_OUT} are enough"
        )
    if confirmation is not None:
        change = confirmation.after - confirmation.before
        low, high = (100 * end for end in confirmation.change_interval)
        return (
            f"{text} (top-1 {100 * confirmation.before:.1f} %; the one that looked best while searching is "
            f"{100 * change:+.1f} points [{low:+.1f}, {high:+.1f}] on {confirmation.n:,} other images)."
        )
    seen = [trial for trial in others if trial.n == declared.n and trial.error is None]
    best = max(seen, key=lambda trial: trial.change, default=None)
    if best is None:
        return f"{text}."
    low, high = (100 * end for end in best.change_interval)
    return (
        f"{text} (top-1 {100 * declared.accuracy:.1f} % on {declared.n:,} images; the best other, {best.variant}, "
        f"is {100 * best.change:+.1f} points [{low:+.1f}, {high:+.1f}], p {_p(best.p_value)} adjusted for all)."
    )


def _p(value: float) -> str:
    return "< 1e-9" if value < 1e-9 else f"= {value:.2g}"
