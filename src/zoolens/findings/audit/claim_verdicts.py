"""A claim against our own measurement of the same model.

The rule. A claim is about one dataset, a measurement about the inputs it was made on. The two can be held against each
other only if those inputs are the claimed dataset, or a random sample of it:

- the whole: the dataset has as many inputs as the claimed one and carries its name;
- a random sample: the user vouches for the dataset by name (`trusted`), or it is a seeded choice (`--limit N --seed S`)
  from such a one or from the whole;
- anything else, such as the first thousand files or a hand-picked subset, may be easier or harder than the whole. It
  neither supports nor refutes a claim, however narrow its interval: not comparable.

- an accuracy that rests on guesses, such as drafted preprocessing, says nothing about a claim either.

Where they can be compared, the claim is consistent if the 95 % interval of the measurement reaches it, after allowing
for the digits it was rounded to. "Not consistent" means that claim, weights or preprocessing differ; it does not say
which.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from zoolens.base.store.records import Observation, Provenance, Run
from zoolens.base.store.store import Store
from zoolens.findings.audit.claims import ClaimRow, first_claims
from zoolens.inventory.catalog.stored import guessed_of
from zoolens.inventory.zoos.published import IMAGENET

ACCURACIES: Final = ("top1", "top5")
WHOLE: Final = {IMAGENET: (50_000, "imagenet")}  # inputs of the validation set, and what its name holds
_FEW: Final = 20  # models whose runs are asked for one after the other
_SEEDED: Final = re.compile(r"(?P<parent>.*) \(\d+ of seed \d+\)")


class Judgement(StrEnum):
    CONSISTENT = "consistent"
    INCONSISTENT = "not consistent"
    NOT_COMPARABLE = "not comparable"


class Sampling(StrEnum):
    """How the measured inputs were taken from the claimed dataset."""

    WHOLE = "whole"
    RANDOM = "random"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ClaimVerdict:
    claim: ClaimRow
    judgement: Judgement
    sentence: str
    run: str | None = None  # the id of the measured run


@dataclass(frozen=True)
class MeasuredAccuracy:
    """An accuracy as we measured it; fractions, not percentages."""

    value: float
    low: float  # the ends of its confidence interval
    high: float
    n: int  # inputs
    sampling: Sampling
    dataset: str = ""
    run: str | None = None  # the id of the measured run
    guessed: Sequence[str] = ()  # what it rests on that nobody has checked

    @property
    def words(self) -> str:
        interval = f"[{100 * self.low:.1f}, {100 * self.high:.1f}]"
        return f"measured {100 * self.value:.1f} % {interval} on {self.n:,} images"


def judge(claim: ClaimRow, measured: MeasuredAccuracy) -> ClaimVerdict:
    """Return whether a claimed accuracy is consistent with the confidence interval of a measured one."""
    assert claim.value is not None, "only figures can be judged"
    facts = f"claims {100 * claim.value:.1f} %, {measured.words}"
    if measured.sampling is Sampling.UNKNOWN:
        of = f" of {measured.dataset}" if measured.dataset else ""
        population = _base(claim) or "what the claim is about"
        reason = f"nothing says that these are a random sample of {population}"
        return ClaimVerdict(claim, Judgement.NOT_COMPARABLE, f"{facts}{of}: not comparable ({reason})", measured.run)
    # A wrong guess of ours must not refute a claim.
    if measured.guessed:
        reason = f"the measured one rests on guesses: {'; '.join(measured.guessed)}"
        return ClaimVerdict(claim, Judgement.NOT_COMPARABLE, f"{facts}: not comparable ({reason})", measured.run)
    slack = _rounding(claim.value)
    reached = measured.low - slack <= claim.value <= measured.high + slack
    judgement = Judgement.CONSISTENT if reached else Judgement.INCONSISTENT
    return ClaimVerdict(claim, judgement, f"{facts}: {judgement}", measured.run)


def verdicts(store: Store, claims: Iterable[ClaimRow], *, trusted: Collection[str] = ()) -> list[ClaimVerdict]:
    """A verdict for every accuracy claim whose model was evaluated, one for each run of it.

    `trusted` names datasets that the user vouches for as random samples of the claimed one.
    """
    figures = first_claims(claim for claim in claims if claim.metric in ACCURACIES and claim.value is not None)
    measured = _measured(store, {ref for ref, _ in figures})
    judged = (
        verdict_on(claim, run, observation, trusted)
        for key, claim in figures.items()
        for run, observation in measured.get(key, ())
    )
    return [verdict for verdict in judged if verdict]


def vouchable(store: Store) -> set[str]:
    """Datasets that `trusted` can name with effect: accuracy was measured on them, or on a sample drawn from them."""
    names = {run.dataset.name for measurements in _measured(store).values() for run, _ in measurements}
    return names | {seeded["parent"] for name in names if (seeded := _SEEDED.fullmatch(name))}


def verdict_on(claim: ClaimRow, run: Run, figure: Observation, trusted: Collection[str] = ()) -> ClaimVerdict | None:
    """The verdict on a claimed accuracy by one run of the model; None where the run's figure has no interval."""
    if figure.value is None or figure.low is None or figure.high is None or not figure.n:
        return None
    measured = MeasuredAccuracy(
        value=figure.value,
        low=figure.low,
        high=figure.high,
        n=figure.n,
        sampling=sampling_of(run, claim, trusted),
        dataset=run.dataset.name,
        run=run.id,
        guessed=guessed_of(run),
    )
    return judge(claim, measured)


