"""Which class is which: answers of a model whose manifest lists the dataset's classes in another order.

Answers are brought into the dataset's order by name before they are stored, so that every figure made from
them is right. Earlier runs were stored in the model's own order and judged as if it were the dataset's: their answers
can be translated when they are read, their figures cannot be trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ManifestError
from zoolens.base.store.records import GUESSED, Observation, Provenance, Run, StackRecord, fingerprint
from zoolens.base.store.scopes import Dimension, parse_scope
from zoolens.findings.measure.jobs import Job
from zoolens.inventory.catalog.stored import guessed_of
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.preprocess.classes import Translation, class_mismatch, plain_name, translation
from zoolens.inventory.preprocess.classlookup import disputed_order, may_reorder, unproven_order
from zoolens.inventory.preprocess.outputs import labels_of
from zoolens.inventory.tasks.task import DEFAULT_TASK, task_named

MATCHED: Final = "class_order"  # in the identity of a stack: the answers were brought into the dataset's order
ABOUT_CLASSES: Final = ("top1", "top5", "recall", "ece", "brier", "nll")  # figures that depend on which class is which
AS_NAMED: Final = "classes_matched"  # in run.resolved: its answers were judged by code that matches classes by name
CLASSES: Final = "classes"  # in run.origin: names of the dataset's classes, where they are not those of its record
JUDGED_WRONGLY: Final = (
    "it was judged before zoolens matched classes by name, in the order of its manifest instead of the dataset's"
)


@dataclass(frozen=True)
class ClassOrder:
    """How the classes of a model's answers are brought into the dataset's order."""

    # from the model's classes to the dataset's; None: one order, or they cannot be matched
    translation: Translation | None = None
    lookup: bool = False  # the dataset's classes are looked up among the model's once its number of outputs is known
    key: str = ""  # what the answers depend on besides model and dataset; "" in the dataset's order
    problem: str | None = None  # why the classes that are judged may be the wrong ones


def class_order(job: Job, dataset: Dataset) -> ClassOrder:
    output = job.manifest.outputs[0] if job.manifest.outputs else None
    if output is not None and task_named(output.task).roles:
        # Answers are kept in the dataset's numbers, which names decide: neither fingerprint has the names.
        names = labels_of(output, job.entry.folder)
        return ClassOrder() if names is None else ClassOrder(key=fingerprint([names, dataset.classes])[:12])
    if output is None or not task_named(output.task).discrete or output.label_map or dataset.classes is None:
        return ClassOrder()
    names = labels_of(output, job.entry.folder)
    order = _order(names, dataset.classes)
    if order.translation is not None:
        return order
    # The dataset's fingerprint leaves out the names of its classes: where they decide, the key must have them.
    key = fingerprint([names, dataset.classes])[:12] if may_reorder(names, dataset) else ""
    if dataset.alphabetical:
        problem = unproven_order(names, dataset) or (None if key else disputed_order(dataset))
        return ClassOrder(lookup=True, key=key, problem=problem)
    return replace(order, lookup=bool(key), key=key, problem=None if key else order.problem)


def _order(names: Sequence[str] | None, classes: Sequence[str]) -> ClassOrder:
    if names is None or list(names) == list(classes):
        return ClassOrder()
    if (problem := class_mismatch(names, classes)) is None:
        order = translation(names, classes)
        return ClassOrder(order, key="" if order is None else fingerprint(order.tolist())[:12])
    if Counter(map(plain_name, names)) == Counter(map(plain_name, classes)):
        return ClassOrder(
            problem=f"the manifest lists the dataset's classes in another order, and {problem}: its accuracy is wrong; "
            "use a label_map"
        )
    return ClassOrder(problem=_moved(names, classes))


def _moved(names: Sequence[str], classes: Sequence[str]) -> str | None:
    """What to say where lists that cannot be matched have a name in common that stands in different places."""
    ours, theirs = ({plain_name(name): place for place, name in enumerate(listed)} for listed in (names, classes))
    once = [name for name, count in Counter(map(plain_name, names)).items() if count == 1]
    shared = next((name for name in once if theirs.get(name, ours[name]) != ours[name]), None)
    if shared is None:
        return None
    moved = names[ours[shared]]
    missing = next((name for name in names if plain_name(name) not in theirs), "")
    lacking = f"{missing!r} is not among the dataset's" if missing else "the dataset has more classes"
    return (
        f"class {ours[shared]} of the model and class {theirs[shared]} of the dataset are both called {moved!r}, and "
        f"the lists cannot be matched by name ({lacking}): its accuracy may be wrong. Spell the classes the same in "
        "the manifest and in the class file, or use a label_map"
    )


def with_class_order(stack: StackRecord, order: ClassOrder) -> StackRecord:
    """Return the environment record of a run whose answers are translated: other answers, so another key."""
    if not order.key:
        return stack
    added = {MATCHED: order.key}
    identity = {**stack.identity, **added}
    return replace(stack, fingerprint=fingerprint(identity), identity=identity, lock={**stack.lock, **added})


def in_data_order(output: Output, order: ClassOrder) -> Output:
    """The output with the label_map that brings its classes into the dataset's order."""
    if order.translation is None:
        return output
    return output.model_copy(update={"label_map": dict(enumerate(order.translation.tolist()))})


