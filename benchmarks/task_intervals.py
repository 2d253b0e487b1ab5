"""Do the intervals of AP, mIoU, entity F1, mAP, AUC, Spearman and exact match hold, and those of `compare`?

    python benchmarks/task_intervals.py [--reps 400] [--sizes 50 200 1000] [--only detection] [--store FILE]

For each task a population of 4,000 inputs is made up: two models that find the same inputs hard, answers and truths
kept as a run keeps them, figures computed by the task itself. The figures of the whole population are the truth.
Samples of n inputs are drawn from it, and the product's own functions say what they say of a sample:

- the interval of one model's metric (`zoolens eval`), and the share of samples in which none is given;
- the interval of the difference of the two models (`zoolens compare`);
- how often `compare` calls two models different at 5 % that are equally good: in that population each input is there
  twice, the second time with the answers of the two models exchanged;
- the bound on the mean agreement that `equiv` gives.

`--store`: a store with finished evaluations. The agreement of each two of its runs on the same inputs is then a
population too. The exit status is 1 where a coverage is below its nominal value by more than three standard errors.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.anytime import bounded_mean_lower, paired_lowers
from zoolens.base.statistics.resampling import Aggregate, Limits, resampled_difference, resampled_estimate
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.preprocess.box_outputs import ImageBoxes
from zoolens.inventory.tasks.detection import Found, detected, true_boxes
from zoolens.inventory.tasks.multilabel import Probabilities
from zoolens.inventory.tasks.scoring.box_figures import BoxAccumulator
from zoolens.inventory.tasks.scoring.box_matching import ImageParts, match_boxes
from zoolens.inventory.tasks.task import TRUTH_KNOWN, Answers, Task, taken_answers, task_named

INPUTS = 4_000
LEVEL = 0.95
Random = np.random.Generator
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Population:
    """The answers of two models to the same inputs: first those of A, then those of B."""

    name: str
    metrics: tuple[str, ...]
    answers: Answers

    @property
    def task(self) -> Task:
        return task_named(self.answers.task)

    def judged(self, rows: Rows) -> Callable[[str], tuple[Aggregate, Limits]]:
        """The aggregate and the limits of a metric on some of the answers, by its name."""
        judgement = self.task.judgement(taken_answers(self.answers, rows))
        assert judgement is not None
        limits = {metric.name: metric.limits for metric in judgement.metrics}
        return lambda name: (judgement.of(name), limits[name])

    @property
    def agreement(self) -> NDArray[np.float64]:
        a, b = (taken_answers(self.answers, np.arange(INPUTS) + start) for start in (0, INPUTS))
        return self.task.agreement(a, b)


class BoxPopulation(Population):
    """Boxes are matched once: the parts of an image are the same in every sample."""

    @cached_property
    def parts(self) -> list[ImageParts]:
        return [match_boxes(*pair) for pair in zip(detected(self.answers), true_boxes(self.answers), strict=True)]

    def judged(self, rows: Rows) -> Callable[[str], tuple[Aggregate, Limits]]:
        accumulator = BoxAccumulator([self.parts[row] for row in rows])
        return lambda name: (lambda weights: accumulator.resampled(weights)[0][:, 0], (0.0, 1.0))


# --- populations


def kept(name: str, values: Any, truths: Sequence[Truth]) -> Answers:
    """What a run keeps of the values of both models, one behind the other."""
    task, twice = task_named(name), [*truths, *truths]
    known = np.ones(len(twice), np.int8)
    return Answers("out", name, task.keep(values, None), truths={**task.keep_truth(twice), TRUTH_KNOWN: known})


def detection(random: Random, models: Sequence[float]) -> Population:
    """Four classes, the rarest in an eighth of the images; in a hard image objects are missed and boxes are loose."""
    shares = np.array([1.2, 0.5, 0.25, 0.13])
    truths: list[Truth] = []
    found: list[list[Found]] = [[] for _ in models]
    for _ in range(INPUTS):
        ease = random.normal()
        classes = np.repeat(np.arange(4), random.poisson(shares))
        sides = np.exp(random.normal(4, 0.8, (len(classes), 2)))
        boxes = np.c_[random.uniform(0, 500, (len(classes), 2)), sides]
        about = {
            "boxes": boxes,
            "classes": classes,
            "areas": sides.prod(axis=1),
            "crowds": np.zeros(len(classes), bool),
        }
        truths.append(Truth("boxes", about))
        for place, skill in enumerate(models):
            found[place].append(_detections(boxes, classes, skill + ease, random))
    return BoxPopulation("detection", ("ap",), kept("detection", [*found[0], *found[1]], truths))


def _detections(boxes: NDArray[np.float64], classes: Rows, skill: float, random: Random) -> Found:
    sure = _logistic(skill + random.normal(0, 1, len(boxes)))
    seen = random.random(len(boxes)) < sure
    loose = 0.22 * (1.2 - sure[seen, None]) * boxes[seen][:, [2, 3, 2, 3]]
    near = boxes[seen] + loose * random.normal(0, 1, (int(seen.sum()), 4))
    near[:, 2:] = np.maximum(near[:, 2:], 1)
    alarms = int(random.poisson(1.5))
    wrong = np.c_[random.uniform(0, 500, (alarms, 2)), np.exp(random.normal(4, 0.8, (alarms, 2)))]
    scores = np.r_[_logistic(2 * skill / 3 + random.normal(0, 1, len(near))), 0.6 * random.beta(1, 3, alarms)]
    labels = np.r_[classes[seen], random.integers(0, 4, alarms)]
    order = np.argsort(-scores, kind="stable")
    return Found(ImageBoxes(np.r_[near, wrong][order], labels[order].astype(np.int64), scores[order]), 0)


def segmentation(random: Random, models: Sequence[float]) -> Population:
    """Patches of five classes on images of 16 × 16, the rarest in a sixth of them; whole patches are mistaken."""
    chances = np.array([0.55, 0.2, 0.12, 0.1, 0.03])
    truths: list[Truth] = []
    masks: list[list[NDArray[np.uint16]]] = [[] for _ in models]
    for _ in range(INPUTS):
        ease = random.normal()
        patches = random.choice(5, (4, 4), p=chances / chances.sum())
        truths.append(Truth("mask", {"mask": np.kron(patches, np.ones((4, 4), int)).astype(np.uint8)}))
        for place, skill in enumerate(models):
            right = random.random((4, 4)) < _logistic(skill + ease)
            answered = np.kron(np.where(right, patches, random.choice(5, (4, 4), p=chances)), np.ones((4, 4), int))
            masks[place].append(np.roll(answered, int(random.integers(0, 2)), axis=1).astype(np.uint16))
    return Population("segmentation", ("miou",), kept("segmentation", [*masks[0], *masks[1]], truths))


def tags(random: Random, models: Sequence[float]) -> Population:
    """Texts of very different length, some without entities, with three types, one of them rare."""
    kinds, chances = np.array(["PER", "LOC", "ORG"]), [0.5, 0.4, 0.1]
    truths: list[Truth] = []
    answers: list[list[Any]] = [[] for _ in models]
    for _ in range(INPUTS):
        ease, entities = random.normal(), int(np.floor(np.exp(random.normal(0.5, 1.0))))
        types = random.choice(kinds, entities, p=chances)
        truths.append(Truth("tags", {"tags": _spread(types).astype(str)}))
        for place, skill in enumerate(models):
            sure = random.random(entities) < _logistic(skill + ease)
            said = np.where(sure, types, random.choice(np.array([*kinds, ""]), entities))
            alarms = (random.random(2) < 0.1).tolist()
            answers[place].append(_spread(said, alarms))
    return Population("tags", ("f1",), kept("token-classification", [*answers[0], *answers[1]], truths))


def _spread(types: NDArray[np.str_], alarms: Sequence[bool] = (False, False)) -> NDArray[np.object_]:
    """Each entity is two words with a word between it and the next; two words behind them may be mistaken for one."""
    words = [tag for kind in types for tag in ((f"B-{kind}", f"I-{kind}", "O") if kind else ("O", "O", "O"))]
    return np.array([*words, *("B-PER" if alarm else "O" for alarm in alarms)], object)


def spans(random: Random, models: Sequence[float]) -> Population:
    words = np.array([f"w{number}" for number in range(50)])
    truths: list[Truth] = []
    answers: list[list[Any]] = [[] for _ in models]
    for _ in range(INPUTS):
        ease, true = random.normal(), list(random.choice(words, 1 + random.poisson(1.5)))
        truths.append(Truth("spans", {"texts": np.array([" ".join(true)])}))
        for place, skill in enumerate(models):
            # Right, with words too many or too few, or elsewhere.
            lot = random.random() - _logistic(skill + ease)
            said = true if lot < 0 else [*true, "more"] if lot < 0.15 else true[:1] if lot < 0.3 else ["else"]
            answers[place].append(" ".join(said))
    return Population("spans", ("f1", "exact_match"), kept("question-answering", [*answers[0], *answers[1]], truths))


def labels(random: Random, models: Sequence[float]) -> Population:
    shares = np.array([0.5, 0.3, 0.2, 0.1])
    present = random.random((INPUTS, 4)) < shares
    ease = random.normal(0, 0.7, (INPUTS, 1))
    truths = [Truth("labels", {"present": row.astype(np.int8)}) for row in present]
    answers = []
    for skill in models:
        logits = (2 * present - 1) * (skill + ease) + random.normal(0, 1.5, present.shape) - 0.5
        answers.append(_logistic(logits).astype(np.float32))
    both = Probabilities(np.concatenate(answers), 0.5)
    return Population("labels", ("map", "macro_auc"), kept("multilabel", both, truths))


def numbers(random: Random, models: Sequence[float]) -> Population:
    """True values with many ties, as ratings have them."""
    true = np.round(random.normal(0, 1.2, INPUTS) * 5) / 5
    hard = np.exp(random.normal(0, 0.4, INPUTS))
    shared = random.normal(0, 0.4, INPUTS)
    truths = [Truth("value", {"value": np.array([value])}) for value in true]
    answers = [
        (true + hard * (shared + random.normal(0, 1.6 - skill, INPUTS)))[:, None].astype(np.float32) for skill in models
    ]
    return Population("numbers", ("spearman", "mae"), kept("regression", np.concatenate(answers), truths))


def _logistic(values: NDArray[np.float64] | float) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-np.asarray(values, np.float64))))


MAKERS: dict[str, tuple[Callable[[Random, Sequence[float]], Population], tuple[float, float]]] = {
    "detection": (detection, (0.8, 1.2)),
    "segmentation": (segmentation, (1.5, 1.8)),
    "tags": (tags, (1.5, 1.9)),
    "spans": (spans, (0.5, 0.8)),
    "labels": (labels, (1.0, 1.2)),
    "numbers": (numbers, (0.9, 1.0)),
}


# --- what is said of samples of them


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
        return self.said > 0 and self.share < LEVEL - 3 * self.error


def sampled(population: Population, n: int, reps: int, seed: int = 0) -> Iterator[tuple[str, Tally]]:
    """Coverage of one model's metrics, of their difference, and how often equal models are not called different."""
    random = np.random.default_rng(seed)
    ones = np.ones((1, INPUTS), np.int64)
    whole = [population.judged(np.arange(INPUTS) + start) for start in (0, INPUTS)]
    true = {name: [float(of(name)[0](ones)[0]) for of in whole] for name in population.metrics}
    of_one, of_two, of_equal = ({name: Tally() for name in population.metrics} for _ in range(3))
    for _ in range(reps):
        rows = random.integers(0, INPUTS, n)
        exchanged = INPUTS * random.integers(0, 2, n)
        a, b, first, second = (population.judged(rows + start) for start in (0, INPUTS, exchanged, INPUTS - exchanged))
        for name in population.metrics:
            (of_a, limits), (of_b, _) = a(name), b(name)
            found = resampled_estimate(of_a, n, limits).interval
            of_one[name].add(None if found is None else found.contains(true[name][0]))
            found = resampled_difference(of_a, of_b, n, limits).interval
            of_two[name].add(None if found is None else found.contains(true[name][1] - true[name][0]))
            p_value = resampled_difference(first(name)[0], second(name)[0], n, limits).p_value
            of_equal[name].add(None if p_value is None else p_value >= 1 - LEVEL)
    for name in population.metrics:
        yield f"{name} {true[name][0]:.3f}", of_one[name]
        yield f"{name} {true[name][1] - true[name][0]:+.3f}, difference", of_two[name]
        yield f"{name}, equal models not called different", of_equal[name]


