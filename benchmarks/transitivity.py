"""Which index returns the ideal model: exact signatures over n probes, or five random comparisons and transitivity?

    python benchmarks/transitivity.py [--trials 20000] [--probes 30000] [--signed 800]

A synthetic re-creation of the published query-quality experiment. A reference and the 60 models of an index answer
inputs of a population; the share of inputs on which a model differs from the reference (its true difference) is uniform
in 0–10 % or 0–4 %, independently for each model and input. A query asks for the nearest of the models that fit a
budget. The ideal answer has the smallest true difference of those; nothing else counts as right. Everything is seeded.

With signatures a model's difference is how many of n random probes it answers differently. With transitivity the
reference was compared with five random models of the index, and they with five each before; the differences of these
comparisons are the true ones here, which is more than any number of probes can tell. Then both again with the real
indexes of `zoolens.findings.index` and real signatures, for fewer trials.

Counting cannot be improved upon here. All that a signature tells about a model's difference is how many probes differ
(it is a sufficient statistic, and more of them always speak for a larger difference), and the models are drawn alike,
so that no rule finds the ideal model more often than "the fewest". Scores, top-5 overlap or distances of outputs could
tell more only if they were drawn as well, and then the gain would be what we had put in.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.index.signatures.semantic import Approximate, SemanticIndex, open_semantic
from zoolens.findings.index.signatures.transitivity import ANCHORS, infer

CLASSES = 1000
MODELS = 60  # in the index
FITTING = 20  # of them, within the budget of a query
OTHER_BUDGETS = (5, 10, FITTING, 30, MODELS)
SHOWN = (1_000, 10_000, 20_000, 30_000, 50_000)
LADDER = (
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    20_000,
    25_000,
    30_000,
    40_000,
    50_000,
    75_000,
    100_000,
    150_000,
    200_000,
)
TARGETS = {0.10: 0.95, 0.04: 0.90}  # widest difference -> share of queries that return the ideal model
REFERENCE = "reference"
SETTING = f"""\
Query quality: how often is the answer the model with the smallest true difference from the reference?
{MODELS} models are in the index, and {FITTING} of them within a query's budget. Both numbers are our choice: of the
published experiment we know only how differences are spread. The more models fit, the closer the two nearest are to
each other and the harder it is to tell them apart, so other budgets are shown as well. Each model differs from the
reference on inputs of its own. "±" is one standard error; a goal is met, and probes suffice, by two of them."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Quality:
    """Share of queries whose answer is ideal, and how much further from the reference the answers are on average."""

    ideal: float
    excess: float
    trials: int

    @property
    def error(self) -> float:
        """One standard error of the share."""
        return float(np.sqrt(self.ideal * (1 - self.ideal) / self.trials))

    def reaches(self, target: float) -> bool:
        return self.ideal - 2 * self.error >= target

    def contradicts(self, target: float) -> bool:
        """Too far below to be chance."""
        return self.ideal + 3 * float(np.sqrt(target * (1 - target) / self.trials)) < target


@dataclass(frozen=True)
class Real:
    """What the real indexes return, and how often it is what counting the same signatures by hand gives."""

    exact: Quality
    approximate: Quality
    as_counted: int


def true_differences(seed: int, trials: int, widest: float) -> Floats:
    """One row a query. The models that fit its budget come first: which they are has nothing to do with answers."""
    return np.random.default_rng(seed).uniform(0, widest, (trials, MODELS))


def quality(differences: Floats, fitting: int, chosen: Sequence[int] | NDArray[np.intp]) -> Quality:
    best, got = differences[:, :fitting].min(axis=1), differences[np.arange(len(chosen)), chosen]
    return Quality(float(np.mean(got == best)), float(np.mean(got - best)), len(chosen))


def by_budget(differences: Floats, estimates: Floats) -> dict[int, Quality]:
    """For each number of models that fit: of the one that is estimated to be nearest."""
    return {n: quality(differences, n, estimates[:, :n].argmin(axis=1)) for n in OTHER_BUDGETS}


def counted(random: np.random.Generator, differences: Floats, probes: int) -> Floats:
    """How many probes differ; of equals a random one is first, as the order of insertion is."""
    return np.asarray(random.binomial(probes, differences) + random.random(differences.shape) / 2)


def inferred(differences: Floats) -> Floats:
    """From the reference, as transitivity has them."""
    guesses = np.empty(differences.shape)
    for trial, row in enumerate(differences):
        order = np.random.default_rng(trial).permutation(len(row))  # of insertion; the reference comes last
        inserted = np.append(row[order], 0.0)
        known = infer(partial(_between, inserted), len(inserted), seed=trial)[-1]
        guesses[trial, order] = known[:-1]
    return guesses


def _between(differences: Floats, one: int, others: NDArray[np.int64]) -> Floats:
    """How much models differ from each other that differ from the reference on independent inputs: where one of them
    does, and nearly always where both do, since there are many other classes."""
    first, second = differences[one], differences[others]
    both = first * second
    return np.asarray(first + second - both - both / (CLASSES - 1))


def probes_needed(curve: Mapping[int, Quality], target: float) -> int | None:
    """The fewest probes of the ladder with which signatures return the ideal model in this share of queries."""
    return next((probes for probes, found in curve.items() if found.reaches(target)), None)


# --- with real indexes


