"""Answers that are texts, read from an image or heard in a sound by a network with a CTC output.

Answers are judged by edit distances, as jiwer does. How well two texts agree is one minus their edit distance in
characters, divided by the length of the longer one.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError, ModelError
from zoolens.base.statistics.resampling import AT_LEAST_0, Counts
from zoolens.inventory.manifests.schema_texts import RECOGNISING, CtcDecode
from zoolens.inventory.preprocess.outputs import dequantised
from zoolens.inventory.runtimes.runtime import shape_text
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.scoring.edit_distance import ErrorParts, error_parts, text_similarity
from zoolens.inventory.tasks.scoring.sequence_decoding import decode_ctc
from zoolens.inventory.tasks.task import TOLERANCE, Answers, Column, Floats, Task, column

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.inventory.datasets.truth import Truth
    from zoolens.inventory.tasks.documents import AnswerClasses
    from zoolens.inventory.tasks.output_setup import OutputSetup, Reader

ROLE: Final = "symbols"
TEXT: Final = "text"  # the column of answers, that of truths, and the kind of truth
METRICS: Final = (
    Metric("cer", limits=AT_LEAST_0, lower_is_better=True, blind=1.0),
    Metric("wer", limits=AT_LEAST_0, lower_is_better=True),
    Metric("exact_match"),
)
_SIGNATURE: Final = 64  # numbers an input
_SHOWN: Final = 80  # characters
_COMMON: Final = 0.05  # of the inputs: a text that is rarer says little of the others
_CASES: Final[dict[str, Callable[[str], str]]] = {"keep": str, "lower": str.lower, "upper": str.upper}


class TextRecognition(Task):
    name = RECOGNISING
    summary = "Text in an image or in speech"
    judged = True
    metric = "cer"
    roles: ClassVar[Mapping[str, bool]] = {ROLE: True}
    truth = TEXT

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {TEXT: pa.string()}

    def reader(self, setup: OutputSetup) -> Reader:
        step = next((step for step in setup.output.postprocess if isinstance(step, CtcDecode)), None)
        if step is None:
            raise ManifestError(
                "The task text-recognition needs a step that says how symbols become a text.",
                hint="Declare postprocess: [{op: ctc, blank: 0}].",
            )
        symbols_of = _symbols(setup, step)
        alter = _CASES[step.case]

        def read(tensors: Mapping[str, NDArray[Any]], memos: Sequence[Any]) -> list[str]:
            scores = _steps_first(dequantised(tensors[ROLE], setup.tensors[ROLE]), step)
            symbols, blank = symbols_of(scores.shape[2])
            return [alter("".join(symbols[number] for number in decode_ctc(row, blank))) for row in scores]

        return read

    def keep(self, values: Sequence[str], labels: NDArray[Any] | None) -> Mapping[str, Column]:
        return {TEXT: _texts(values)}

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        return self.columns(main=True)

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        return {TEXT: _texts(["" if truth is None else str(truth[TEXT][0]) for truth in truths])}

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        return text_similarity(column(a, TEXT).tolist(), column(b, TEXT).tolist())

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return "mean of 1 − edit distance / longer text"

    def silent(self, answers: Answers) -> NDArray[np.bool_]:
        return np.array([not text for text in column(answers, TEXT)], np.bool_)

    def signature(self, answers: Answers) -> NDArray[Any]:
        """How often each letter, by its number, is in an answer."""
        texts = column(answers, TEXT).tolist()
        vectors = np.zeros((len(texts), _SIGNATURE), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for letter in text:
                row[ord(letter) % _SIGNATURE] += 1
        return vectors

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats:
        """Similarity with the true text, as the agreement of two answers is."""
        texts, true = column(answers, TEXT).tolist(), answers.truths.get(TEXT)
        return np.zeros(len(texts)) if true is None else text_similarity(texts, true.tolist())

    def judgement(self, answers: Answers) -> Judgement:
        texts, true = column(answers, TEXT).tolist(), answers.truths[TEXT].tolist()
        characters, words = error_parts(texts, true, "character"), error_parts(texts, true, "word")
        exact = np.array([ours.strip() == other.strip() for ours, other in zip(texts, true, strict=True)], np.float64)
        notes = [f"{int(characters.length.sum()):,} characters and {int(words.length.sum()):,} words in the true texts"]
        if empty := int((characters.length == 0).sum()):
            notes.append(f"{empty:,} true texts are empty: whatever is read there is an insertion")
        notes += _nearly_right(texts, true)
        metrics = (replace(METRICS[0], blind=_blind_rate(true)), *METRICS[1:])
        return Judgement(metrics, lambda weights: _figures((characters, words), exact, weights), tuple(notes))

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        return _quoted(column(answers, TEXT)[place])

    def show_truth(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        return _quoted(answers.truths[TEXT][place])

    def document(self, answers: Answers, place: int, classes: AnswerClasses, sample: Any = None) -> Any:
        return {"text": column(answers, TEXT)[place]}


def _blind_rate(true: Sequence[str]) -> float:
    """The error rate of characters of reading every input alike: as nothing, or as the commonest text if it is one."""
    commonest, times = max(Counter(true).items(), key=lambda item: item[1])
    if times <= _COMMON * len(true):
        return 1.0
    parts = error_parts([commonest] * len(true), true, "character")
    return min(1.0, float(parts.distance.sum() / max(parts.length.sum(), 1)))


def _nearly_right(texts: Sequence[str], true: Sequence[str]) -> Iterator[str]:
    """Says how many answers are wrong to a computer, though most readers would call them right."""
    different = [pair for pair in zip(texts, true, strict=True) if pair[0] != pair[1]]
    forms = sum(unicodedata.normalize("NFC", ours) == unicodedata.normalize("NFC", other) for ours, other in different)
    cases = sum(ours.casefold() == other.casefold() for ours, other in different)
    for count, what in ((forms, "the Unicode normal form (NFC or NFD)"), (cases, "upper and lower case")):
        if count:
            answers = "1 wrong answer differs" if count == 1 else f"{count:,} wrong answers differ"
            yield f"{answers} from the true text in {what} alone"


def _quoted(read: str) -> str:
    text = " ".join(read.split())
    return repr(text[:_SHOWN]) if text else "no text"


def _texts(values: Sequence[str]) -> NDArray[Any]:
    texts = np.empty(len(values), object)
    texts[:] = list(values)
    return texts


def _figures(parts: Sequence[ErrorParts], exact: Floats, weights: Counts) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = [weights @ part.distance / (weights @ part.length) for part in parts]
        share = weights @ exact / weights.sum(axis=1)
    found = np.column_stack([*rates, share])
    # Insertions alone, into references without any character, are no rate.
    found[~np.isfinite(found)] = np.nan
    return found


def _steps_first(scores: NDArray[np.float32], step: CtcDecode) -> NDArray[np.float32]:
    """Inputs × steps × symbols."""
    if scores.ndim != 3:
        raise ModelError(
            f"The output has shape {shape_text(scores.shape)}, not a score for each symbol at each step of each input.",
            hint="Where the file decodes by itself, name the tensor before its decoding.",
        )
    # Logarithms of probabilities may be −∞; NaN is not below infinity.
    if not (scores < np.inf).all():
        raise ModelError("The model answered NaN or infinity for a symbol.")
    return scores.transpose(0, 2, 1) if step.layout == "NCT" else scores


def _symbols(setup: OutputSetup, step: CtcDecode) -> Callable[[int], tuple[tuple[str, ...], int]]:
    """From how many symbols the tensor scores to what each stands for, and which of them is the blank."""
    listed = tuple(step.alphabet) if step.alphabet is not None else setup.output.labels
    if not listed:
        raise ManifestError(
            "The task text-recognition needs the symbols that the network knows.",
            hint="Give them in order without the blank: labels_file, one a line; labels; or alphabet in the step ctc.",
        )
    if step.alphabet is not None and setup.output.labels is not None:
        raise ManifestError("Give either labels or alphabet: both name the symbols.")
    if odd := sorted({*step.skip, *([step.word_delimiter] if step.word_delimiter else [])} - {*listed}):
        raise ManifestError(f"The step ctc names the symbol {odd[0][:40]!r}, which is not among the labels.")
    read_as = {**dict.fromkeys(step.skip, ""), **({step.word_delimiter: " "} if step.word_delimiter else {})}
    texts = tuple(read_as.get(symbol, symbol) for symbol in (*listed, *([" "] if step.use_space_char else [])))

    def of(count: int) -> tuple[tuple[str, ...], int]:
        if count not in (len(texts), len(texts) + 1):
            raise ManifestError(
                f"The model scores {count:,} symbols, but the manifest names {len(texts):,}; there must be as many, or "
                "one fewer without the blank.",
                hint="Correct labels or alphabet; use_space_char adds a space at the end, as PaddleOCR does.",
            )
        blank = range(count)[step.blank] if -count <= step.blank < count else None
        if blank is None:
            raise ManifestError(f"The blank is symbol {step.blank}, but the model scores {count:,} symbols.")
        # Labels that name the blank have it in its own place.
        own = texts[blank + 1 :] if count == len(texts) else texts[blank:]
        return (*texts[:blank], "", *own), blank

    return of
