"""A study of the store as a report, with what only the store knows: its replicates, and the paper it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Final

from zoolens.base.present.pages import Section
from zoolens.base.present.tables import Column, Table
from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.store.store import Store, borrowed_store
from zoolens.training.crosstrain.study.analysis.collapsed import Flag, Labels, flag
from zoolens.training.crosstrain.study.noise import counts, noise_of
from zoolens.training.crosstrain.study.published import PaperComparison, released_by
from zoolens.training.crosstrain.study.report import write_report
from zoolens.training.crosstrain.study.store_training import replicates
from zoolens.training.crosstrain.study.stored_studies import read_study
from zoolens.training.crosstrain.training.trials import Study, Trial
from zoolens.training.pairs.explanation.noise_words import verdict

_COLUMNS: Final = (
    Column("trial"), Column("difference"), Column("seeds", "number"), Column("mean", "percent"),
    Column("from", "percent"), Column("to", "percent"), Column("sign-flip p", "p"),
    Column("Δ minus noise", "percent"), Column("verdict"),
)  # fmt: skip


@dataclass(frozen=True)
class Reported:
    """The files of a report, and what it found."""

    study: Study
    files: tuple[Path, ...]
    flags: tuple[Flag, ...]
    paper: PaperComparison | None  # of a published study, what of the paper it reproduces; None: of any other
    repeats: int = 0  # trials that are left out, see `without_repeats`


def report_study(
    store: Store | str | Path | None, name: Study | str, folder: Path | str, *, labels: Labels | None = None
) -> Reported:
    """`labels`: of the test set of a published study, in their order; they show which of its models collapsed."""
    with borrowed_store(store, must_exist=True) as opened:
        return _report(opened, name if isinstance(name, str) else name.name, Path(folder), labels)


def _report(store: Store, name: str, folder: Path, labels: Labels | None) -> Reported:
    whole = read_study(store, name)
    study = without_repeats(whole)
    published = released_by(study)
    paper = published.compare_with_paper(store, labels) if published else None
    flags = flag(study, labels if published else None)
    sections = [*_noise_sections(store, study), *(_paper_sections(paper) if paper else ())]
    files = write_report(study, folder, sections=sections, flags=flags)
    return Reported(study, tuple(files), flags, paper, len(whole.trials) - len(study.trials))


def without_repeats(study: Study) -> Study:
    """A search that was begun anew, or a merged study, may tell the same trainings under other names: they count once,
    or what is chance would look certain. Its details say how many were left out."""
    kept: dict[tuple[str | None, ...], Trial] = {}
    for trial in study.trials:
        kept.setdefault(tuple(side.run for side in trial.sides), trial)
    if len(kept) == len(study.trials):
        return study
    words = f"{len(study.trials) - len(kept)} of {len(study.trials)} trials: the same trainings under other names"
    return replace(study, trials=tuple(kept.values()), details={**study.details, "left out": words})


def _paper_sections(paper: PaperComparison) -> list[Section]:
    return [Section(heading, items=tuple(map(str, figures))) for heading, figures in paper.sections.items()]


def _noise_sections(store: Store, study: Study) -> list[Section]:
    others = replicates(store, study.name)
    seeds = [(trial, *others[trial.id]) for trial in study.trials if trial.id in others]
    noises = [
        (trials[0].id, noise_of(trials, a.framework, b.framework))
        for trials in seeds
        for a, b in trials[0].pairs
        if any(counts(one.side(a.framework)) and counts(one.side(b.framework)) for one in trials)
    ]
    if not noises:
        return []
    words = (
        "The same trials under other seeds. Mean difference of the two sides over the seeds with its 95 % t interval, "
        "a sign-flip test, and Δ minus what seeds alone show on average. With few seeds the intervals are wide. Each "
        "line is judged for itself. A trial that was picked because its Δ is large shows too large a Δ with these "
        "seeds; `crosstrain explain` estimates it with new ones.",
        noise_words([noise for _, noise in noises]),
    )
    table = Table("noise", _COLUMNS, tuple(_row(name, noise) for name, noise in noises))
    return [Section("Difference and noise", words, tables=(("", table),), files=("noise.csv",))]


def noise_words(seed_noises: Sequence[SeedNoise]) -> str:
    """Two trainings of different sides beside two of the same side: the same kind of difference."""
    between = [
        abs(a - b)
        for seed_noise in seed_noises
        for a, b in zip(seed_noise.accuracies_a, seed_noise.accuracies_b, strict=True)
    ]
    sides = [
        accuracies for seed_noise in seed_noises for accuracies in (seed_noise.accuracies_a, seed_noise.accuracies_b)
    ]
    within = [abs(a - b) for accuracies in sides for a, b in combinations(accuracies, 2)]
    if not within:
        return "No pair has two seeds with both accuracies."
    return (
        f"Median |difference| of two sides with the same seed: {100 * median(between):.2f} points; of two seeds of the "
        f"same side: {100 * median(within):.2f} points."
    )


def _row(trial: str, seed_noise: SeedNoise) -> tuple[object, ...]:
    interval, excess = seed_noise.difference.interval, seed_noise.excess
    return (
        trial,
        f"{seed_noise.b} − {seed_noise.a}",
        seed_noise.seeds,
        seed_noise.difference.value,
        interval.low if interval else None,
        interval.high if interval else None,
        seed_noise.p_value,
        excess.value if excess else None,
        verdict(seed_noise),
    )
