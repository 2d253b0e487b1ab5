"""Do the intervals of all metrics of tasks hold (AP, mIoU, F1, mAP, AUC, nDCG, error rates), and those of `compare`?

    python benchmarks/task_intervals.py [--reps 400] [--sizes 30 50 100 200 500] [--only "rare classes"] [--store FILE]

For each task populations of 4,000 inputs are made up (`task_populations.py`): two models that find the same inputs
hard, answers and truths kept as a run keeps them, figures computed by the task itself. The figures of the whole
population are the truth. Samples of n inputs are drawn from it, and the product's own functions say what they say of a
sample:

- the interval of each metric of one model (`zoolens eval`), and the share of samples in which none is given;
- the interval of the difference of the two models in the main metric (`zoolens compare`);
- how often `compare` calls two models different at 5 % that are equally good: in that population each input is there
  twice, the second time with the answers of the two models exchanged;
- the bound on the mean agreement that `equiv` and services give.

`--withheld` asks for metrics whose intervals are not printed, such as RMSE and Pearson's correlation. `--main` leaves
out all but the main metric, which for detectors takes a quarter of the time. `--store`: a store with finished
evaluations. The agreement of each two of its runs on the same inputs is then a population too. The exit status is 1
where a coverage is below its nominal value by more than three points and two standard errors.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from population import INPUTS, Population, Rows
from task_populations import MAKERS
from zoolens.base.statistics.anytime import bounded_mean_lower, paired_lowers, share_interval
from zoolens.base.statistics.intervals import Interval
from zoolens.base.statistics.resampling import (
    ResampledEstimate,
    lowered,
    resampled_difference,
    resampled_estimate,
    resampled_estimates,
)
from zoolens.inventory.tasks.judgement import Judgement
from zoolens.inventory.tasks.task import task_named

LEVEL = 0.95
SHORT = 0.03  # below the level, what counts as too narrow
Floats = NDArray[np.float64]


@dataclass
class Tally:
    """How often something held, of the samples in which it was said."""

    held: int = 0
    said: int = 0
    asked: int = 0

    def add(self, held: bool | None) -> None:
        self.asked += 1
        self.said += held is not None
        self.held += bool(held)

    def covers(self, interval: Interval | None, truth: float) -> None:
        self.add(None if interval is None else interval.contains(truth))

    @property
    def share(self) -> float:
        return self.held / self.said if self.said else math.nan

    @property
    def error(self) -> float:
        return math.sqrt(LEVEL * (1 - LEVEL) / max(self.said, 1))

    def text(self) -> str:
        missing = "" if self.said == self.asked else f" of {self.said}/{self.asked}"
        return f"{100 * self.share:5.1f} % ± {100 * self.error:.1f}{missing}" if self.said else "none given"

    def fails(self) -> bool:
        return self.said > 0 and self.share < LEVEL - SHORT - 2 * self.error


# --- what is said of samples


@dataclass(frozen=True)
class Asked:
    """Which metrics are looked at."""

    main: bool = False  # the main one alone
    withheld: bool = False  # also those whose intervals are not printed


def sampled(population: Population, n: int, reps: int, asked: Asked) -> dict[str, Tally]:
    """Coverage of the metrics of one model, of the difference, and how often equal models are not called different."""
    random = np.random.default_rng(n)
    true, other = (true_figures(population, of_b) for of_b in (False, True))
    scores = None if asked.main else population.scores()
    truly = None if asked.main else population.next_tokens(np.arange(INPUTS))
    tallies: dict[str, Tally] = defaultdict(Tally)
    for _ in range(reps):
        drawn = random.integers(0, INPUTS, n)
        judged = remembering(population.judged(population.rows(drawn)))
        for name, interval in intervals(judged, n + population.always, asked):
            tallies[f"{name} {true[name]:.3f}"].covers(interval, true[name])
        if scores is not None:
            tallies[f"score {scores.mean():.3f}"].covers(share_interval(scores[drawn])[0], float(scores.mean()))
        name = judged.main.name
        difference = other[name] - true[name]
        found = compared(judged, population.judged(population.rows(drawn, True)), n + population.always)
        tallies[f"{name} {difference:+.3f}, difference"].covers(found.interval, difference)
        if truly is not None and (pair := population.next_tokens(drawn)) is not None:
            tallies[f"kl {truly.divergence:.4f}"].covers(pair.divergence_interval, truly.divergence)
            tallies[f"same best {truly.same_best:.3f}"].covers(pair.same_best_interval, truly.same_best)
        exchanged = random.random(n) < 0.5
        first, second = (population.judged(population.rows(drawn, of_b)) for of_b in (exchanged, ~exchanged))
        p_value = compared(first, second, n + population.always).p_value
        tallies[f"{name}, equal models not called different"].add(None if p_value is None else p_value >= 1 - LEVEL)
    return tallies


def true_figures(population: Population, of_b: bool) -> dict[str, float]:
    """The metrics of all inputs by name, and those of classes with their number."""
    judged = population.judged(population.rows(np.arange(INPUTS), of_b))
    once = np.ones((1, INPUTS + population.always), np.int64)
    found = dict(zip([metric.name for metric in judged.metrics], judged.aggregate(once)[0].tolist(), strict=True))
    if judged.by_class is not None:
        values = judged.by_class.aggregate(once)[0].tolist()
        found |= {f"{judged.by_class.metric.name}.{number}": value for number, value in enumerate(values)}
    return found


def intervals(judged: Judgement, inputs: int, asked: Asked) -> Iterator[tuple[str, Interval | None]]:
    """As `eval` makes them: one pass over the resamples for all."""
    main, classes = judged.main, judged.by_class
    if asked.main:
        found = resampled_estimate(judged.of_main(), inputs, main.limits)
        yield main.name, lowered(found, main.limits, judged.optimism(main.name)).interval
        return
    estimates = iter(resampled_estimates(judged.with_classes, inputs, judged.limits, rows=judged.rows))
    for metric in judged.metrics:
        found = lowered(next(estimates), metric.limits, judged.optimism(metric.name))
        if metric.interval or asked.withheld:
            yield metric.name, found.interval
    if classes is not None:
        for place, number in enumerate(classes.classes):
            found = lowered(next(estimates), classes.metric.limits, classes.optimism(place))
            yield f"{classes.metric.name}.{number}", found.interval


def remembering(judged: Judgement) -> Judgement:
    """The judgement whose main metric is computed once for each weights: intervals of it and of a difference share
    them."""
    known: dict[bytes, Floats] = {}
    of_main = judged.of_main()

    def values(weights: Rows) -> Floats:
        key = hashlib.sha256(weights.tobytes()).digest()
        if key not in known:
            known[key] = of_main(weights)
        return known[key]

    return replace(judged, main_alone=values)


def compared(a: Judgement, b: Judgement, inputs: int) -> ResampledEstimate:
    return resampled_difference(a.of_main(), b.of_main(), inputs, a.main.limits)


# --- bounds on agreement


def agreements(population: Floats, n: int, reps: int) -> Tally:
    """How often the mean agreement is at least what `bounded_mean_lower` promises; all samples at once."""
    rows = np.random.default_rng(0).choice(population, (reps, n))
    lowers = (1 + paired_lowers(2 * rows - 1, 1 - LEVEL)) / 2
    assert math.isclose(lowers[0], bounded_mean_lower(rows[0], 1 - LEVEL))
    held = int((lowers <= population.mean()).sum())
    return Tally(held, reps, reps)


def made_up_agreements() -> Iterator[tuple[str, Floats]]:
    """Agreements that are hard to bound: of few values, skewed, or nearly always 1."""
    random = np.random.default_rng(2)
    many = 100_000
    yield "1 in 99.5 % of inputs, else 0", (random.random(many) >= 0.005).astype(float)
    yield "1 in 99 %, else a half", np.where(random.random(many) < 0.01, 0.5, 1.0)
    yield "1 in 95 %, else anything", np.where(random.random(many) < 0.05, random.random(many), 1.0)
    yield "0, 1/3, 1/2, 2/3 or 1", random.choice([0, 1 / 3, 1 / 2, 2 / 3, 1], many, p=[0.1, 0.1, 0.2, 0.2, 0.4])
    yield "skewed, mostly above 0.9", random.beta(9, 0.6, many)
    yield "skewed, mostly below 0.1", random.beta(0.3, 6, many)
    yield "0 in 99 %, else 1", (random.random(many) < 0.01).astype(float)


def stored_agreements(path: str) -> Iterator[tuple[str, Floats]]:
    """The agreement of each two runs of a store on the same inputs, of tasks whose answers may agree in part."""
    from zoolens.base.store.store import open_store
    from zoolens.findings.comparisons.behaviour import pair_answers
    from zoolens.findings.measure.answers import has_answers, run_predictions

    with open_store(path) as store:
        runs = [run for run in store.runs() if has_answers(run)]
        for a, b in combinations(runs, 2):
            if a.dataset.fingerprint != b.dataset.fingerprint:
                continue
            ours, theirs = (run_predictions(store, run).main for run in (a, b))
            if ours.task == theirs.task and task_named(ours.task).graded:
                names = " and ".join(run.ref.partition(":")[2].partition("@")[0] for run in (a, b))
                yield names, pair_answers(ours, theirs).agreement


# --- the table


def report(where: str, what: str, tally: Tally) -> int:
    print(f"{where} {what:50} {tally.text():26} {'MISSED' if tally.fails() else ''}".rstrip(), flush=True)
    return int(tally.fails())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=400)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30, 50, 100, 200, 500])
    parser.add_argument("--only", choices=list(MAKERS), nargs="*", default=list(MAKERS))
    parser.add_argument("--agreement", action="store_true", help="sample agreements alone")
    parser.add_argument("--main", action="store_true", help="the main metric alone")
    parser.add_argument("--withheld", action="store_true", help="also metrics whose intervals are not printed")
    parser.add_argument("--store", help="a store whose runs' agreements are sampled too")
    chosen = parser.parse_args()
    asked, failed = Asked(chosen.main, chosen.withheld), 0
    agreeing: list[tuple[str, Floats]] = []
    for name in chosen.only:
        make, skills = MAKERS[name]
        population = make(np.random.default_rng(1), skills)
        if population.task.graded:
            agreeing.append((f"two made-up models, {name}", population.agreement[:INPUTS]))
        for n in () if chosen.agreement else chosen.sizes:
            begun = time.perf_counter()
            for what, tally in sampled(population, n, chosen.reps, asked).items():
                failed += report(f"{name:20} n={n:<5,}", what, tally)
            print(f"{name:20} n={n:<5,} {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    agreeing += [*made_up_agreements(), *(stored_agreements(chosen.store) if chosen.store else ())]
    for what, values in agreeing:
        for n in chosen.sizes:
            failed += report(f"agreement {100 * values.mean():5.1f} % n={n:<5,}", what, agreements(values, n, 2000))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
