"""Where hardly any answer is right: are the classes of the data numbered in another order than the model's outputs?

Orders that people really use are tried as variants like any other: by name, by number sorted as text, by number inside
a name. Where none of them fits, the answers themselves tell: a model that always answers 7 where the label is 3 has
learnt the class and calls it otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import wilson
from zoolens.base.statistics.significance import exact_mcnemar, no_better_than_guessing
from zoolens.findings.audit.doctor.bench import Level, VariantBench
from zoolens.findings.audit.doctor.diagnosis import Diagnosis, Status
from zoolens.findings.audit.doctor.evidence import ALPHA, FEWEST, Evidence
from zoolens.findings.audit.doctor.variants import DECLARED, Axis, AxisChoice, Variant, with_output
from zoolens.inventory.datasets.imagenet import imagenet_classes
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.preprocess.classlookup import find_classes

POOR: Final = 0.5  # top-1 below which other orders are tried
GAP: Final = 0.3  # of top-1, between answers as labelled and answers renamed, that only another order explains

Order = Sequence[int]  # for each class of the data the output that stands for it


@dataclass(frozen=True)
class Separation:
    """How often answers are right once each is read as the class it mostly stands for, learnt on other images."""

    n: int
    right: int

    @property
    def accuracy(self) -> float:
        return self.right / self.n


def needs_other_orders(bench: VariantBench, best: Variant) -> bool:
    """Whether answers are classes, and so seldom right that their order may be wrong.

    Where other labels are the best there is, another order may be better still: of two classes that are exchanged, an
    offset puts one right.
    """
    evidence = bench.measure(best, Level.SELECTION)
    if evidence.distance is None or evidence.n < FEWEST:
        return False
    return (evidence.value or 0.0) < POOR or best.choice("labels") is not None


def with_orders(axes: Sequence[Axis], choices: Sequence[AxisChoice]) -> list[Axis]:
    """Return the axes with further choices for the labels."""
    return [replace(axis, choices=(*axis.choices, *choices)) if axis.slot == "labels" else axis for axis in axes]


def order_choices(
    manifest: Manifest, outputs: int, names: Sequence[str] | None, labels: Sequence[str] | None
) -> list[AxisChoice]:
    """Orders that are not the one in use. `names`: the dataset's classes; `labels`: the model's; `outputs`: how many
    there are once the manifest's steps are done."""
    if manifest.outputs[0].label_map:
        return [AxisChoice("labels", "label order", "outputs as they come", _mapped(None))]
    title_of_order: dict[tuple[int, ...], str] = {}
    for title, order in _plausible(outputs, names, labels):
        if list(order) != list(range(outputs)):
            title_of_order.setdefault(tuple(order), title)
    return [AxisChoice("labels", "label order", title, _mapped(order)) for order, title in title_of_order.items()]


def doubt(diagnosis: Diagnosis, bench: VariantBench, best: Variant) -> Diagnosis:
    """Return the diagnosis, or a suspicious one if it would call a manifest right whose accuracy is near chance; an
    undecided one if its accuracy is near that of the commonest class."""
    evidence, labels = bench.measure(best, Level.SELECTION), bench.data[Level.SELECTION].labels()
    if evidence.distance is None or evidence.n < FEWEST or evidence.error is not None:
        return diagnosis
    mended = any(fault.factor != "scores" for fault in diagnosis.faults)
    guessing = no_better_than_guessing(evidence.right, labels)
    declared, accuracy = bench.measure(DECLARED, Level.SELECTION), evidence.value or 0.0
    hidden = hidden_order(declared, labels, accuracy) or hidden_order(evidence, labels, accuracy)
    if hidden is None and evidence.one_answer:
        answer = int(evidence.distance[0] + labels[0])
        sentence = (
            f"Nothing works: every one of {evidence.n:,} {bench.noun} of several classes is answered with class "
            f"{answer}. Suspect the weights, the preprocessing and the tensors that the manifest names."
        )
        return diagnosis.suspicious(sentence)
    if hidden is None and not guessing and diagnosis.status is Status.RIGHT:
        if _informative(evidence, labels):
            return diagnosis
        remedy = f"Use more labelled {bench.noun} of other classes."
        return diagnosis.undecided(_uninformed(evidence, labels, bench.noun), remedy)
    if hidden is None and (not guessing or mended or not bench.enough):
        return diagnosis
    sentence = _sentence(evidence, len(diagnosis.trials) - 1, len(np.unique(labels)), guessing, hidden, bench.noun)
    # It rests on a change that happens to fit a few of the classes: it would correct one error by another.
    if mended:
        return diagnosis.suspicious(sentence)
    if diagnosis.faults:
        sentence += f" Besides: {diagnosis.sentence}"
    return replace(diagnosis, status=Status.SUSPICIOUS, sentence=sentence)


def _informative(evidence: Evidence, labels: NDArray[Any]) -> bool:
    """Whether answers are right more often, by more than noise, than the commonest class would be for all inputs."""
    common = labels == _most_frequent(labels)
    won, lost = (int(np.count_nonzero(flags)) for flags in (evidence.right & ~common, ~evidence.right & common))
    return won > lost and exact_mcnemar(lost, won) < ALPHA


