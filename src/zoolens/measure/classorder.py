"""Which class is which: answers of a model whose manifest lists the data's classes in another order.

Answers are brought into the data's order by name before they are stored, so that every figure made from them is right.
Runs of before were stored in the model's own order and judged as if it were the data's: their answers can be translated
when they are read, their figures cannot be trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.datasets.base import Dataset
from zoolens.errors import ManifestError
from zoolens.manifests.schema import Output
from zoolens.measure.jobs import Job
from zoolens.measure.predictions import CLASSIFICATION, Predictions
from zoolens.preprocess.classes import Translation, class_mismatch, plain_name, translation
from zoolens.preprocess.classlookup import may_reorder, unproven_order
from zoolens.preprocess.outputs import labels_of
from zoolens.store.records import Observation, Run, StackRecord, fingerprint

MATCHED: Final = "class_order"  # in the identity of a stack: the answers were brought into the data's order
ABOUT_CLASSES: Final = ("top1", "top5", "recall", "ece", "brier", "nll")  # figures that depend on which class is which
LOOKED_UP: Final = "looked up"
JUDGED_WRONGLY: Final = (
    "it was judged before zoolens matched classes by name, in the order of its manifest instead of the data's"
)


@dataclass(frozen=True)
class ClassOrder:
    """`translation`: from the model's classes to the data's, None where they are in one order or cannot be matched.
    `lookup`: the data's classes have no order of their own and are looked up among the model's, once it is known how
    many outputs it has; `reorders`: that may put them in another order. `problem`: why what is judged may be the wrong
    classes."""

    translation: Translation | None = None
    lookup: bool = False
    reorders: bool = False
    problem: str | None = None


def class_order(job: Job, dataset: Dataset) -> ClassOrder:
    output = job.manifest.outputs[0] if job.manifest.outputs else None
    if output is None or output.task != CLASSIFICATION or output.label_map or dataset.classes is None:
        return ClassOrder()
    names = labels_of(output, job.entry.folder)
    order = _order(names, dataset.classes)
    if order.translation is None and dataset.alphabetical:
        return ClassOrder(lookup=True, reorders=may_reorder(names, dataset), problem=unproven_order(names, dataset))
    return order


def _order(names: Sequence[str] | None, classes: Sequence[str]) -> ClassOrder:
    if names is None or list(names) == list(classes):
        return ClassOrder()
    if (problem := class_mismatch(names, classes)) is None:
        return ClassOrder(translation(names, classes))
    if Counter(map(plain_name, names)) == Counter(map(plain_name, classes)):
        return ClassOrder(
            problem=f"the manifest lists the data's classes in another order, and {problem}: its accuracy is wrong; "
            "use a label_map"
        )
    return ClassOrder()


def with_class_order(stack: StackRecord, order: ClassOrder) -> StackRecord:
    """The stack of a run whose answers are translated: other answers than before, so another key."""
    if order.translation is not None:
        added = {MATCHED: fingerprint(order.translation.tolist())[:12]}
    elif order.reorders:
        added = {MATCHED: LOOKED_UP}
    else:
        return stack
    identity = {**stack.identity, **added}
    return replace(stack, fingerprint=fingerprint(identity), identity=identity, lock={**stack.lock, **added})


def in_data_order(output: Output, order: ClassOrder) -> Output:
    """The output with the label_map that brings its classes into the data's order."""
    if order.translation is None:
        return output
    return output.model_copy(update={"label_map": dict(enumerate(order.translation.tolist()))})


# --- stored runs


def matched_by_name(run: Run) -> bool:
    """Whether the stored answers were brought into the data's order by the names of the classes."""
    return MATCHED in run.stack.identity


def stored_translation(run: Run) -> Translation | None:
    """What brings the stored answers into the data's order; None: they are in it, or nobody can tell."""
    classes = run.dataset.details.get("classes")
    if not classes or matched_by_name(run):
        return None
    manifest: Mapping[str, Any] = run.origin.get("manifest") or run.model.manifest
    output: Mapping[str, Any] = (manifest.get("outputs") or [{}])[0]
    if output.get("task", CLASSIFICATION) != CLASSIFICATION or output.get("label_map"):
        return None
    return _order(_stored_names(output, run.origin.get("folder")), classes).translation


def _stored_names(output: Mapping[str, Any], folder: str | None) -> Sequence[str] | None:
    if output.get("labels") or not output.get("labels_file"):
        return output.get("labels")
    try:
        return labels_of(Output(labels_file=output["labels_file"]), Path(folder) if folder else None)
    except (ManifestError, ValueError):
        return None


def judged_right(run: Run, observations: Sequence[Observation]) -> list[Observation]:
    """The observations without the figures that were made in the wrong order of classes."""
    if not any(one.metric in ABOUT_CLASSES for one in observations) or stored_translation(run) is None:
        return list(observations)
    return [one for one in observations if one.metric not in ABOUT_CLASSES]


def translated_predictions(predictions: Predictions, order: Translation | None) -> Predictions:
    """The same answers with classes in the data's order. The probability of the true class was kept of the wrong one:
    it is known again where that class is among the best."""
    if order is None:
        return predictions
    top = order[predictions.top]
    hits = top == predictions.labels[:, None]
    label_score = np.where(hits.any(axis=1), (predictions.score * hits).sum(axis=1), np.float32(np.nan))
    return replace(predictions, top=top, label_score=label_score.astype(np.float32))
