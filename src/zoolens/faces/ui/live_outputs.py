"""How the page *Live* reads the main output of a model: without a dataset, in the model's own classes.

Boxes and maps of several models have one numbering of classes, by name: so two models can be compared, and the same
class has the same colour on every card.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.findings.measure.judged_output import JudgedOutput, read_by_parts
from zoolens.inventory.catalog.sessions import Placement
from zoolens.inventory.preprocess.classes import plain_name
from zoolens.inventory.preprocess.outputs import build_scores, labels_of
from zoolens.inventory.runtimes.runtime import Session
from zoolens.inventory.tasks.output_setup import OutputSetup, named_tensor, tensors_by_role
from zoolens.inventory.tasks.task import Answers, Task, task_named

Array = NDArray[Any]

MOST_NAMES: Final = 4_000  # of classes that are numbered together; masks may have 4,096


@dataclass
class SharedClasses:
    """Numbers of classes that several models name. They only grow; whoever adds to them holds a lock."""

    names: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def numbered(self, labels: Sequence[str]) -> NDArray[np.int64] | None:
        """The shared number of each label; None where there would be too many."""
        wanted = [plain_name(label) for label in labels]
        new = dict.fromkeys(name for name in wanted if name not in self._numbers)
        if len(self.names) + len(new) > MOST_NAMES:
            return None
        for label, name in zip(labels, wanted, strict=True):
            if name not in self._numbers:
                self._numbers[name] = len(self.names)
                self.names.append(label)
        return np.array([self._numbers[name] for name in wanted], np.int64)


@dataclass(frozen=True)
class LiveOutput:
    """The main output of an open model."""

    reading: JudgedOutput
    labels: Sequence[str] | None  # names of the classes of an answer
    numbers: frozenset[int] | None = None  # of its classes among those that all models share; None: they have their own

    @property
    def task(self) -> Task:
        return task_named(self.reading.task)

    @property
    def has_parts(self) -> bool:
        """Whether it is read by role into what its task keeps; otherwise into scores or plain numbers."""
        return self.reading.read_parts is not None

    def values(self, answered: Mapping[str, Array], memo: Any = None) -> Any:
        """What the answer to the only input says."""
        return self.reading.answers(self.reading.rows(answered, 1), [memo])

    def kept(self, values: Any) -> Answers:
        """What the task keeps of values that were read."""
        return Answers(self.reading.tensor.name, self.task.name, self.task.keep(values, None))


def live_output(placement: Placement, session: Session, classes: SharedClasses) -> LiveOutput:
    output = placement.manifest.outputs[0]
    task = task_named(output.task)
    labels = labels_of(output, placement.entry.folder)
    # The model's own classes, in its own order.
    own = output.model_copy(update={"label_map": None, "labels": labels, "labels_file": None})
    if not task.roles:
        named = named_tensor(session.outputs, output.name, "output", 0)
        scores = build_scores(own, named, discrete=task.discrete)
        return LiveOutput(JudgedOutput(named, task.name, scores, own.pooling, batch_axis=own.batch_axis), labels)
    tensors = tensors_by_role(own, task.roles, session.outputs, 0)
    # Where an answer lies in an image, two models may mean the same place and the same class by another number.
    located = task.located and placement.manifest.inputs[0].modality == "image"
    numbers = classes.numbered(labels) if located and labels else None
    setup = OutputSetup(own, placement.manifest.inputs, tensors, placement.entry.folder, translation=numbers)
    names = labels if numbers is None else classes.names
    known = None if numbers is None else frozenset(numbers.tolist())
    return LiveOutput(read_by_parts(setup), names, known)


@dataclass(frozen=True)
class ToldAnswer:
    """What a model answered to one input, kept to be compared with what others answered to the same."""

    model: str
    given: str  # digest of the input
    output: LiveOutput
    answers: Answers


def live_agreement(a: ToldAnswer, b: ToldAnswer) -> tuple[str, float]:
    """What the agreement of two models on one input is, and how large, between 0 and 1; ZoolensError says why it is not
    known."""
    if a.given != b.given:
        raise ZoolensError("The two models were given different inputs.", hint="Give both the same.")
    if a.output.task is not b.output.task:
        raise ZoolensError(f"{a.model} does {a.output.task.name} and {b.model} does {b.output.task.name}.")
    task = a.output.task
    alone = _of_one_alone(a.output, b.output) if task.numbered else 0
    told = f"; {alone} classes that only one of them knows count as differences" if alone else ""
    return f"{task.agreement_name()}{told}", float(task.agreement(a.answers, b.answers)[0])


def _of_one_alone(a: LiveOutput, b: LiveOutput) -> int:
    """How many classes only one of two models knows. ZoolensError: they have none in common, or cannot be matched."""
    if a.numbers is None or b.numbers is None:
        if a.labels is None or a.labels != b.labels:
            raise ZoolensError(
                "The classes of the two models cannot be matched by name.",
                hint="Name them under labels in both manifests.",
            )
        return 0
    if not a.numbers & b.numbers:
        raise ZoolensError("The two models have no class in common.", hint="Compare models of the same classes.")
    return len(a.numbers ^ b.numbers)
