"""Multi-label classification: any number of labels for each input, each with a probability of its own.

Two models agree on an input by the Jaccard index of the labels that they answer: the share of labels that both answer
among those that at least one does; 1 where neither answers any. One minus it is a distance. The share of equal labels
would say 97 % of two models that never agree on the one or two labels that each finds among 80.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema_masks import Threshold
from zoolens.inventory.preprocess.outputs import MAX_WIDTH, plain_numbers
from zoolens.inventory.tasks.documents import AnswerClasses, shortest
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.output_setup import OutputSetup, Reader
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.scoring.label_sets import LabelParts
from zoolens.inventory.tasks.scoring.precision_optimism import OF_PLAIN, precision_optimism
from zoolens.inventory.tasks.scoring.ranked_scores import RankedScores, rank_scores, weighted_areas
from zoolens.inventory.tasks.task import (
    TOLERANCE,
    TRUTH_KNOWN,
    Answers,
    Column,
    Floats,
    Task,
    column,
    taken_answers,
)

if TYPE_CHECKING:
    import pyarrow as pa

Flags = NDArray[np.bool_]

# Inputs × labels that are sorted together for the micro average: more would take minutes to resample.
MAX_CELLS: Final = 1 << 18
_SHOWN: Final = 5
_METRICS: Final[tuple[str, ...]] = ("map", "macro_auc", "subset_accuracy", "micro_f1", "macro_f1")
_MICRO_AUC: Final = "micro_auc"


@dataclass(frozen=True)
class Probabilities:
    """The probabilities of all labels of a batch, inputs × labels. Those above `threshold` are answered."""

    values: NDArray[np.float32]
    threshold: float

    def __getitem__(self, some: slice) -> Probabilities:
        return Probabilities(self.values[some], self.threshold)


class MultiLabel(Task):
    name = "multilabel"
    summary = "Any number of labels, each with a probability"
    judged = True
    unit = "labels"
    roles: ClassVar[Mapping[str, bool]] = {"scores": True}
    truth = "labels"
    numbered = True
    metric = "map"
    ragged = frozenset({"present"})

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {"probability": pa.list_(pa.float32(), -1), "threshold": pa.float32()}

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {"present": pa.list_(pa.int8(), -1)}  # 1 the label applies, 0 it does not, −1 nobody said

    def reader(self, setup: OutputSetup) -> Reader:
        steps = setup.output.postprocess
        threshold = next((step.above for step in steps if isinstance(step, Threshold)), Threshold(op="threshold").above)
        plain, arranged = plain_numbers(setup.tensors["scores"]), _arrangement(setup)

        def probabilities(raw: Mapping[str, NDArray[Any]], memos: Sequence[Any]) -> Probabilities:
            values = plain(raw["scores"])
            if not np.isfinite(values).all():
                raise ModelError("The model's scores of labels are NaN or infinite.")
            return Probabilities(arranged(_as_probabilities(values, setup.output.scores)), threshold)

        return probabilities

    def keep(self, values: Probabilities, labels: NDArray[Any] | None) -> Mapping[str, Column]:
        threshold = np.full(len(values.values), values.threshold, np.float32)
        return {"probability": values.values, "threshold": threshold}

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        nothing = np.zeros(0, np.int8)
        return {"present": Ragged.of([nothing if one is None else one["present"] for one in truths], np.int8)}

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        ours, theirs = answered(a), answered(b)
        if ours.shape != theirs.shape:
            raise ModelError(
                f"The outputs {a.output} and {b.output} have {ours.shape[1]} and {theirs.shape[1]} labels.",
                hint="Compare models of the same labels; a label_map in the manifest translates between them.",
            )
        return _jaccard(ours, theirs)

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return "mean overlap of labels"

    def silent(self, answers: Answers) -> NDArray[np.bool_]:
        return np.asarray(~answered(answers).any(axis=1))

    def signature(self, answers: Answers) -> NDArray[Any]:
        return answered(answers).astype(np.float32)

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats | None:
        """The Jaccard index of the answered and the true labels, of those that somebody judged."""
        found = np.zeros(len(answers))
        if not answers.truths:
            return found
        places = np.flatnonzero(answers.truths[TRUTH_KNOWN])
        judged = _judged(taken_answers(answers, places))
        found[places] = _jaccard(judged.predicted, judged.true)
        return found

    def judgement(self, answers: Answers) -> Judgement | None:
        parts, known = _judged(answers), _present(answers) >= 0
        probabilities = column(answers, "probability")
        labels = range(known.shape[1])
        ranked = [_Ranked.of(probabilities[:, place], parts.true[:, place], known[:, place]) for place in labels]
        names, together = _METRICS, None
        if known.sum() <= MAX_CELLS:
            names, together = (*_METRICS, _MICRO_AUC), _Ranked.of_all(probabilities, parts.true, known)
        once = np.ones((1, len(answers)), np.int64)
        # Means are over the labels that are defined on all inputs, and undefined where a resample lacks one of them.
        counted = [~np.isnan(found[0]) for found in _each_label(parts, ranked, once)]

        def aggregate(weights: NDArray[np.int64]) -> Floats:
            precisions, areas, f1s = (
                _mean(found[:, there])
                for found, there in zip(_each_label(parts, ranked, weights), counted, strict=True)
            )
            subset, micro = _of_sets(parts, weights)
            found = [precisions, areas, subset, micro, f1s]
            return np.stack(found if together is None else [*found, together.areas(_columns(weights))[1]], axis=1)

        def optimism(name: str) -> float:
            if name != _METRICS[0]:
                return 0.0
            having = parts.true.sum(axis=0)
            precisions = partial(_precisions, ranked)
            return precision_optimism(precisions, len(answers), having, OF_PLAIN).of_mean(having)

        notes = _notes(len(ranked), int(counted[0].sum()), int((~known).sum()), together is None)
        mean_precision, *others = names
        blind = _mean(_of_random_order(parts.true.sum(axis=0), known.sum(axis=0))[np.newaxis, counted[0]])[0]
        metrics = (Metric(mean_precision, blind=float(blind)), *(Metric(name) for name in others))
        return Judgement(metrics, aggregate, tuple(notes), optimism=optimism)

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        row, there = column(answers, "probability")[place], answered(answers)[place]
        best = [int(number) for number in np.argsort(-row, kind="stable")]
        called = [names[number] if names and number < len(names) else f"label {number}" for number in best]
        words = [f"{name} ({100 * row[number]:.0f} %)" for name, number in zip(called, best, strict=True)]
        count = int(there.sum())
        if not count:
            return f"no label; nearest is {words[0]}"
        return ", ".join(words[: min(count, _SHOWN)]) + (", …" if count > _SHOWN else "")

    def show_truth(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        present = np.flatnonzero(answers.truths["present"][place] == 1).tolist()
        called = [names[number] if names and number < len(names) else f"label {number}" for number in present]
        return ", ".join(called[:_SHOWN]) + (", …" if len(called) > _SHOWN else "") or "no label"

    def document(self, answers: Answers, place: int, classes: AnswerClasses, sample: Any = None) -> Any:
        """The labels that are answered, the most probable first."""
        row, there = column(answers, "probability")[place], answered(answers)[place]
        best = [number for number in np.argsort(-row, kind="stable").tolist() if there[number]]
        scores = shortest(row[best])
        labels = [{**classes.told(number), "score": score} for number, score in zip(best, scores, strict=True)]
        return {"labels": labels, "threshold": shortest(column(answers, "threshold")[place])[0]}


def answered(answers: Answers) -> Flags:
    """The labels that are answered, inputs × labels."""
    probabilities: NDArray[np.float32] = column(answers, "probability")
    return np.asarray(probabilities > column(answers, "threshold")[:, np.newaxis])


def _jaccard(first: Flags, second: Flags) -> Floats:
    either = (first | second).sum(axis=1)
    return np.where(either > 0, (first & second).sum(axis=1) / np.maximum(either, 1), 1.0)


# --- reading


def _as_probabilities(values: NDArray[np.float32], scores: str) -> NDArray[np.float32]:
    if scores == "logits":
        # The form that never overflows: exp of a negative number.
        small = np.exp(-np.abs(values))
        return np.where(values >= 0, 1 / (1 + small), small / (1 + small)).astype(np.float32)
    outside = values[(values < -0.001) | (values > 1.001)]
    if len(outside):
        raise ModelError(
            f"The manifest declares probabilities, but the model answered {outside[0]:.4g}.",
            hint="Declare scores: logits for this output.",
        )
    return np.clip(values, 0, 1)


def _arrangement(setup: OutputSetup) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """Puts the model's labels in the dataset's order. A label of the dataset that the model lacks has probability 0."""
    named = None if setup.output.labels is None else len(setup.output.labels)
    known = None if setup.classes is None else len(setup.classes)
    order = setup.translation

    def arranged(values: NDArray[np.float32]) -> NDArray[np.float32]:
        given = values.shape[1]
        if given > MAX_WIDTH:
            raise ModelError(f"The output has {given:,} labels for each input; at most {MAX_WIDTH:,} are stored.")
        if named not in (None, given):
            raise ManifestError(f"The manifest has {named} labels but the model has {given} outputs.")
        if order is None:
            if known not in (None, given):
                raise ModelError(
                    f"The dataset has {known} labels but the model has {given} outputs.",
                    hint="Say under labels how the model's outputs are called, or which is which with a label_map.",
                )
            return values
        width = known if known is not None else int(order.max(initial=-1)) + 1
        result = np.zeros((len(values), width), np.float32)
        for source, target in enumerate(order.tolist()[:given]):
            if target >= 0:
                # Several outputs may stand for one label.
                result[:, target] = np.maximum(result[:, target], values[:, source])
        return result

    return arranged


# --- judging


def _present(answers: Answers) -> NDArray[np.int8]:
    rows: Ragged = answers.truths["present"]
    width = column(answers, "probability").shape[1]
    if (wrong := rows.lengths[rows.lengths != width]).size:
        raise ModelError(
            f"The dataset says of {wrong[0]} labels whether they apply, but the model answers {width}.",
            hint="Say under labels how the model's outputs are called, or which is which with a label_map.",
        )
    return np.asarray(rows.values.reshape(len(rows), width))


def _judged(answers: Answers) -> LabelParts:
    """Answered and true labels; where nobody said what is right, a label counts as neither."""
    present = _present(answers)
    return LabelParts(answered(answers) & (present >= 0), present == 1)


@dataclass(frozen=True)
class _Ranked:
    """Scores that are ranked, and the input that each belongs to."""

    ranked: RankedScores
    inputs: NDArray[np.int64]

    @classmethod
    def of(cls, scores: NDArray[np.float32], true: Flags, known: Flags) -> _Ranked:
        inputs = np.flatnonzero(known)
        return cls(rank_scores(scores[inputs], true[inputs]), inputs)

    @classmethod
    def of_all(cls, scores: NDArray[np.float32], true: Flags, known: Flags) -> _Ranked:
        return cls(rank_scores(scores[known], true[known]), np.nonzero(known)[0])

    def areas(self, columns: Floats) -> tuple[Floats, Floats]:
        """Average precision and area under the ROC curve, for weights inputs × resamples."""
        return weighted_areas(self.ranked, columns[self.inputs])


def _columns(weights: NDArray[np.int64]) -> Floats:
    """Weights as inputs × resamples, resamples side by side in memory."""
    return np.ascontiguousarray(weights.T, np.float64)


def _each_label(
    parts: LabelParts, ranked: Sequence[_Ranked], weights: NDArray[np.int64]
) -> tuple[Floats, Floats, Floats]:
    """Average precision, area under the ROC curve and F1 of each label (resamples × labels), NaN where undefined."""
    columns = _columns(weights)
    found = [one.areas(columns) for one in ranked]
    precisions, areas = (np.stack(each, axis=1) for each in zip(*found, strict=True))
    both, every = _summed(parts, weights)
    return precisions, areas, _ratio(2 * both, every)


def _precisions(ranked: Sequence[_Ranked], weights: NDArray[np.int64]) -> Floats:
    """Average precision of each label (resamples × labels), NaN where undefined."""
    columns = _columns(weights)
    return np.stack([one.areas(columns)[0] for one in ranked], axis=1)


def _of_sets(parts: LabelParts, weights: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The share of inputs of which all labels are right, and F1 of all labels together."""
    right = (parts.predicted == parts.true).all(axis=1)
    both, every = (part.sum(axis=1) for part in _summed(parts, weights))
    return _ratio(weights @ right.astype(np.float64), weights.sum(axis=1)), _ratio(2 * both, every)


