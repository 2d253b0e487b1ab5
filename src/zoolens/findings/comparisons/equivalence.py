"""How interchangeable two models are.

report = zoolens.equiv("demo:lenet-torch", "demo:lenet-wide")
report.agreement, report.guaranteed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Protocol, get_args

import numpy as np

from zoolens.base import plugins
from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.present.results import Result, frame
from zoolens.base.progress import Progress
from zoolens.base.statistics.anytime import paired_lower
from zoolens.base.statistics.groups import GroupSample, WorstGroup, worst_group
from zoolens.base.statistics.intervals import CONFIDENCE, Interval, wilson
from zoolens.base.store.json_columns import json_value
from zoolens.base.store.records import Run
from zoolens.base.store.store import Store, borrowed_store
from zoolens.base.verdicts import Gap, NotKnown, Tally, Verdict
from zoolens.findings.comparisons.behaviour import (
    Behaviour,
    PairedAnswers,
    behaviour_of,
    pair_outputs,
    unknown_first,
    worst,
)
from zoolens.findings.comparisons.compatibility import Compatibility, compatible
from zoolens.findings.comparisons.contents import changed_notes
from zoolens.findings.comparisons.outcomes import agreement_verdict, open_gap
from zoolens.findings.comparisons.runs import measured_pairs
from zoolens.findings.comparisons.signatures import Signature, signature_of
from zoolens.findings.comparisons.temperature import fitted_temperature
from zoolens.findings.measure.named_runs import RunOrModel, run_text
from zoolens.inventory.catalog.names import is_run
from zoolens.inventory.datasets.opening import Data, whole_data
from zoolens.inventory.tasks.task import TOLERANCE

Bound = Literal["paired", "off", "arora"]
BOUNDS: Final = get_args(Bound)


@dataclass(frozen=True)
class Bounds:
    """What may be concluded for further inputs that are drawn like those of this dataset.

    `agreement` and `accuracy_drop` are promises: each holds by itself with `confidence` or more. The intervals are the
    ones that `eval` and `compare` print for the same runs, at this confidence.
    """

    confidence: float
    agreement: float  # at least, in every output
    accuracy_a: Interval | None = None  # Wilson
    accuracy_b: Interval | None = None
    difference: Interval | None = None  # of accuracy, B − A; the paired score interval
    accuracy_drop: float | None = None  # at most so much less accurate is B; betting, as queries bound it
    agreement_bound: str = "Clopper–Pearson"  # the method of `agreement`: of counts, or "betting" of any mean


@dataclass(frozen=True)
class OnData:
    """The two on one dataset. No outputs: they cannot be compared there, for the reasons in `fit`."""

    a: Run
    b: Run
    fit: Compatibility
    outputs: tuple[Behaviour, ...] = ()
    bounds: Bounds | None = None

    @property
    def dataset(self) -> str:
        return self.a.dataset.name

    @property
    def n(self) -> int:
        return self.a.inputs

    @property
    def worst(self) -> Behaviour:
        return worst(self.outputs)


class ModelBound(Protocol):
    """What a plug-in of `zoolens.bounds` says of the model of one run: a frozen dataclass with these properties."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def bound(self) -> float: ...

    @property
    def vacuous(self) -> bool: ...

    @property
    def covered(self) -> bool: ...

    @property
    def sentence(self) -> str: ...


@dataclass(frozen=True)
class ModelBounds:
    """A published bound on the error of each model by itself, or the sentence that says why there is none."""

    a: ModelBound | str
    b: ModelBound | str


