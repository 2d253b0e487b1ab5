"""How a model is fed and read where its dataset is not at hand, exactly as when it was measured on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ModelError
from zoolens.findings.measure.jobs import Job
from zoolens.findings.measure.prediction_buffer import check_finite
from zoolens.findings.measure.subject import Subject, prepare_subject
from zoolens.inventory.datasets.dataset import UNLABELLED, Sample
from zoolens.inventory.datasets.noinputs import NoInputs
from zoolens.inventory.preprocess.classlookup import class_translation
from zoolens.inventory.preprocess.outputs import labels_of
from zoolens.inventory.runtimes.runtime import Effective, Session, Tensor, Tensors
from zoolens.inventory.tasks.documents import AnswerClasses
from zoolens.inventory.tasks.task import Answers, Task, task_named

Array = NDArray[Any]


class ClosedSession(Session):
    """The tensors of a model that was opened, for whoever prepares its inputs and reads its answers elsewhere."""

    def __init__(self, session: Session) -> None:
        self.inputs, self.outputs, self.postprocessed = session.inputs, session.outputs, session.postprocessed
        self.phases = {}

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        raise ModelError("The model is run elsewhere.")

    def effective(self) -> Effective:
        raise ModelError("The model is run elsewhere.")


class MeasuredClasses(NoInputs):
    """What is left to know of a dataset that a model was measured on: its name and the names of its classes.

    It has one sample without content, which says that samples are single arrays, not records of several."""

    def __init__(self, name: str, classes: tuple[str, ...] | None) -> None:
        self.name, self.classes = name, classes

    def __len__(self) -> int:
        return 1

    def read(self, index: int) -> Sample:
        return Sample("0", np.zeros(0, np.uint8), UNLABELLED)

    def labels(self) -> NDArray[np.int64]:
        return np.array([UNLABELLED])


@dataclass(frozen=True)
class RowMemo:
    """What reading the answer to one row needs to know. `record`: of a text, all that it was fed as."""

    memo: Any = None
    record: Array | None = None


@dataclass(frozen=True)
class MeasuredReading:
    """It holds nothing open and can be sent to other machines; what it needs is made where it is first used."""

    job: Job
    session: ClosedSession
    data: MeasuredClasses

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "subject"}

    @cached_property
    def subject(self) -> Subject:
        return prepare_subject(self.job, self.session, self.data)

    @property
    def task(self) -> Task:
        return task_named(self.job.manifest.task)

    # --- inputs

    def prepared(self, samples: Sequence[Array]) -> tuple[dict[str, Array], tuple[RowMemo, ...]]:
        """What is fed for some samples, as datasets give them, and what reading the answers needs to know."""
        subject = self.subject
        rows, memos = [], []
        for place, value in enumerate(samples):
            sample = Sample(str(place), value, UNLABELLED)
            (memo,) = subject.memos([sample])
            row = subject.prepare(sample)
            rows.append(row)
            memos.append(RowMemo(memo, row if subject.reads_records else None))
        if len({(row.shape, row.dtype) for row in rows}) > 1:
            raise DatasetError(
                "The inputs differ in size once they are prepared, and run one at a time.", hint="Send them one by one."
            )
        return subject.named_inputs(np.ascontiguousarray(np.stack(rows))), tuple(memos)

    # --- answers

    def raw(self, answered: Mapping[str, Array], memos: Sequence[RowMemo]) -> Any:
        """What the main output has of the tensors that were answered."""
        records = [memo.record for memo in memos if memo.record is not None]
        # Only of texts the content counts, of anything else the number of rows.
        batch = np.stack(records) if records else np.empty(len(memos))
        return self.subject.raw_answers(answered, batch)[0]

    def answers(self, answered: Mapping[str, Array], memos: Sequence[RowMemo]) -> Answers:
        """The answers in the columns that the task keeps of them, with the dataset's classes."""
        raw, output = self.raw(answered, memos), self.subject.outputs[0]
        values = output.answers(raw, [memo.memo for memo in memos])
        width = None
        if not isinstance(raw, Mapping):
            check_finite([str(place) for place in range(len(values))], values)
            width = int(values.shape[1])
        return Answers(output.tensor.name, output.task, self.task.keep(values, None), width)

    # --- classes

    @cached_property
    def _translation(self) -> NDArray[np.int64] | None:
        """The dataset's class for each class of the model, −1 where it has none; None: they are numbered alike."""
        if not self.task.roles:
            return None
        return class_translation(self.job.manifest.outputs[0].model_copy(update={"labels": self._labels}), self.data)

    @property
    def _labels(self) -> tuple[str, ...] | None:
        return labels_of(self.job.manifest.outputs[0], self.job.entry.folder)

    @property
    def answerable(self) -> frozenset[int] | None:
        """The dataset's classes that it can answer, by number; None: that is not known."""
        if self._translation is not None:
            return frozenset(number for number in self._translation.tolist() if number >= 0)
        return None if self.data.classes is None else frozenset(range(len(self.data.classes)))

    @property
    def classes(self) -> AnswerClasses:
        """What this model itself calls the dataset's classes, by number and name."""
        labels, known = self._labels, dict(enumerate(self.data.classes or ()))
        if self._translation is None:
            return AnswerClasses(None, known or dict(enumerate(labels or ())))
        # The first of several of its classes that stand for one of the dataset's.
        pairs = [(kept, own) for own, kept in enumerate(self._translation.tolist()) if kept >= 0]
        numbers = dict(reversed(pairs))
        own_names = {} if labels is None else {kept: labels[own] for kept, own in numbers.items() if own < len(labels)}
        return AnswerClasses(numbers, {**known, **own_names})
