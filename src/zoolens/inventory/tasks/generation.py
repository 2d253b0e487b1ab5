"""Texts that a language model writes behind prompts, token by token, each time the most likely one.

Two models that write alike agree fully. Where they part, the question is how much it means: with two tokens that are
nearly as likely, rounding decides, and everything behind is another text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.numerics.sequence_alignment import common_beginning
from zoolens.inventory.tasks.pair_figures import PairFigures
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.scoring.continuations import (
    Continuation,
    ContinuationFigures,
    continuation_figures,
)
from zoolens.inventory.tasks.scoring.sample_tests import SampleFigures, sample_figures
from zoolens.inventory.tasks.task import TOLERANCE, Answers, Column, Floats, Task, column, ragged_column

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.inventory.tasks.documents import AnswerClasses
    from zoolens.inventory.tasks.output_setup import OutputSetup, Reader

ROLE: Final = "logits"
PROMPT: Final = "prompt"
WRITTEN: Final = "written"
IDS: Final = "top_ids"
LOGS: Final = "top_logprobs"
TEXT: Final = "text"  # in UTF-8
DRAWN: Final = "drawn"  # draws × tokens
DRAWS: Final = "draws"  # how many
_COLUMNS: Final = {
    PROMPT: np.int32,
    WRITTEN: np.int32,
    IDS: np.int32,
    LOGS: np.float32,
    TEXT: np.uint8,
    DRAWN: np.int32,
}
_SIGNATURE: Final = 64
_SHOWN: Final = 120  # characters of a text


class Generation(Task):
    name = "generation"
    summary = "A text that goes on from a prompt, token by token"
    unit = "tokens"
    roles: ClassVar[Mapping[str, bool]] = {ROLE: True}
    located = True
    ragged = frozenset(_COLUMNS)

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {name: pa.list_(pa.from_numpy_dtype(dtype)) for name, dtype in _COLUMNS.items()} | {DRAWS: pa.int64()}

    def reader(self, setup: OutputSetup) -> Reader:
        setup.require_one_text()

        def read(tensors: Mapping[str, NDArray[Any]], memos: Sequence[Any]) -> list[Mapping[str, NDArray[Any]]]:
            return [{name: tensors[name][place] for name in _COLUMNS} for place in range(len(memos))]

        return read

    def keep(self, values: Sequence[Mapping[str, NDArray[Any]]], labels: NDArray[Any] | None) -> Mapping[str, Column]:
        kept: dict[str, Column] = {
            name: Ragged.of([each[name] for each in values], dtype) for name, dtype in _COLUMNS.items()
        }
        return kept | {DRAWS: np.array([len(each[DRAWN]) for each in values], np.int64)}

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        """The share of the longer continuation that stands before the first token at which the two part."""
        if self.unknown_agreement(a, b):
            return np.full(len(a), np.nan)
        pairs = zip(ragged_column(a, WRITTEN), ragged_column(b, WRITTEN), strict=True)
        return np.array([common_beginning(*pair) / max(1, *map(len, pair)) for pair in pairs], np.float64)

    def unknown_agreement(self, a: Answers, b: Answers) -> str:
        if not _same_prompts(a, b):
            return "the two split the prompts into different tokens, so that those which they write cannot be compared"
        return (
            "" if _same_texts(a, b) else "the same tokens are different texts of the two, so that they are not compared"
        )

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return "mean share of the text before the first other token"

    def figures(self, a: Answers, b: Answers) -> PairFigures:
        if self.unknown_agreement(a, b) or not len(a):
            return PairFigures()
        found: ContinuationFigures = continuation_figures(_continuations(a), _continuations(b))
        return PairFigures(continuations=found, samples=_samples(a, b))

    def signature(self, answers: Answers) -> NDArray[Any]:
        """How often each token, by its number, was written."""
        rows = ragged_column(answers, WRITTEN)
        vectors = np.zeros((len(rows), _SIGNATURE), np.float32)
        for vector, row in zip(vectors, rows, strict=True):
            np.add.at(vector, row % _SIGNATURE, 1)
        return vectors

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        text = _text(answers, place)
        shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
        return f"{shown} ({len(ragged_column(answers, WRITTEN)[place])} tokens)"

    def document(self, answers: Answers, place: int, classes: AnswerClasses, sample: Any = None) -> Any:
        written, best = ragged_column(answers, WRITTEN)[place], _continuation(answers, place).logs[:, 0]
        return {"text": _text(answers, place), "tokens": written.tolist(), "logprobs": best.tolist()}


def _samples(a: Answers, b: Answers) -> SampleFigures | None:
    """What the drawn texts tell; None where there are none."""
    if DRAWN not in a.columns or DRAWN not in b.columns:
        return None  # of runs that are older than draws
    # A prompt that comes again is drawn for with the same random numbers, and tells nothing more.
    prompts = ragged_column(a, PROMPT)
    first = {tuple(prompts[place].tolist()): place for place in reversed(range(len(a)))}
    ours, theirs = (_draws(each) for each in (a, b))
    places = sorted(first.values())
    return sample_figures([ours[place] for place in places], [theirs[place] for place in places])


def _draws(answers: Answers) -> list[NDArray[Any]]:
    counts = column(answers, DRAWS).tolist()
    pairs = zip(ragged_column(answers, DRAWN), counts, strict=True)
    return [row.reshape(count, -1) if count else row.reshape(0, 0) for row, count in pairs]


def _text(answers: Answers, place: int) -> str:
    return bytes(ragged_column(answers, TEXT)[place].astype(np.uint8)).decode("utf-8", "replace")


def _same_prompts(a: Answers, b: Answers) -> bool:
    ours, theirs = ragged_column(a, PROMPT), ragged_column(b, PROMPT)
    return all(np.array_equal(*pair) for pair in zip(ours, theirs, strict=True))


def _same_texts(a: Answers, b: Answers) -> bool:
    """Whether the same tokens are the same text; decoders differ in blanks at its ends."""
    same = (np.array_equal(*pair) for pair in zip(ragged_column(a, WRITTEN), ragged_column(b, WRITTEN), strict=True))
    return all(_text(a, place).strip() == _text(b, place).strip() for place, alike in enumerate(same) if alike)


def _continuations(answers: Answers) -> list[Continuation]:
    return [_continuation(answers, place) for place in range(len(answers))]


def _continuation(answers: Answers, place: int) -> Continuation:
    written, ids, logs = (ragged_column(answers, name)[place] for name in (WRITTEN, IDS, LOGS))
    shape = len(written), -1 if len(written) else 0
    return Continuation(written, ids.reshape(shape), logs.reshape(shape).astype(np.float64))