@dataclass(frozen=True, repr=False)
class Equivalence(Result):
    """`guarantee` is about every dataset at once: with `confidence`, the two agree at least so often on each."""

    a: str
    b: str
    confidence: float
    tolerance: float
    on: tuple[OnData, ...]
    guarantee: WorstGroup | None = None
    arora: ModelBounds | None = None

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each output on each dataset. A dataset on which the two cannot be
        compared has one row with the reasons. Figures that are not known are missing."""
        return frame((row for pair in self.on for row in _rows(pair)), "Equivalence.frame")

    @property
    def comparable(self) -> tuple[OnData, ...]:
        return tuple(pair for pair in self.on if pair.outputs)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the two cannot be compared on any data; empty: they can."""
        return () if self.comparable else tuple(dict.fromkeys(why for pair in self.on for why in pair.fit.reasons))

    @property
    def worst(self) -> OnData:
        """The dataset on which the two agree least."""
        if not self.comparable:
            raise NotKnown(f"{self.a} and {self.b} cannot be compared: {'; '.join(self.reasons)}.")
        return min(self.comparable, key=lambda pair: unknown_first(pair.worst.agreement))

    @property
    def agreement(self) -> float:
        return self.worst.worst.agreement

    @property
    def guaranteed(self) -> float | None:
        return None if self.guarantee is None else self.guarantee.lower


def equiv(
    a: RunOrModel,
    b: RunOrModel,
    *,
    data: Data | None = None,
    runtime: str | None = None,
    store: Store | str | Path | None = None,
    confidence: float = CONFIDENCE,
    bound: str = "paired",
    tolerance: float = TOLERANCE,
    progress: Progress | None = None,
) -> Equivalence:
    """Compare two models (references, names, paths) or two runs (ids) by what they answered to the same inputs.

    Without `data` every dataset that both were run on counts. What was not measured on `data` is measured now, in one
    forward pass. `bound`: "off" for none, "arora" for the margin bound beside the others.
    """
    if bound not in BOUNDS:
        raise UnknownName("bound", bound, BOUNDS)
    if not 0 < 1 - confidence < 1:  # of 1e-300 nothing is left beside 1
        raise ZoolensError(f"A confidence of {confidence:g} makes no sense.", hint="Give a number such as 0.95.")
    where = None if data is None else whole_data(data)
    first, second = run_text(a), run_text(b)
    with borrowed_store(store, must_exist=data is None) as opened:
        pairs = measured_pairs(opened, first, second, where, runtime, progress)
        # The same name twice means another runtime: without one a gate would pass, and nothing would be compared.
        if first == second and not is_run(first) and all(run_a.id == run_b.id for run_a, run_b in pairs):
            raise ZoolensError(
                f"{first} has one run on {pairs[0][0].dataset.name}, in {pairs[0][0].stack.runtime}, and a run "
                "cannot be compared with itself.",
                hint="Evaluate it in another runtime too (`zoolens eval --runtime`), or name another model.",
            )
        alpha = None if bound == "off" else 1 - confidence
        compared = [_on_data(opened, run_a, run_b, alpha, tolerance) for run_a, run_b in pairs]
        on = tuple(found for found, _ in compared)
        return Equivalence(
            a=_name(pairs[0][0], pairs[0][1]),
            b=_name(pairs[0][1], pairs[0][0]),
            confidence=confidence,
            tolerance=tolerance,
            on=on,
            guarantee=None if alpha is None else _guarantee(compared, alpha),
            arora=_arora(on) if bound == "arora" else None,
        )


def _name(run: Run, other: Run) -> str:
    """The model's name; with its runtime where that is what sets the two apart."""
    return f"{run.ref} in {run.stack.runtime}" if run.ref == other.ref else run.ref


# --- the comparison


_Compared = tuple[OnData, tuple[PairedAnswers, ...]]  # no pairs: the two cannot be compared there


