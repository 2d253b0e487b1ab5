"""What the CrossedWires paper says against what its released trials say.

Every figure has a verdict: it matches, or it differs, with the reason where one is known. The paper's Table 1 gives
the ranges of the search, Table 2 minimum, maximum, median and mean of Δ, Table 3 the smallest and largest accuracies,
Tables 4 to 6 the three pairs of each network that are furthest apart and the three that are nearest. The digits of
Tables 2 and 3 are the paper's (Zvyagin et al. 2021, CrossedWires); the rows of Tables 4 to 6 are from the authors'
notebook:
github.com/maxzvyagin/cross_framework_hpo, analysis/notebooks/tables.ipynb at a8d5b31.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

import numpy as np

from zoolens.base.present.figures import percent
from zoolens.contrib.crossedwires.trials import ARCHITECTURES, FRAMEWORKS, TEST_SAMPLES
from zoolens.training.crosstrain.study.analysis.analysis_tables import (
    accuracy_table,
    apart,
    delta_of,
    delta_table,
    least_apart,
    most_apart,
)
from zoolens.training.crosstrain.study.analysis.collapsed import TOLERANCE, Labels, correct_counts, flag
from zoolens.training.crosstrain.study.published import PaperComparison, PaperFigure, Verdict
from zoolens.training.crosstrain.training.trials import Study, Trial

_COLUMNS: Final = ("adam_epsilon", "batch_size", "learning_rate", "epochs")  # then both accuracies and Δ
_TABLE_NUMBERS: Final = {"vgg16": 4, "resnet50": 5, "densenet121": 6}
_TABLES: Final = {
    "vgg16": """
        0.19658 202 0.09901 50 0.09998 0.78150 0.68152
        0.73954  22 0.06213 21 0.75619 0.10000 0.65619
        0.16867 242 0.09234 21 0.75329 0.10000 0.65329
        0.84102  10 0.05205 21 0.10000 0.10000 0.00000
        0.07937  10 0.04891  7 0.10000 0.10000 0.00000
        0.35535  10 0.04866 46 0.10000 0.10000 0.00000""",
    "resnet50": """
        0.20390 382 0.05596 26 0.59364 0.09990 0.49374
        0.20259 466 0.05103 24 0.61146 0.12910 0.48236
        0.46381 502 0.07989 20 0.57465 0.10610 0.46855
        0.53622 904 0.03705 26 0.47656 0.47680 0.00024
        0.18580 388 0.01245 20 0.53219 0.53240 0.00021
        0.91122 904 0.07455 45 0.53747 0.53730 0.00017""",
    "densenet121": """
        0.37500 589 0.05955  2 0.54946 0.11050 0.43896
        0.62937 824 0.08118  2 0.52159 0.08830 0.43329
        0.37500 686 0.06250  3 0.56427 0.15010 0.41417
        0.08772 602 0.02302 46 0.73392 0.73320 0.00072
        0.71086 370 0.08254 43 0.71602 0.71650 0.00048
        0.60260  13 0.05400  1 0.09990 0.10000 0.00010""",
}
_PAPER_DELTAS: Final = {
    "vgg16": ("4.17e-10", "0.681", "0.0843", "0.123"),
    "resnet50": ("1.36e-4", "0.452", "0.0418", "0.0779"),
    "densenet121": ("2.17e-4", "0.457", "0.0563", "0.104"),
}
_PAPER_ACCURACIES: Final = {
    "vgg16": ("0.0959", "0.100", "0.786", "0.796"),
    "resnet50": ("0.0978", "0.0493", "0.699", "0.671"),
    "densenet121": ("0.0799", "0.0", "0.764", "0.771"),
}
_PAPER_BATCHES: Final = (10, 10_000)
_DELTA_CELLS: Final = ("smallest", "largest", "median", "mean")
_ACCURACY_CELLS: Final = ("lowest of PyTorch", "lowest of TensorFlow", "highest of PyTorch", "highest of TensorFlow")
_RANGES: Final = {"adam_epsilon": (1e-8, 1.0), "learning_rate": (1e-8, 0.1)}
_BORDER: Final = 2e-9
_RECORD: Final = (202, 5, 0.099980586)  # batch, class, and what always answering it gives on CIFAR-10's test set
_EARLIER: Final = (
    "the paper's come from earlier runs, which are not in the release; their TensorFlow head had 100 classes and a "
    "second softmax"
)


def compare_with_paper(studies: Sequence[Study], labels: Labels | None = None) -> PaperComparison:
    """Compares the published studies among these with the paper; what needs all three is left out where one is missing.
    With the `labels` of CIFAR-10's test set, in its order, the record pair is judged anew."""
    released = {str(study.details["architecture"]): study for study in studies if is_released(study)}
    known: dict[str, Study] = {name: released[name] for name in ARCHITECTURES if name in released}
    if not known:
        return PaperComparison(())
    figures = [
        *_headline(known),
        *(figure for name, study in known.items() for figure in _of_architecture(name, study)),
        *(_record_pair(known["vgg16"], labels) if "vgg16" in known else ()),
        *_method(list(known.values())),
    ]
    return PaperComparison(tuple(figures))