def sampling_of(run: Run, claim: ClaimRow, trusted: Collection[str] = ()) -> Sampling:
    """How this run's inputs were taken from what the claim is about; see the rule above."""
    name, size = run.dataset.name, run.dataset.size
    if name in trusted:
        return Sampling.RANDOM
    if _is_whole(claim, name, size):
        return Sampling.WHOLE
    seeded = _SEEDED.fullmatch(name)
    if seeded is None:
        return Sampling.UNKNOWN
    whole = _is_whole(claim, seeded["parent"], run.dataset.details.get("drawn_from"))
    return Sampling.RANDOM if whole or seeded["parent"] in trusted else Sampling.UNKNOWN


def _is_whole(claim: ClaimRow, name: str, size: int | None) -> bool:
    wanted, mark = WHOLE.get(_base(claim), (None, ""))
    return wanted is not None and size == wanted and mark in re.sub(r"[^a-z0-9]", "", name.lower())


def _base(claim: ClaimRow) -> str:
    """ "ImageNet-1K" of "ImageNet-1K at 288×288"."""
    return claim.dataset.partition(" at ")[0]


def _rounding(value: float) -> float:
    """Half of the last digit that a percentage is stated with, at least one decimal being meant: 71.8 is ±0.05."""
    text = f"{100 * value:.4f}".rstrip("0")
    decimals = max(1, len(text.partition(".")[2]))
    return 0.5 * 10.0 ** (-decimals - 2)


def _measured(
    store: Store, refs: Collection[str] | None = None
) -> dict[tuple[str, str], list[tuple[Run, Observation]]]:
    """Measured accuracies by model and metric, newest run first. `refs`: of these models, which is quick where they are
    few; None: of all."""
    few = refs is not None and len(refs) <= _FEW
    runs = [run for ref in sorted(refs or ()) for run in store.runs(model=ref)] if few else store.runs()
    observations = store.observations_by_run([run.id for run in runs], metrics=ACCURACIES)
    measurements: dict[tuple[str, str], list[tuple[Run, Observation]]] = {}
    for run in runs:
        for observation in observations.get(run.id, ()):
            if observation.scope == "" and observation.provenance is Provenance.MEASURED:
                measurements.setdefault((run.ref.partition("@")[0], observation.metric), []).append((run, observation))
    return measurements