def by_real_indexes(random: np.random.Generator, differences: Floats, probes: int) -> Real:
    exact, approximate, as_counted = [], [], 0
    for row in differences:
        reference = random.integers(0, CLASSES, probes, np.uint16)
        signatures = {str(n): _answers(random, reference, row[n]) for n in random.permutation(MODELS)}
        index = _filled(reference, signatures)
        exact.append(_nearest(index))
        approximate.append(_nearest(index, "transitivity"))
        as_counted += exact[-1] == _by_hand(reference, signatures)
    return Real(quality(differences, FITTING, exact), quality(differences, FITTING, approximate), as_counted)


def _answers(random: np.random.Generator, reference: NDArray[np.uint16], difference: float) -> NDArray[np.uint16]:
    """The reference's, but another class on a random share of the probes."""
    answers = reference.copy()
    differs = random.choice(len(answers), random.binomial(len(answers), difference), replace=False, shuffle=False)
    answers[differs] = (reference[differs] + random.integers(1, CLASSES, len(differs), np.uint16)) % CLASSES
    return answers


def _filled(reference: NDArray[np.uint16], signatures: Mapping[str, NDArray[np.uint16]]) -> SemanticIndex:
    index = open_semantic(None, dataset="synthetic", probes=len(reference))
    for key, answers in signatures.items():
        index.insert(key, answers)
    index.insert(REFERENCE, reference)
    return index


def _nearest(index: SemanticIndex, approximate: Approximate | None = None) -> int:
    ranked = index.nearest(REFERENCE, len(index), approximate=approximate)
    return next(int(near.key) for near in ranked if int(near.key) < FITTING)


def _by_hand(reference: NDArray[np.uint16], signatures: Mapping[str, NDArray[np.uint16]]) -> int:
    """Without any of the index's code; of equals the first that was inserted."""
    fitting = {int(key): answers for key, answers in signatures.items() if int(key) < FITTING}
    return min(fitting, key=lambda number: np.sum(fitting[number] != reference))


# --- printing


def report(trials: int, probes: int, signed: int) -> list[str]:
    """Print everything; what failed of it."""
    print(SETTING)
    return [line for widest in TARGETS for line in _show(widest, trials, probes, signed)]


def _show(widest: float, trials: int, probes: int, signed: int) -> list[str]:
    random, target = np.random.default_rng(7), TARGETS[widest]
    differences = true_differences(2022, trials, widest)
    counts = {n: by_budget(differences, counted(random, differences, n)) for n in sorted({*LADDER, *SHOWN, probes})}
    guesses = by_budget(differences[: trials // 5], inferred(differences[: trials // 5]))
    real = by_real_indexes(random, differences[:signed], probes)
    print(f"\nTrue differences uniform in 0–{_percent(widest)}; {FITTING} of {MODELS} models fit")
    for number in sorted({*SHOWN, probes}):
        _line(f"signatures, {number:>6,} probes", counts[number][FITTING])
    _line(f"{ANCHORS} random models and transitivity", guesses[FITTING])
    _line(f"real index, {probes:>6,} probes", real.exact, f"as counted by hand: {real.as_counted} of {signed}")
    _line("real index, transitivity", real.approximate)
    _show_budgets(counts, guesses, target, probes)
    return list(_failures(f"0–{_percent(widest)}", counts[probes][FITTING], real, target))


def _show_budgets(
    counts: Mapping[int, Mapping[int, Quality]], guesses: Mapping[int, Quality], target: float, probes: int
) -> None:
    print(
        f"  {'models that fit':>17}  {f'probes for ≥ {_percent(target)}':>17}  {f'{probes:,} probes':>15}  transitivity"
    )
    for fitting in OTHER_BUDGETS:
        needed = probes_needed({number: found[fitting] for number, found in counts.items()}, target)
        said = f"{needed:,}" if needed else f"over {max(counts):,}"
        shares = f"{100 * counts[probes][fitting].ideal:13.1f} %  {100 * guesses[fitting].ideal:10.1f} %"
        print(f"  {fitting:17}  {said:>17}  {shares}")


def _failures(name: str, found: Quality, real: Real, target: float) -> list[str]:
    checks = {
        f"signatures return the ideal model in ≥ {_percent(target)} of queries": found.reaches(target),
        f"the real index does not contradict ≥ {_percent(target)}": not real.exact.contradicts(target),
        "the real index answers as counting by hand": real.as_counted == real.exact.trials,
    }
    for check, passed in checks.items():
        print(f"  goal: {check}: {'met' if passed else 'NOT met'}")
    return [f"{name}: {check}" for check, passed in checks.items() if not passed]


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _line(name: str, found: Quality, remark: str = "") -> None:
    share = f"{100 * found.ideal:5.1f} % ± {100 * found.error:.1f}"
    after = f"{100 * found.excess:.3f} points further than ideal"
    print(f"  {name:36} ideal {share:>13}  {after}  {found.trials:6,} queries  {remark}".rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20_000, help="queries; a fifth of them with transitivity")
    parser.add_argument("--probes", type=int, default=30_000, help="of the real indexes, and of the goal")
    parser.add_argument("--signed", type=int, default=800, help="queries with real indexes")
    chosen = parser.parse_args()
    raise SystemExit(1 if report(chosen.trials, chosen.probes, chosen.signed) else 0)


if __name__ == "__main__":
    main()