def _on_data(store: Store, a: Run, b: Run, alpha: float | None, tolerance: float) -> _Compared:
    fit = compatible(a, b)
    if not fit:
        return OnData(a, b, fit), ()
    same = ("A and B are the same run: the same content, in the same environment",) if a.id == b.id else ()
    fit = replace(fit, notes=(*fit.notes, *same, *changed_notes((a, b))))
    signatures = signature_of(store, a), signature_of(store, b)
    temperature = fitted_temperature(*signatures)
    fit = fit if temperature is None else replace(fit, notes=(*fit.notes, temperature.words.rstrip(".")))
    pairs = pair_outputs(*signatures, fit, tolerance=tolerance)
    outputs = tuple(map(behaviour_of, pairs))
    if alpha is None:
        return OnData(a, b, fit, outputs), pairs
    fit = replace(fit, notes=(*fit.notes, *_repetition(*signatures)))
    return OnData(a, b, fit, outputs, _bounds(outputs, pairs, alpha)), pairs


def _repetition(a: Signature, b: Signature) -> Iterator[str]:
    """Bounds are for inputs drawn one by one: a copy of an input tells nothing new. Copies have the same bits of both
    models for an answer, which different inputs hardly ever have."""
    if a.main.digest is None or b.main.digest is None:
        return
    seen = np.stack([a.main.digest, b.main.digest, a.labels.astype(np.uint64)], axis=1)
    repeated = len(seen) - len(np.unique(seen, axis=0))
    if repeated:
        are, they = ("is", "it is a copy") if repeated == 1 else ("are", "they are copies")
        yield (
            f"{repeated:,} of {len(seen):,} inputs {are} answered bit for bit like another by both: if {they}, the "
            "bounds promise too much, for they count every one"
        )


def _bounds(outputs: Sequence[Behaviour], pairs: Sequence[PairedAnswers], alpha: float) -> Bounds:
    accuracy, scores = outputs[0].accuracy, pairs[0].scores
    lower, method = _agreement_lower(pairs, alpha)
    return Bounds(
        confidence=1 - alpha,
        agreement=lower,
        accuracy_a=None if accuracy is None else wilson(accuracy.right_a, accuracy.n, 1 - alpha),
        accuracy_b=None if accuracy is None else wilson(accuracy.right_b, accuracy.n, 1 - alpha),
        difference=pairs[0].difference(1 - alpha),
        accuracy_drop=None if scores is None else -paired_lower(scores[1] - scores[0], alpha),
        agreement_bound=method,
    )


def _agreement_lower(pairs: Sequence[PairedAnswers], alpha: float) -> tuple[float, str]:
    """The lowest bound of all outputs, and its method: the true agreement is at least that on each of them."""
    bounds = [(pair.agreement_lower(alpha), pair.bound_method) for pair in pairs]
    return min(bounds, key=lambda bound: unknown_first(bound[0]))


def _guarantee(compared: Sequence[_Compared], alpha: float) -> WorstGroup | None:
    """None where the two cannot be compared, or where the agreement on a dataset is not known."""
    samples: dict[str, GroupSample] = {}
    for on, pairs in compared:
        if pairs:
            name = on.dataset if on.dataset not in samples else f"{on.dataset} ({on.a.key.dataset[:8]})"
            samples[name] = GroupSample(on.n, on.worst.agreement, partial(_lower, pairs))
    if not samples or any(np.isnan(sample.value) for sample in samples.values()):
        return None
    return worst_group(samples, alpha)


def _lower(pairs: Sequence[PairedAnswers], alpha: float) -> float:
    return _agreement_lower(pairs, alpha)[0]


def _arora(on: Sequence[OnData]) -> ModelBounds:
    bound_of: Callable[[Run], ModelBound | str] = plugins.load(plugins.BOUNDS, "arora")
    return ModelBounds(bound_of(on[0].a), bound_of(on[0].b))


# --- verdict and plain values