def _uninformed(evidence: Evidence, labels: NDArray[Any], noun: str) -> str:
    common = float(np.mean(labels == _most_frequent(labels)))
    return (
        f"Undecided: no variant is better, but top-1 ({100 * (evidence.value or 0):.1f} % of {evidence.n:,} {noun}) is "
        f"not higher by more than noise than that of answering the commonest class always ({100 * common:.1f} %), so "
        f"that it hardly tells variants apart; use more {noun} of other classes."
    )


def hidden_order(evidence: Evidence, labels: NDArray[Any], accuracy: float) -> Separation | None:
    """Return the accuracy after renaming the answers, where that is far above both baselines; else None.

    The baselines are the best `accuracy` with the labels as they are, and the most frequent class.
    """
    if evidence.error is not None or evidence.distance is None:
        return None
    answers = evidence.distance + labels
    # The names are learnt on one half of the images and judged on the other, or they would fit anything.
    learnt = np.arange(len(labels)) % 2 == 0
    judged = ~learnt
    meaning = {}
    for answer in np.unique(answers[learnt]).tolist():
        meaning[answer] = _most_frequent(labels[learnt & (answers == answer)])
    renamed = np.array([meaning.get(answer, -1) for answer in answers[judged].tolist()])
    right = int(np.count_nonzero(renamed == labels[judged]))
    separation = Separation(int(judged.sum()), right)
    majority = float(np.mean(labels == _most_frequent(labels)))
    baseline = max(majority, accuracy)
    sure = wilson(separation.right, separation.n).low > baseline
    return separation if sure and separation.accuracy > baseline + GAP else None


def _most_frequent(values: NDArray[Any]) -> int:
    return int(np.bincount(values).argmax())


def _sentence(
    evidence: Evidence, variants: int, classes: int, guessing: bool, hidden: Separation | None, noun: str
) -> str:
    tried = f"{variants} variants, orders of the labels among them"
    text = (
        f"Nothing works: neither as declared nor with any of {tried}, is top-1 ({100 * (evidence.value or 0):.1f} % of "
        f"{evidence.n:,} {noun}) better than guessing among {classes} classes."
        if guessing
        else f"Hardly anything works: top-1 is {100 * (evidence.value or 0):.1f} % of {evidence.n:,} {noun}, as "
        f"declared and with any of {tried}."
    )
    if hidden is None:
        return (
            f"{text} Suspect the label order, then the weights: say which class each output stands for with labels or "
            "a label_map in the manifest, or with a classes.txt beside the data."
        )
    return (
        f"{text} The label order is wrong: read as the class that each mostly stands for on one half of the {noun}, "
        f"the answers are right on {100 * hidden.accuracy:.1f} % of the other half ({hidden.n:,} {noun}). Say which "
        "class each output stands for with labels or a label_map in the manifest."
    )


# --- orders people use


def _plausible(outputs: int, names: Sequence[str] | None, labels: Sequence[str] | None) -> Iterator[tuple[str, Order]]:
    if outputs == 2:
        yield "the two classes exchanged", [1, 0]
    as_text = _ranks([str(index) for index in range(outputs)])
    yield "outputs are class numbers sorted as text (0, 1, 10, 2 …)", as_text
    yield "labels are class numbers sorted as text (0, 1, 10, 2 …)", _inverse(as_text)
    if names and len(names) == outputs:
        for title, key in _SORTINGS:
            ranks = _ranks([key(name) for name in names])
            yield f"outputs are the dataset's classes {title}", ranks
            yield f"labels are the dataset's classes {title}", _inverse(ranks)
        english = _english(names)
        if english:
            yield "outputs are the dataset's classes sorted by their English names", _ranks(english)
    if labels and len(labels) == outputs:
        for title, key in _SORTINGS:
            yield f"labels are the model's classes {title}", _inverse(_ranks([key(label) for label in labels]))


def _with_numbers(name: str) -> list[tuple[bool, int, str]]:
    """Sorts "class2" before "class10"."""
    parts = re.findall(r"\d+|\D+", name)
    return [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


_SORTINGS: Final[tuple[tuple[str, Callable[[str], Any]], ...]] = (
    ("in the order of the alphabet", str),
    ("in the order of the alphabet, capitals and small letters alike", str.casefold),
    ("sorted by the numbers in their names", _with_numbers),
)


def _english(names: Sequence[str]) -> list[str] | None:
    """The English names of WordNet ids."""
    known = imagenet_classes()
    places = find_classes(names, known)
    english = [known[place][10:].casefold() for place in places if place is not None]
    return english if len(english) == len(names) else None


def _ranks(keys: Sequence[Any]) -> list[int]:
    """The place of each key among the sorted ones."""
    return _inverse(sorted(range(len(keys)), key=lambda index: keys[index]))


def _inverse(order: Order) -> list[int]:
    inverse = [0] * len(order)
    for place, index in enumerate(order):
        inverse[index] = place
    return inverse


def _mapped(order: Order | None) -> Callable[[Manifest], Manifest]:
    mapping = None if order is None else {output: label for label, output in enumerate(order)}
    return lambda manifest: with_output(manifest, label_map=mapping)
