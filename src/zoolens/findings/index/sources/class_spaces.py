"""Which class is which, for many models at once: answers in the dataset's order of classes, wherever names allow it.

Two models whose manifests name different classes, or that have different numbers of them, are not comparable, and
their agreement is unknown. A model that names none is taken at its word that it answers in the dataset's order, as its
accuracy was computed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zoolens.base.store.records import Run, fingerprint
from zoolens.findings.comparisons.compatibility import Head, Interface, compare_interfaces, interface_of
from zoolens.findings.index.sources.attributes import manifest_of
from zoolens.findings.measure.class_order import CLASSES
from zoolens.inventory.preprocess.classes import Translation
from zoolens.inventory.tasks.task import DEFAULT_TASK, task_named


@dataclass(frozen=True)
class Space:
    """Which classes a model answers with."""

    name: str | None = None  # of the classes; "": the dataset's own, None: the manifest names none
    width: int | None = None  # how many there are; None: unknown
    translation: Translation | None = None  # into the dataset's order; None: not needed
    problem: str = ""  # why names that the manifest has are unknown


class ClassSpaces:
    """The class spaces of many runs. Equal declarations on the same data are worked out once."""

    def __init__(self) -> None:
        self._known: dict[str, Space] = {}

    def of(self, run: Run) -> Space:
        if may_be_renamed(run):
            return class_space(run)
        manifest = manifest_of(run)
        declared = [manifest.get("outputs"), manifest.get("inputs"), run.resolved.get("outputs"), run.key.dataset]
        matched = run.stack.identity.get("class_order"), run.origin.get(CLASSES)
        key = json.dumps([*declared, *matched], sort_keys=True, default=str)
        if key not in self._known:
            self._known[key] = class_space(run)
        return self._known[key]


def class_space(run: Run) -> Space:
    measured: Sequence[Any] = run.resolved.get("outputs") or [{}]
    unnamed = Space(width=measured[0].get("width"))
    output = _main_output(run)
    if not task_named(output.get("task", DEFAULT_TASK)).discrete or output.get("label_map"):
        return unnamed
    if not output.get("labels") and not output.get("labels_file"):
        return unnamed
    own = interface_of(run)
    if own.main.names is None:
        return replace(unnamed, problem=" ".join(own.unread))
    if own.data_names is None:
        return replace(unnamed, name=fingerprint(own.main.names))
    data = Interface(run, (), (Head(own.main.task, None, own.data_names),), own.data_names)
    fit = compare_interfaces(own, data)
    if fit.reasons:
        return replace(unnamed, name=fingerprint(own.main.names))
    # The same data under other names of its classes: answers are in the order of those, and so not of the others.
    renamed = CLASSES in run.origin
    return replace(unnamed, name=fingerprint(own.data_names) if renamed else "", translation=fit.translation_a)


def may_be_renamed(run: Run) -> bool:
    """Whether the class names lie in a separate file, which is not part of the model's content and may change."""
    return bool(_main_output(run).get("labels_file"))


def _main_output(run: Run) -> Mapping[str, Any]:
    output: Mapping[str, Any] = (manifest_of(run).get("outputs") or [{}])[0]
    return output