def is_released(study: Study) -> bool:
    """Whether it is one of the published studies. What a stranger submitted may only say so, and lack what is asked of
    it here."""
    known = study.details.get("published") is True and study.details.get("architecture") in ARCHITECTURES
    return known and study.frameworks == FRAMEWORKS and bool(study.trials) and all(map(_is_whole, study.trials))


def _is_whole(trial: Trial) -> bool:
    settings = [trial.hyperparameters.get(name) for name in _COLUMNS]
    batch = trial.hyperparameters.get("batch_size")
    return (
        all(isinstance(value, int | float) for value in settings)
        and isinstance(batch, int)
        and 1 <= batch <= TEST_SAMPLES
        and tuple(side.framework for side in trial.sides) == FRAMEWORKS
        and all(side.accuracy is not None for side in trial.sides)
    )


def agrees(paper: str, ours: float) -> bool:
    """Whether a printed figure may be ours, rounded or cut: less than one of its last digit away."""
    digits = Decimal(paper)
    return abs(Decimal(repr(ours)) - digits) < Decimal(1).scaleb(int(digits.as_tuple().exponent))


def _headline(known: Mapping[str, Study]) -> Iterator[PaperFigure]:
    if len(known) == len(ARCHITECTURES):
        share = apart(list(known.values()))
        ours = f"{share.count} of {share.total}, {percent(share.share, 1)}"
        verdict: Verdict = "matches" if agrees("52.3", 100 * share.share) else "differs"
        yield PaperFigure("pairs at least 5 % apart", "52.3%", ours, verdict)
    if "vgg16" in known:
        (summary,) = delta_table([known["vgg16"]])
        verdict = "matches" if agrees("0.681", summary.maximum or 0.0) else "differs"
        yield PaperFigure("largest Δ", "0.681", f"{summary.maximum:.6f}", verdict)


def _of_architecture(name: str, study: Study) -> Iterator[PaperFigure]:
    (delta,) = delta_table([study])
    ours = (delta.minimum, delta.maximum, delta.median, delta.mean)
    yield _row(f"Table 2, {name}: {', '.join(_DELTA_CELLS)} Δ", _PAPER_DELTAS[name], ours)
    pytorch, tensorflow = accuracy_table(study)
    ours = (pytorch.minimum, tensorflow.minimum, pytorch.maximum, tensorflow.maximum)
    yield _row(f"Table 3, {name}: accuracy, {', '.join(_ACCURACY_CELLS)}", _PAPER_ACCURACIES[name], ours)
    yield _extremes(name, study)


def _extremes(name: str, study: Study) -> PaperFigure:
    """Every row must be in the release, and be as far apart as the trial of its rank."""
    rows = [line.split() for line in _TABLES[name].split("\n") if line]
    ranked = [*most_apart(study, 3), *reversed(least_apart(study, 3))]
    there = sum(any(_is_row(row, trial) for trial in study.trials) for row in rows)
    same = there == len(rows) and all(agrees(row[-1], _delta(trial)) for row, trial in zip(rows, ranked, strict=True))
    return PaperFigure(
        f"Table {_TABLE_NUMBERS[name]}, {name}: Δ of the three pairs furthest apart and the three nearest",
        " / ".join(row[-1] for row in rows),
        f"{' / '.join(f'{_delta(trial):.5f}' for trial in ranked)} ({there} of the {len(rows)} rows are in it)",
        "matches" if same else "differs",
        "" if same else f"{_EARLIER}, and the authors' notebook was not run again for this table",
        told=not same,
    )


def _is_row(row: Sequence[str], trial: Trial) -> bool:
    accuracies = [trial.side(framework).accuracy or 0.0 for framework in FRAMEWORKS]
    figures = [*(float(trial.hyperparameters[name]) for name in _COLUMNS), *accuracies, _delta(trial)]
    return all(agrees(printed, value) for printed, value in zip(row, figures, strict=True))


def _row(what: str, paper: tuple[str, ...], ours: tuple[float | None, ...]) -> PaperFigure:
    cells = [value or 0.0 for value in ours]
    text = " / ".join(f"{value:.4g}" for value in cells)
    same = all(agrees(printed, value) for printed, value in zip(paper, cells, strict=True))
    return PaperFigure(
        what, " / ".join(paper), text, "matches" if same else "differs", "" if same else _EARLIER, not same
    )