def verdict_of_equivalence(report: Equivalence) -> Verdict:
    """Return whether the two answer alike on every dataset, with the datasets, inputs and outputs compared."""
    shares = [output.agreement for pair in report.comparable for output in pair.outputs]
    gaps = [gap for pair in report.on for gap in _gaps_of(pair)]
    too_little = [gap for pair in report.comparable for output in pair.outputs if (gap := _open_gap(output))]
    left_out = sum(_outputs_left_out(pair) for pair in report.comparable)
    compared, all_inputs = (sum(pair.n for pair in pairs) for pairs in (report.comparable, report.on))
    tallies = [
        Tally("datasets", len(report.comparable), len(report.on)),
        Tally("inputs", compared, all_inputs),
    ]
    return agreement_verdict(shares, left_out, tallies, [*gaps, *too_little], len(too_little))


def _open_gap(output: Behaviour) -> Gap | None:
    return open_gap(output, output.identical)


def _gaps_of(pair: OnData) -> list[Gap]:
    if not pair.outputs:
        return [Gap(f"{pair.dataset}: {reason}") for reason in pair.fit.reasons]
    left_out = _outputs_left_out(pair)
    return [Gap(f"output without a partner on {pair.dataset}", left_out)] if left_out else []


def _outputs_left_out(pair: OnData) -> int:
    most = max(_outputs(pair.a), _outputs(pair.b))
    return max(0, most - len(pair.outputs))


def _outputs(run: Run) -> int:
    return len(run.resolved.get("outputs") or (None,))


def _rows(pair: OnData) -> list[dict[str, Any]]:
    return [_row(pair, output) for output in pair.outputs or (None,)]


def _row(pair: OnData, output: Behaviour | None) -> dict[str, Any]:
    """Returns an output for a table; without one, that the two were not compared on this dataset."""
    accuracy = None if output is None else output.accuracy
    shares = [] if output is None else [output.agreement]
    too_little = 0 if output is None else int(_open_gap(output) is not None)
    return {
        "dataset": pair.dataset,
        "inputs": pair.n,
        "output": None if output is None else output.output,
        "task": None if output is None else output.task,
        "outcome": agreement_verdict(shares, 0, (), (), too_little).outcome.value,
        "agreement": None if output is None else output.agreement,
        "agreement_lower": None if pair.bounds is None else pair.bounds.agreement,
        "identical": None if output is None else output.identical,
        "accuracy_a": None if accuracy is None else accuracy.a,
        "accuracy_b": None if accuracy is None else accuracy.b,
        "reasons": "; ".join(pair.fit.reasons),
    }


def as_data(report: Equivalence) -> dict[str, Any]:
    """The report as plain JSON-able values."""
    return {
        "a": report.a,
        "b": report.b,
        "confidence": report.confidence,
        **verdict_of_equivalence(report).as_data(),
        "comparable": bool(report.comparable),
        "reasons": list(report.reasons),
        "agreement": report.agreement if report.comparable else None,
        "guaranteed_agreement": report.guaranteed,
        "tolerance": report.tolerance,
        "datasets": [_data_of(pair) for pair in report.on],
        "arora": None if report.arora is None else {side: _arora_data(getattr(report.arora, side)) for side in "ab"},
    }


def _data_of(pair: OnData) -> dict[str, Any]:
    runs = {
        side: {"run": run.id, "model": run.ref, "runtime": run.stack.runtime, "precision": run.precision}
        for side, run in (("a", pair.a), ("b", pair.b))
    }
    return {
        **runs,
        "dataset": pair.dataset,
        "fingerprint": pair.a.key.dataset,
        "n": pair.n,
        "reasons": list(pair.fit.reasons),
        "notes": list(pair.fit.notes),
        "outputs": [{**json_value(output), "agreement": json_value(output.agreement)} for output in pair.outputs],
        "bounds": None if pair.bounds is None else asdict(pair.bounds),
    }


def _arora_data(bound: ModelBound | str) -> dict[str, Any]:
    if isinstance(bound, str):
        return {"refused": bound}
    properties = {"bound": bound.bound, "vacuous": bound.vacuous, "covered": bound.covered, "sentence": bound.sentence}
    return json_value(properties) | json_value(bound)  # type: ignore[no-any-return]
