"""Which index returns the ideal model: exact signatures over n probes, or five random comparisons and transitivity?

    python benchmarks/transitivity.py [--trials 4000] [--models 60] [--fitting 20] [--quick]

A synthetic re-creation of the published query-quality experiment. A reference and the models of an index answer inputs
of a population; the share of inputs on which a model differs from the reference (its true difference) is uniform in
0–10 % or 0–4 %, independently for each model and input. A query asks for the nearest of the models that fit a budget.
The ideal answer has the smallest true difference of those; nothing else counts as right. Everything is seeded.

With signatures a model's difference is how many of n random probes it answers differently. With transitivity the
reference was compared with five random models of the index, and they with five each before; the differences of these
comparisons are the true ones here, which is more than any number of probes can tell. Then both again with the real
indexes of `zoolens.index` and real signatures, for fewer trials.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoolens.index.semantic import Approximate, SemanticIndex, open_semantic
from zoolens.index.transitivity import ANCHORS, infer

CLASSES = 1000
PROBES = (300, 1_000, 3_000, 10_000, 20_000, 30_000, 100_000)
LADDER = (500, 1_000, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000, 20_000, 30_000, 40_000, 60_000, 100_000, 200_000)
TARGETS = {0.10: 0.95, 0.04: 0.90}  # widest difference -> share of queries that return the ideal model
REFERENCE = "reference"

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


def true_differences(seed: int, trials: int, models: int, widest: float) -> Floats:
    """One row a query. The models that fit its budget come first: which they are has nothing to do with answers."""
    return np.random.default_rng(seed).uniform(0, widest, (trials, models))


def quality(differences: Floats, fitting: int, chosen: list[int]) -> Quality:
    best, got = differences[:, :fitting].min(axis=1), differences[np.arange(len(chosen)), chosen]
    return Quality(float(np.mean(got == best)), float(np.mean(got - best)), len(chosen))


def by_signatures(random: np.random.Generator, differences: Floats, fitting: int, probes: int) -> Quality:
    """The fewest differing probes; of equals a random one, as the order of insertion is."""
    counts = random.binomial(probes, differences[:, :fitting]) + random.random((len(differences), fitting)) / 2
    return quality(differences, fitting, counts.argmin(axis=1).tolist())


def by_transitivity(differences: Floats, fitting: int) -> Quality:
    chosen = []
    for trial, row in enumerate(differences):
        order = np.random.default_rng(trial).permutation(len(row))  # of insertion; the reference comes last
        inserted = np.append(row[order], 0.0)
        known = infer(lambda new, others, d=inserted: _between(d[new], d[others]), len(inserted), seed=trial)[-1]
        guess = np.empty(len(row), np.float32)
        guess[order] = known[:-1]
        chosen.append(int(guess[:fitting].argmin()))
    return quality(differences, fitting, chosen)


def _between(one: float, others: Floats) -> Floats:
    """How much models differ from each other that differ from the reference on independent inputs: where one of them
    does, and nearly always where both do, since there are many other classes."""
    both = one * others
    return np.asarray(one + others - both - both / (CLASSES - 1))


def probes_needed(random: np.random.Generator, differences: Floats, fitting: int, target: float) -> int | None:
    """The fewest probes of a coarse ladder with which signatures return the ideal model in this share of queries."""
    found = (probes for probes in LADDER if by_signatures(random, differences, fitting, probes).ideal >= target)
    return next(found, None)


# --- with real indexes


def by_real_indexes(
    random: np.random.Generator, differences: Floats, fitting: int, probes: int
) -> tuple[Quality, Quality]:
    """Of exact signatures, and of transitivity, over the same indexes."""
    exact, approximate = [], []
    for row in differences:
        index = _filled(random, row, probes)
        exact.append(_nearest(index, fitting))
        approximate.append(_nearest(index, fitting, "transitivity"))
    return quality(differences, fitting, exact), quality(differences, fitting, approximate)


def _filled(random: np.random.Generator, differences: Floats, probes: int) -> SemanticIndex:
    reference = random.integers(0, CLASSES, probes)
    index = open_semantic(None, dataset="synthetic", probes=probes)
    for number in random.permutation(len(differences)):
        other = (reference + random.integers(1, CLASSES, probes)) % CLASSES
        index.insert(str(number), np.where(random.random(probes) < differences[number], other, reference))
    index.insert(REFERENCE, reference)
    return index


def _nearest(index: SemanticIndex, fitting: int, approximate: Approximate | None = None) -> int:
    ranked = index.nearest(REFERENCE, len(index), approximate=approximate)
    return next(int(near.key) for near in ranked if int(near.key) < fitting)


# --- printing


def show(differences: Floats, fitting: int, target: float, signed: int, probes: int) -> None:
    random = np.random.default_rng(7)
    curve = {count: by_signatures(random, differences, fitting, count) for count in sorted({*PROBES, probes})}
    for count, found in curve.items():
        _line(f"signatures, {count:>7,} probes", found)
    _line(f"transitivity over {ANCHORS}", by_transitivity(differences, fitting))
    exact, approximate = by_real_indexes(random, differences[:signed], fitting, probes)
    _line(f"real index, {probes:>7,} probes", exact)
    _line("  with transitivity", approximate)
    needed = probes_needed(random, differences, fitting, target)
    print(f"  ideal in ≥ {target:.0%} of queries needs {f'{needed:,}' if needed else f'over {LADDER[-1]:,}'} probes")
    verdict = "met" if curve[probes].ideal >= target else "NOT met"
    print(f"  goal ≥ {target:.0%} with {probes:,} probes: {verdict}")


def _line(name: str, found: Quality) -> None:
    share = f"{100 * found.ideal:5.1f} % ± {100 * found.error:.1f}"
    print(f"  {name:28} ideal {share:>13}   {100 * found.excess:.3f} points further than ideal   n = {found.trials:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4_000)
    parser.add_argument("--models", type=int, default=60, help="in the index")
    parser.add_argument("--fitting", type=int, default=20, help="of them, within the budget of a query")
    parser.add_argument("--probes", type=int, default=30_000, help="of the real indexes, and of the goal")
    parser.add_argument("--signed", type=int, default=100, help="trials with real indexes")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    chosen = parser.parse_args()
    trials, signed = (chosen.trials // 10, chosen.signed // 10) if chosen.quick else (chosen.trials, chosen.signed)
    for widest, target in TARGETS.items():
        print(f"\n{chosen.fitting} of {chosen.models} models fit; true differences uniform in 0–{widest:.0%}")
        differences = true_differences(2022, trials, chosen.models, widest)
        show(differences, chosen.fitting, target, signed, chosen.probes)


if __name__ == "__main__":
    main()