def _summed(parts: LabelParts, weights: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Labels that are true and answered, and labels that are true plus those that are answered, of each column."""
    rows = weights.astype(np.float64)
    both, true, answers = (
        rows @ flags.astype(np.float64) for flags in (parts.predicted & parts.true, parts.true, parts.predicted)
    )
    return both, true + answers


def _mean(values: Floats) -> Floats:
    return values.mean(axis=1) if values.shape[1] else np.full(len(values), np.nan)


def _of_random_order(having: NDArray[Any], known: NDArray[Any]) -> NDArray[np.float64]:
    """The average precision of each label, in the mean over all orders of its inputs: that of scores which have nothing
    to do with them. It is more than the share of inputs that have the label, where few do."""
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, known.max(initial=0) + 1))])[known]
    others = _ratio(having - 1, known - 1)  # the share among the rest, where one that has it comes at a place
    return _ratio(np.where(known > 1, others, 0.0) * (known - harmonic) + harmonic, known)


def _ratio(part: Floats, whole: NDArray[Any]) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0))


def _notes(labels: int, used: int, unknown: int, without_micro: bool) -> list[str]:
    notes = ["no input has any of the labels"]
    if used:
        notes = [f"mAP is the mean over the {used} of {labels} labels that an input has"]
    if unknown:
        notes.append(f"nobody says of {unknown:,} labels of inputs whether they apply; these are left out")
    if without_micro:
        notes.append(f"no micro AUC, for which more than {MAX_CELLS:,} scores would be sorted together")
    return notes
