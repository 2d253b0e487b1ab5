"""Choices of a language model among given continuations of a text, by their log-likelihoods.

A model chooses the continuation that it finds most likely, as lm-evaluation-harness counts (acc), or the most likely
for each byte of it (acc_bytes). Of choices that are as likely, the first is taken. What models choose among are texts,
so that models with different tokenizers are compared as any others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.preprocess.outputs import dequantised
from zoolens.inventory.preprocess.tokenizer_client import ChoiceTokens
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.scoring.next_tokens import kept_tokens
from zoolens.inventory.tasks.task import TOLERANCE, Answers, Column, Floats, Task, ragged_column

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.base.statistics.resampling import Counts
    from zoolens.inventory.datasets.truth import Truth
    from zoolens.inventory.tasks.documents import AnswerClasses
    from zoolens.inventory.tasks.output_setup import OutputSetup, Reader

ROLE: Final = "logits"
LOGS: Final = "choice_logprobs"
BYTES: Final = "choice_bytes"
ANSWER: Final = "answer"
ACCURACY: Final = "choice_accuracy"
BY_BYTES: Final = "choice_accuracy_bytes"
_SIGNATURE: Final = 16


@dataclass(frozen=True)
class Chosen:
    """The log-likelihood of each choice in nats, and its size in bytes."""

    logs: Floats
    bytes: NDArray[np.int64]


class MultipleChoice(Task):
    name = "multiple-choice"
    summary = "The most likely of several continuations of a text"
    graded = False
    judged = True
    metric = ACCURACY
    unit = "choices"
    roles: ClassVar[Mapping[str, bool]] = {ROLE: True}
    located = True
    truth = "choice"
    ragged = frozenset({LOGS, BYTES})

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {LOGS: pa.list_(pa.float64()), BYTES: pa.list_(pa.int64())}

    def reader(self, setup: OutputSetup) -> Reader:
        setup.require_one_text()

        def read(tensors: Mapping[str, NDArray[Any]], memos: Sequence[Any]) -> list[Chosen]:
            scores = dequantised(tensors[ROLE], setup.tensors[ROLE])
            return [_chosen(row, tokens) for row, tokens in zip(scores, memos, strict=True)]

        return read

    def keep(self, values: Sequence[Chosen], labels: NDArray[Any] | None) -> Mapping[str, Column]:
        return {
            LOGS: Ragged.of([each.logs for each in values], np.float64),
            BYTES: Ragged.of([each.bytes for each in values], np.int64),
        }

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {ANSWER: pa.int64()}

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        return {ANSWER: np.array([-1 if truth is None else int(truth[ANSWER][0]) for truth in truths], np.int64)}

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        return np.asarray(chosen(a) == chosen(b), np.float64)

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return "same choice"

    def signature(self, answers: Answers) -> NDArray[Any]:
        """Which choice is taken, as a vector with a single 1."""
        return np.eye(_SIGNATURE, dtype=np.float32)[chosen(answers) % _SIGNATURE]

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats:
        right = answers.truths.get(ANSWER)
        if right is None:
            return np.zeros(len(answers))
        return np.asarray(chosen(answers) == right, np.float64)

    def judgement(self, answers: Answers) -> Judgement:
        right = np.asarray(answers.truths[ANSWER], np.int64)
        found = np.column_stack([chosen(answers) == right, chosen(answers, by_bytes=True) == right]).astype(np.float64)
        blind = _blind(right, ragged_column(answers, LOGS).lengths)

        def aggregate(weights: Counts) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray(weights @ found / weights.sum(axis=1, keepdims=True), np.float64)

        return Judgement((Metric(ACCURACY, blind=blind), Metric(BY_BYTES, blind=blind)), aggregate)

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        logs = ragged_column(answers, LOGS)[place]
        order = np.argsort(-logs, kind="stable")
        return f"choice {order[0]} ({logs[order[0]]:.2f} nats, {logs[order[0]] - logs[order[1]]:.2f} before the next)"

    def show_truth(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        return f"choice {int(answers.truths[ANSWER][place])}"

    def document(self, answers: Answers, place: int, classes: AnswerClasses, sample: Any = None) -> Any:
        logs = ragged_column(answers, LOGS)[place]
        return {"choice": int(np.argmax(logs)), "logprobs": logs.tolist()}


def chosen(answers: Answers, *, by_bytes: bool = False) -> NDArray[np.int64]:
    """The place of each answer's most likely choice, of equal ones the first."""
    rows = ragged_column(answers, LOGS)
    sizes = ragged_column(answers, BYTES) if by_bytes else None
    places = np.empty(len(rows), np.int64)
    for place in range(len(rows)):
        values = rows[place] if sizes is None else rows[place] / sizes[place]
        places[place] = int(np.argmax(values))
    return places


def _blind(right: NDArray[np.int64], counts: NDArray[np.int64]) -> float | None:
    """The accuracy of the best choice that is the same everywhere, or of one at random."""
    if not len(right):
        return None
    return float(max(np.unique(right, return_counts=True)[1].max() / len(right), np.mean(1 / counts)))


def _chosen(scores: NDArray[np.float32], tokens: Any) -> Chosen:
    """The log-likelihoods of one sample's choices, whose positions stand one behind the other in `scores`."""
    if not isinstance(tokens, ChoiceTokens):
        raise DatasetError(
            "There is nothing to choose from: the sample is no text with choices.",
            hint="Give questions with choices: --data choices:FILE.jsonl.",
        )
    counts = [len(choice) for choice in tokens.choices]
    kept = kept_tokens(scores, np.concatenate(tokens.choices), 1)
    of_choices = np.split(kept.true.astype(np.float64), np.cumsum(counts)[:-1])
    sizes = [len(choice.encode("utf-8", "surrogatepass")) for choice in tokens.sample.choices]
    return Chosen(np.array([part.sum() for part in of_choices]), np.array(sizes, np.int64))
