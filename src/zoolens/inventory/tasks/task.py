"""The contract of a task, which every part that keeps or compares answers relies on, and how a task is found.

A task is a plug-in of the group `zoolens.tasks`, under the name that manifests call it by (`outputs: [{task: …}]`).
`zoolens.testing.task_contract` has the tests that a task must pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from zoolens.base import plugins
from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.statistics.intervals import Interval
from zoolens.inventory.tasks.pair_figures import PairFigures
from zoolens.inventory.tasks.ragged import Ragged, joined

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.inventory.datasets.truth import Truth
    from zoolens.inventory.tasks.documents import AnswerClasses
    from zoolens.inventory.tasks.drawing import Drawing
    from zoolens.inventory.tasks.judgement import Judgement
    from zoolens.inventory.tasks.output_setup import OutputSetup, Reader

DEFAULT_TASK: Final = "classification"  # of an output whose manifest names none
TOLERANCE: Final = 1e-3  # of relative l2 distance, below which two vectors count as the same answer
TRUTH_KNOWN: Final = "known"  # a column of truths: 1 where the dataset says what is right, else 0

Floats = NDArray[np.float64]
Column = NDArray[Any] | Ragged


@dataclass(frozen=True)
class Answers:
    """What one output answered to every input: the columns that its task keeps, by name, one row an input. A column
    may be absent where less was kept. `width`: how many classes or numbers an answer has; None: not known."""

    output: str
    task: str
    columns: Mapping[str, Any] = field(default_factory=dict)  # arrays, and `Ragged` where the task says so
    width: int | None = None
    truths: Mapping[str, Any] = field(default_factory=dict)  # likewise, of a main output whose truth is no class

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def nbytes(self) -> int:
        """Bytes of the columns of answers."""
        return sum(column.nbytes for column in self.columns.values())

    @property
    def digest(self) -> NDArray[np.uint64] | None:
        """Digests of the raw output bits: equal digests mean equal outputs. None: they were not kept."""
        return self.columns.get("digest")


class Task(ABC):
    """One object serves all models; it keeps no state. All methods work on whole batches."""

    name: ClassVar[str]
    summary: ClassVar[str]
    # Answers are numbers of classes: two of them are the same or not. Classes have names and an order, which are
    # matched before answers are compared, and models vote for them.
    discrete: ClassVar[bool] = False
    # The agreement of two answers may lie between 0 and 1. A task whose answers agree or do not says False: then the
    # mean agreement is a share of inputs, and has the sharper bounds of a count.
    graded: ClassVar[bool] = True
    # All of an answer is kept that its agreement with another one needs. A task that keeps less says False, and has a
    # `least_agreement` of its own: `agreement` is then the most that it can be.
    agreement_is_exact: ClassVar[bool] = True
    closer_agreement: ClassVar[str] = ""  # then: how to know it more closely, in a sentence
    # An index of many models compares signatures by their relative distance, which tells near answers from far ones
    # where `agreement` calls both different. All other tasks are searched by their own agreement.
    searched_by_distance: ClassVar[bool] = False
    metric: ClassVar[str | None] = None  # the main one, which says how good a model is; None: there is none
    judged: ClassVar[bool] = False  # labels tell how right an answer is: `scores` gives numbers
    directional: ClassVar[bool] = False  # the direction of a vector has a meaning, so that cosines are worth telling
    unit: ClassVar[str] = "numbers an answer"  # what `Answers.width` counts
    # The tensors that one output is read from, by what they hold, and whether each must be there (`parts` in a
    # manifest). Empty: one tensor, which is read as scores of classes or as plain numbers.
    roles: ClassVar[Mapping[str, bool]] = {}
    # Answers name classes by number, which mean the same in two models only where their classes were matched. Answers
    # of tasks that are `discrete` are matched before they are compared.
    numbered: ClassVar[bool] = False
    # Answers are places in the sample (boxes, masks): its reader is given the `Framing` of each image.
    located: ClassVar[bool] = False
    truth: ClassVar[str | None] = None  # kind of truth that judges answers (see `datasets/truth.py`); None: a class
    # Other tasks that the same outputs do on datasets with truths of these kinds.
    by_truth: ClassVar[Mapping[str, str]] = {}
    truth_is_sample: ClassVar[bool] = False  # what is right is the sample itself: it is as different as samples are
    other_truths: ClassVar[frozenset[str]] = frozenset()  # further kinds that judge answers, with metrics of their own
    ragged: ClassVar[frozenset[str]] = frozenset()  # columns, and columns of truths, whose rows differ in length
    later: ClassVar[frozenset[str]] = frozenset()  # columns that runs of before they were kept do not have

    @abstractmethod
    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        """The columns that an answer is kept in. `main`: of the output that the data's labels are about."""

    @abstractmethod
    def keep(self, values: Any, labels: NDArray[Any] | None) -> Mapping[str, Column]:
        """The columns of a batch, from the values that postprocessing made: inputs × classes or numbers; what `reader`
        gave where the task has roles. `labels`: the true classes of the main output, −1 where there is none; None: this
        is not the main output."""

    def reader(self, setup: OutputSetup) -> Reader:
        """How the tensors of an output are read; only of a task with roles."""
        raise NotImplementedError(f"the task {self.name} has roles, but no reader")

    def judged_by(self, kind: str | None) -> bool:
        """Whether truths of this kind say how good answers are; None: a dataset has classes at most."""
        return kind is not None and (kind == self.truth or kind in self.other_truths)

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        """The columns that a truth is kept in beside `TRUTH_KNOWN`."""
        return {}

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        """The columns of the truths of a batch; None: nobody said what is right, which any row may stand for."""
        return {}

    @abstractmethod
    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        """How far two models agree on each input, between 0 and 1; NaN where that cannot be known."""

    def least_agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        """What the agreement on each input is at least. Bounds and promises are made of this one."""
        return self.agreement(a, b, tolerance)

    def mean_agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Interval:
        """Between which numbers the mean agreement on these inputs lies."""
        ends = self.least_agreement(a, b, tolerance), self.agreement(a, b, tolerance)
        return Interval(*(float(np.mean(end)) for end in ends))

    def unknown_agreement(self, a: Answers, b: Answers) -> str:
        """Why `agreement` is NaN for some inputs, as a clause; empty where it is known for all."""
        return ""

    def on_common_ground(self, a: Answers, b: Answers) -> tuple[Answers, Answers]:
        """The answers of both without what only one of them answers, where their metrics would count more in one."""
        return a, b

    def incomparable(self, a: Answers, b: Answers) -> tuple[str, ...]:
        """Metrics that count something else in each of the two, so that their values cannot be subtracted. Where there
        is one, `scores` cannot either."""
        return ()

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        """What the mean of `agreement` is, in words before a percentage."""
        return "mean agreement" if self.graded else "same answer"

    def silent(self, answers: Answers) -> NDArray[np.bool_] | None:
        """Which answers say nothing, such as a list without boxes: two models that both do so agree fully, which tells
        less than any other agreement. None: every answer says something."""
        return None

    @abstractmethod
    def signature(self, answers: Answers) -> NDArray[Any]:
        """What an index of many models compares: one integer an input, or one vector an input."""

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats | None:
        """How right each answer is, between 0 and 1; None: labels cannot judge answers of this task.

        A task with a truth of its own takes it from `answers.truths`. An answer without a truth may have any score.
        """
        return None

    def fine_scores(self, answers: Answers) -> Floats | None:
        """How right each answer is, between 0 and 1, in numbers that see what moves the main metric where `scores` do
        not; None: `scores` see it."""
        return None

    def judgement(self, answers: Answers) -> Judgement | None:
        """The task's metrics on the inputs that have a truth, of which there is at least one; None: it has none beside
        the mean of `scores`."""
        return None

    def judging(self) -> Judging:
        """Judges answers piece by piece. A task that needs less of an answer than is kept of it says so here, so that a
        dataset of any size can be judged; otherwise all answers are collected for `judgement`."""
        return CollectedAnswers(self)

    def figures(self, a: Answers, b: Answers) -> PairFigures:
        return PairFigures()

    @abstractmethod
    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        """One answer in a few words, on one line. `names`: of the classes."""

    def show_truth(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        """What is right of one input whose truth is known, in the words of `show`; only of a task with a truth of its
        own. Empty: it has no words for it."""
        return ""

    def drawing(
        self, answers: Answers, place: int, names: Sequence[str] | None = None, *, truth: bool = False
    ) -> Drawing | None:
        """What a page draws of one answer beside `show`, or of what is right of that input; None: nothing."""
        return None

    def document(self, answers: Answers, place: int, classes: AnswerClasses, sample: Any = None) -> Any:
        """One answer as data for JSON, which a server sends. `sample`: of a text, what was answered to."""
        return {"answer": self.show(answers, place)}


class Judging(Protocol):
    """How good answers are that come in pieces, one after the other. All of them have a truth."""

    def add(self, answers: Answers, labels: NDArray[Any]) -> None:
        """`labels`: the true classes, −1 where there is none, as of a task with a truth of its own."""
        ...

    def scores(self) -> Floats | None:
        """How right each answer is, as `Task.scores` says."""
        ...

    def judgement(self) -> Judgement | None:
        """The metrics of all answers, of which there is at least one."""
        ...


class CollectedAnswers:
    """Judges all answers at once."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._pieces: list[tuple[Answers, NDArray[Any]]] = []

    def add(self, answers: Answers, labels: NDArray[Any]) -> None:
        self._pieces.append((answers, labels))

    def scores(self) -> Floats | None:
        return self._task.scores(*self._joined())

    def judgement(self) -> Judgement | None:
        return self._task.judgement(self._joined()[0])

    def _joined(self) -> tuple[Answers, NDArray[Any]]:
        if len(self._pieces) > 1:
            answers, labels = zip(*self._pieces, strict=True)
            self._pieces = [(joined_answers(answers), np.concatenate(labels))]
        return self._pieces[0]


def judged_at_once(answers: Answers, labels: NDArray[Any]) -> Judging:
    """Answers that all have a truth, judged as `zoolens eval` judges them, once for scores and metrics."""
    judging = task_named(answers.task).judging()
    judging.add(answers, labels)
    return judging


def no_labels(answers: Answers) -> NDArray[np.int32]:
    """The labels of answers whose truth is no class."""
    return np.full(len(answers), -1, np.int32)


# Our own entry points, written out: `zoolens runs` would otherwise wait a fifteenth of a second for a list of all
# installed packages, only to learn what classification is. A test holds them equal to pyproject.toml.
BUILT_IN: Final = {
    "classification": "zoolens.inventory.tasks.classification:Classification",
    "detection": "zoolens.inventory.tasks.detection:Detection",
    "embedding": "zoolens.inventory.tasks.embedding:Embedding",
    "regression": "zoolens.inventory.tasks.regression:Regression",
    "token-classification": "zoolens.inventory.tasks.token_classification:TokenClassification",
    "question-answering": "zoolens.inventory.tasks.question_answering:QuestionAnswering",
    "text-recognition": "zoolens.inventory.tasks.text_recognition:TextRecognition",
    "language-model": "zoolens.inventory.tasks.language_model:LanguageModel",
    "multiple-choice": "zoolens.inventory.tasks.multiple_choice:MultipleChoice",
    "generation": "zoolens.inventory.tasks.generation:Generation",
    "other": "zoolens.inventory.tasks.vectors:Vectors",
    "segmentation": "zoolens.inventory.tasks.segmentation:Segmentation",
    "voice-activity": "zoolens.inventory.tasks.voice_activity:VoiceActivity",
    "multilabel": "zoolens.inventory.tasks.multilabel:MultiLabel",
}


@cache
def task_named(name: str) -> Task:
    """The task that manifests call so."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        made: Task = getattr(import_module(module), attribute)()
    elif name in plugins.registered(plugins.TASKS):
        made = plugins.load(plugins.TASKS, name)()
    else:
        raise UnknownName("task", name, task_names())
    return made


def task_names() -> list[str]:
    """The names of all tasks, the built-in ones first."""
    return [*BUILT_IN, *(name for name in plugins.names(plugins.TASKS) if name not in BUILT_IN)]


def known_truths(answers: Answers, labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which inputs have a truth that can judge their answers."""
    known = answers.truths.get(TRUTH_KNOWN)
    if known is not None:
        return np.asarray(known != 0)
    # Runs of before this task was judged by truths have none: classes do not judge them.
    return np.asarray(labels >= 0) & (task_named(answers.task).truth is None)


def has_one_truth(answers: Answers) -> bool:
    """Whether all inputs have the very same truth, so that one answer is right for all of them."""
    if task_named(answers.task).truth_is_sample:
        return False
    columns = [values for name, values in answers.truths.items() if name != TRUTH_KNOWN]
    return bool(columns) and len(answers) > 1 and all(map(_is_constant, columns))


def _is_constant(column: Column) -> bool:
    if isinstance(column, Ragged):
        if (column.lengths != column.lengths[0]).any():
            return False
        column = column.values.reshape(len(column), -1)
    return bool((column == column[:1]).all())


def taken_answers(answers: Answers, places: NDArray[Any]) -> Answers:
    """The answers to some of the inputs."""
    columns = {name: values[places] for name, values in answers.columns.items()}
    truths = {name: values[places] for name, values in answers.truths.items()}
    return replace(answers, columns=columns, truths=truths)


def joined_answers(pieces: Sequence[Answers]) -> Answers:
    """The answers of all pieces, one after the other, in the columns that all of them have."""
    first = pieces[0]
    columns = {name: _joined([piece.columns.get(name) for piece in pieces]) for name in first.columns}
    truths = {name: _joined([piece.truths.get(name) for piece in pieces]) for name in first.truths}
    return replace(
        first,
        columns={name: values for name, values in columns.items() if values is not None},
        truths={name: values for name, values in truths.items() if values is not None},
    )


def _joined(pieces: Sequence[Any]) -> Any:
    if any(piece is None for piece in pieces):
        return None
    return joined(pieces) if isinstance(pieces[0], Ragged) else np.concatenate(pieces)


def column(answers: Answers, name: str) -> NDArray[Any]:
    """A column that is needed for what is asked."""
    found: NDArray[Any] = _column(answers, name)
    return found


def ragged_column(answers: Answers, name: str) -> Ragged:
    """A column whose rows differ in length, which is needed for what is asked."""
    found: Ragged = _column(answers, name)
    return found


def _column(answers: Answers, name: str) -> Any:
    if name not in answers.columns:
        raise ZoolensError(
            f"The answers of {answers.output} have no {name}: it was not kept.",
            hint="Evaluate the model with `zoolens eval`, which keeps it.",
        )
    return answers.columns[name]
