"""Answers that are words of a text: extractive question answering, judged as SQuAD's scripts do.

The best span of the context is chosen from the scores of its first and of its last token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ModelError
from zoolens.inventory.datasets.text_dataset import TextPair
from zoolens.inventory.manifests.schema_texts import ANSWERING, AnswerSpan
from zoolens.inventory.preprocess.outputs import dequantised
from zoolens.inventory.preprocess.tokenizer_client import TokenPlaces
from zoolens.inventory.tasks.drawing import Drawing
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.scoring.answer_spans import Version, answer_parts, best_constant_f1, best_span
from zoolens.inventory.tasks.task import TOLERANCE, TRUTH_KNOWN, Answers, Column, Floats, Task, column

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.base.statistics.resampling import Counts
    from zoolens.inventory.datasets.truth import Truth
    from zoolens.inventory.tasks.documents import AnswerClasses
    from zoolens.inventory.tasks.output_setup import OutputSetup, Reader

TEXTS: Final = "texts"
ANSWER: Final = "answer"
_SIGNATURE: Final = 64
_LETTERS: Final = 80
_SHOWN: Final = 3  # right answers


class QuestionAnswering(Task):
    name = ANSWERING
    summary = "Words of a text that answer a question"
    judged = True
    metric = "f1"
    roles: ClassVar[Mapping[str, bool]] = {"start": True, "end": True}
    located = True
    truth = "spans"
    ragged = frozenset({TEXTS})

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {ANSWER: pa.string()}

    def reader(self, setup: OutputSetup) -> Reader:
        setup.require_one_text()
        step = next((step for step in setup.output.postprocess if isinstance(step, AnswerSpan)), AnswerSpan(op="span"))

        def read(tensors: Mapping[str, NDArray[Any]], memos: Sequence[Any]) -> list[str]:
            real = {role: dequantised(tensors[role], setup.tensors[role]) for role in self.roles}
            starts, ends = (_rows(real[role], role) for role in ("start", "end"))
            return [_answer(*each, step) for each in zip(starts, ends, memos, strict=True)]

        return read

    def keep(self, values: Sequence[str], labels: NDArray[Any] | None) -> Mapping[str, Column]:
        answers = np.empty(len(values), object)
        answers[:] = list(values)
        return {ANSWER: answers}

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {TEXTS: pa.list_(pa.string())}

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        return {TEXTS: Ragged.of([np.empty(0, object) if truth is None else truth[TEXTS] for truth in truths], object)}

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        """F1 of one answer against the other, which is the same in either direction; 1 where both answer nothing."""
        references = [[text] for text in column(b, ANSWER).tolist()]
        return answer_parts(column(a, ANSWER).tolist(), references, 2).f1

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return "F1 of one model's answers against the other's"

    def silent(self, answers: Answers) -> NDArray[np.bool_]:
        return np.array([not text for text in column(answers, ANSWER)], np.bool_)

    def signature(self, answers: Answers) -> NDArray[Any]:
        """How often each letter, by its number, is in an answer."""
        texts = column(answers, ANSWER).tolist()
        vectors = np.zeros((len(texts), _SIGNATURE), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for letter in text.encode():
                row[letter % _SIGNATURE] += 1
        return vectors

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats:
        references: Ragged | None = answers.truths.get(TEXTS)
        texts = column(answers, ANSWER).tolist()
        if references is None:
            return np.zeros(len(texts))
        found, places = np.zeros(len(texts)), np.flatnonzero(answers.truths[TRUTH_KNOWN])
        known = [references[place].tolist() for place in places]
        found[places] = answer_parts([texts[place] for place in places], known, _version(known)).f1
        return found

    def judgement(self, answers: Answers) -> Judgement:
        references = [row.tolist() for row in answers.truths[TEXTS]]
        version = _version(references)
        parts = answer_parts(column(answers, ANSWER).tolist(), references, version)
        kinds = {"answerable": parts.answerable, "unanswerable": ~parts.answerable} if version == 2 else {}
        chosen = {name: rows for name, rows in kinds.items() if rows.any()}
        main = Metric("f1", blind=best_constant_f1(references, version))
        metrics = (main, Metric("exact_match"), *(Metric(f"f1.{name}") for name in chosen))
        everything = np.ones(len(references), np.bool_)
        columns = [(parts.f1, everything), (parts.exact, everything), *((parts.f1, rows) for rows in chosen.values())]

        def aggregate(weights: Counts) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.column_stack([weights @ (values * rows) / (weights @ rows) for values, rows in columns])

        return Judgement(metrics, aggregate, (f"as SQuAD {version}.{'1' if version == 1 else '0'} counts",))

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        return _quoted(column(answers, ANSWER)[place])

    def show_truth(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        texts = dict.fromkeys(answers.truths[TEXTS][place].tolist())
        return " or ".join(map(_quoted, list(texts)[:_SHOWN])) or _quoted("")

    def drawing(
        self, answers: Answers, place: int, names: Sequence[str] | None = None, *, truth: bool = False
    ) -> Drawing:
        texts = answers.truths[TEXTS][place].tolist() if truth else [column(answers, ANSWER)[place]]
        return Drawing(texts=tuple(dict.fromkeys(" ".join(text.split()) for text in texts if text)))

    def document(self, answers: Answers, place: int, classes: AnswerClasses, sample: Any = None) -> Any:
        return {"answer": column(answers, ANSWER)[place]}


def _version(references: Sequence[Sequence[str]]) -> Version:
    """Which of SQuAD's scripts judges these questions: that of 2.0 where some have no answer."""
    return 1 if all(references) else 2


def _quoted(answer: str) -> str:
    text = " ".join(answer.split())
    return repr(text[:_LETTERS]) if text else "no answer"


def _rows(tensor: NDArray[Any], role: str) -> NDArray[Any]:
    rows = tensor[:, :, 0] if tensor.ndim == 3 and tensor.shape[2] == 1 else tensor
    if rows.ndim != 2:
        raise ModelError(f"The tensor of {role} has shape {tensor.shape}, not one score for each token of each text.")
    return rows


def _answer(start: NDArray[Any], end: NDArray[Any], places: TokenPlaces, step: AnswerSpan) -> str:
    """The characters of the context that the best span covers; empty where nothing is answered."""
    if not isinstance(places.sample, TextPair):
        raise DatasetError(
            "An answer is looked for in the second text of a pair, but the sample is one text.",
            hint="Give questions and contexts: --data squad:FILE.json.",
        )
    own = places.columns(len(start))
    starts, ends = start[own], end[own]
    if not (np.isfinite(starts).all() and np.isfinite(ends).all()):
        raise ModelError("The model answered NaN or infinity for a token.")
    span = best_span(starts, ends, step.longest, places.texts == 1)
    if span is None:
        return ""
    if step.no_answer and float(starts[0]) + float(ends[0]) > span.score:
        return ""
    return places.sample.second[places.begins[span.first] : places.ends[span.last]]