def _record_pair(study: Study, labels: Labels | None) -> Iterator[PaperFigure]:
    record = most_apart(study, 1)[0]
    side = record.side(FRAMEWORKS[0])
    if labels is not None:
        seen = [str(collapse) for collapse in flag(study, labels) if collapse.trial == record.id and collapse.certain]
    else:
        batch, name, constant = _RECORD
        same = record.hyperparameters["batch_size"] == batch and abs((side.accuracy or 0.0) - constant) <= TOLERANCE
        seen = (
            [f"on CIFAR-10's test set at batch {batch}, always answering class {name} gives {constant}"] if same else []
        )
    for words in seen:
        last = next((loss for loss in reversed(side.losses) if loss is not None), None)
        ended = "" if last is None else f", whose last loss is {last:.3f} (a guess has ln 10 = 2.303)"
        yield PaperFigure(
            "the record pair",
            "test accuracies as different as 0.681",
            f"a collapsed PyTorch model ({record.id}, accuracy {side.accuracy}){ended}",
            "differs",
            words,
        )


def _method(studies: Sequence[Study]) -> Iterator[PaperFigure]:
    """How it was done, which holds for each of the studies."""
    yield _batches(studies)
    yield _metric(studies)
    yield _overlap(studies)
    yield PaperFigure(
        "bivariate mutual information",
        "gives it for pairs of hyperparameters",
        "not a property of these trials",
        "differs",
        "two columns were put side by side by reshape(n, 2) where a transpose was meant, so that unrelated values are "
        "paired; it vanishes when the trials are shuffled",
        told=True,
    )
    yield PaperFigure(
        "seeds",
        None,
        "set after the networks were made; no replicates",
        "differs",
        "initial weights were random, so a single Δ holds seed noise of unknown size",
        told=True,
    )
    for first, second in _duplicates(studies):
        yield PaperFigure(
            "one setting trained twice",
            None,
            f"Δ {_delta(first):.4f} ({first.id}) and {_delta(second):.4f} ({second.id})",
            "differs",
            "an accident, and the only sight of the noise",
        )


def _batches(studies: Sequence[Study]) -> PaperFigure:
    sizes = [int(trial.hyperparameters["batch_size"]) for study in studies for trial in study.trials]
    low = min(sizes)
    high = max(sizes)
    low_said, high_said = _PAPER_BATCHES
    same = low_said <= low and high_said / 2 <= high <= high_said  # a search gets near the end of its range
    return PaperFigure(
        "Table 1, batch size",
        f"{low_said:,} to {high_said:,}",
        f"{low:,} to {high:,}",
        "matches" if same else "differs",
        "" if same else "no released trial has a batch above a tenth of the printed range",
    )


def _metric(studies: Sequence[Study]) -> PaperFigure:
    trials = [trial for study in studies for trial in study.trials]
    with_counts = [(trial, _counts(trial)) for trial in trials]
    fitting = sum(1 for _, counts in with_counts if counts)
    off = [abs(counts[0] / TEST_SAMPLES - _accuracy(trial)) for trial, counts in with_counts if len(counts) == 1]
    return PaperFigure(
        "accuracy of PyTorch",
        "test accuracy",
        f"unweighted means of batch means ({fitting} of {len(trials)} fit one)",
        "differs",
        f"the smaller last batch counts as much as a whole one: off by up to {100 * max(off, default=0.0):.2f} points "
        f"in the {len(off)} trials where the true count follows from it",
    )


def _counts(trial: Trial) -> tuple[int, ...]:
    return correct_counts(_accuracy(trial), TEST_SAMPLES, int(trial.hyperparameters["batch_size"]))


def _accuracy(trial: Trial) -> float:
    return float(trial.side(FRAMEWORKS[0]).accuracy or 0.0)


def _delta(trial: Trial) -> float:
    return delta_of(trial) or 0.0


def _overlap(studies: Sequence[Study]) -> PaperFigure:
    quarter, half = (sum(_on_borders(study, overlap) for study in studies) for overlap in (0.25, 0.5))
    return PaperFigure(
        "overlap of the search's subspaces",
        "0.5",
        "0.25",
        "differs",
        f"a search often tries the borders of its space: {quarter} released learning rates and epsilons lie on the "
        f"inner borders that 0.25 gives, {half} on those of 0.5",
    )


def _on_borders(study: Study, overlap: float) -> int:
    """Values on the borders inside the range, where one half of it ends and the other begins."""
    count = 0
    for name, (low, high) in _RANGES.items():
        reach = (high - low) / 2 * (1 + overlap)
        borders = np.array([low + reach, high - reach])
        count += int((np.abs(study.column(name)[:, None] - borders) <= _BORDER).sum())
    return count


def _duplicates(studies: Sequence[Study]) -> Iterator[tuple[Trial, Trial]]:
    for study in studies:
        same: dict[tuple[Any, ...], list[Trial]] = defaultdict(list)
        for trial in study.trials:
            same[tuple(sorted(trial.hyperparameters.items()))].append(trial)
        for equal in same.values():
            yield from pairwise(equal)