# --- stored runs


def data_classes(run: Run) -> tuple[str, ...] | None:
    """Names of the dataset's classes as the run's user has them. The same data may be known to the store by others."""
    classes = run.origin.get(CLASSES) or _named_classes(run)
    return tuple(map(str, classes)) if classes else None


def _named_classes(run: Run) -> Sequence[str] | None:
    """Returns the names of the classes. Of data that networks were trained on, the store knows only how many there
    are."""
    classes = run.dataset.details.get("classes")
    return classes if isinstance(classes, list | tuple) else None


def other_class_names(a: Run, b: Run) -> bool:
    """Whether two runs on the same data had other names for its classes, and answers were brought into their order."""
    return (matched_by_name(a) or matched_by_name(b)) and data_classes(a) != data_classes(b)


def matched_by_name(run: Run) -> bool:
    """Whether the stored answers were brought into the dataset's order by the names of the classes."""
    return MATCHED in run.stack.identity


def stored_translation(run: Run) -> Translation | None:
    """What brings the stored answers into the dataset's order; None: they are in it, or nobody can tell."""
    classes = _named_classes(run)
    if not classes or matched_by_name(run) or run.resolved.get(AS_NAMED):
        return None
    manifest: Mapping[str, Any] = run.origin.get("manifest") or run.model.manifest
    output: Mapping[str, Any] = (manifest.get("outputs") or [{}])[0]
    if not task_named(output.get("task", DEFAULT_TASK)).discrete or output.get("label_map"):
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
    """The observations without the figures that were made in the wrong order of classes. Those that rest on guesses
    are marked, so that nobody prints one without the mark."""
    about_classes = any(observation.metric in ABOUT_CLASSES for observation in observations)
    if about_classes and stored_translation(run) is not None:
        observations = [observation for observation in observations if observation.metric not in ABOUT_CLASSES]
    if not guessed_of(run):
        return list(observations)
    return [_marked(observation) if _is_of_answers(observation) else observation for observation in observations]


def _is_of_answers(observation: Observation) -> bool:
    """Whether a figure judges answers: everything but sizes and timings."""
    if observation.provenance is not Provenance.MEASURED or observation.metric == "parameters":
        return False
    of_answers = parse_scope(observation.scope).dimension not in (Dimension.BATCH, Dimension.CONTEXT)
    return of_answers and observation.unit not in ("s", "B")


def _marked(observation: Observation) -> Observation:
    return replace(observation, details={**observation.details, GUESSED: True})