def agreements(population: NDArray[np.float64], n: int, reps: int, seed: int = 0) -> Tally:
    """How often the mean agreement is at least what `bounded_mean_lower` promises; all samples at once."""
    rows = np.random.default_rng(seed).choice(population, (reps, n))
    lowers = (1 + paired_lowers(2 * rows - 1, 1 - LEVEL)) / 2
    assert math.isclose(lowers[0], bounded_mean_lower(rows[0], 1 - LEVEL))
    held = int((lowers <= population.mean()).sum())
    return Tally(held, reps, reps)


def stored_agreements(path: str) -> Iterator[tuple[str, NDArray[np.float64]]]:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=400)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--only", choices=list(MAKERS), nargs="*", default=list(MAKERS))
    parser.add_argument("--agreement", action="store_true", help="sample agreements alone")
    parser.add_argument("--store", help="a store whose runs' agreements are sampled too")
    chosen = parser.parse_args()
    failed = 0
    agreeing: list[tuple[str, NDArray[np.float64]]] = []
    for name in chosen.only:
        make, models = MAKERS[name]
        population = make(np.random.default_rng(1), models)
        agreeing.append((f"two made-up models of {name}", population.agreement))
        for n in () if chosen.agreement else chosen.sizes:
            begun = time.perf_counter()
            # A sample of 1,000 takes twenty times as long as one of 50, and its coverage differs less from 95 %.
            for what, tally in sampled(population, n, chosen.reps if n < 1000 else chosen.reps // 2):
                failed += tally.fails()
                verdict = "MISSED" if tally.fails() else ""
                print(f"{name:13} n={n:<5,} {what:45} {tally.text():24} {verdict}", flush=True)
            print(f"{name:13} n={n:<5,} {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    agreeing += list(stored_agreements(chosen.store)) if chosen.store else []
    for what, population_ in agreeing:
        for n in chosen.sizes:
            tally = agreements(population_, n, 5 * chosen.reps)
            failed += tally.fails()
            verdict = "MISSED" if tally.fails() else ""
            print(f"agreement {100 * population_.mean():5.1f} % n={n:<5,} {what:60} {tally.text():20} {verdict}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
