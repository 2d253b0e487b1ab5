"""Answers that are distributions over the next token, at every position of a text.

Positions of one text are not independent of each other: an input is a text, and intervals are over texts. Bits per byte
compare models with different tokenizers; perplexity and agreement are about tokens, and compare models with the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ModelError
from zoolens.base.statistics.intervals import Interval
from zoolens.base.statistics.resampling import AT_LEAST_0, SHARE, Counts, resampled_estimates
from zoolens.inventory.manifests.schema_texts import PREDICTING, NextTokens
from zoolens.inventory.preprocess.outputs import dequantised
from zoolens.inventory.preprocess.tokenizer_client import TokenPlaces
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.scoring.next_tokens import KeptTokens, PositionPairs, compare_tokens, kept_tokens
from zoolens.inventory.tasks.task import (
    TOLERANCE,
    Answers,
    Column,
    Floats,
    NextTokenFigures,
    PairFigures,
    Task,
    column,
    ragged_column,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.inventory.datasets.truth import Truth
    from zoolens.inventory.tasks.documents import AnswerClasses
    from zoolens.inventory.tasks.output_setup import OutputSetup, Reader

ROLE: Final = "logits"
FOLLOWING: Final = "following"  # the tokens that were to be foreseen
TRUE: Final = "true_logprob"
IDS: Final = "top_ids"
LOGS: Final = "top_logprobs"
BYTES: Final = "bytes"
CONTINUATION: Final = "continuation"
KNOWN: Final = "whole"
METRICS: Final = (
    Metric("bits_per_byte", unit="bits", limits=AT_LEAST_0, lower_is_better=True),
    Metric("perplexity", unit="", limits=(1.0, float("inf")), lower_is_better=True),
    Metric("next_token_accuracy"),
)
_SIGNATURE: Final = 64
_SUSPICIOUS: Final = 0.9  # of the next tokens: the best models foresee two thirds of an ordinary text


@dataclass(frozen=True)
class Foreseen:
    """What was kept of one text. `bytes`: those that the foreseen tokens stand for."""

    following: NDArray[np.int64]
    kept: KeptTokens
    bytes: int


class LanguageModel(Task):
    name = PREDICTING
    summary = "The next token at every position of a text"
    judged = True
    metric = "bits_per_byte"
    unit = "tokens"
    roles: ClassVar[Mapping[str, bool]] = {ROLE: True}
    located = True
    truth = CONTINUATION
    truth_is_sample = True
    agreement_is_exact = False
    closer_agreement = (
        "Keep more tokens of each distribution (`next_tokens: {top: 1000}` in the manifests), and `zoolens eval` again."
    )
    by_truth: ClassVar[Mapping[str, str]] = {"choice": "multiple-choice", "prompt": "generation"}
    ragged = frozenset({FOLLOWING, TRUE, IDS, LOGS})

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {
            FOLLOWING: pa.list_(pa.int32()),
            TRUE: pa.list_(pa.float32()),
            IDS: pa.list_(pa.int32()),
            LOGS: pa.list_(pa.float32()),
            BYTES: pa.int64(),
        }

    def reader(self, setup: OutputSetup) -> Reader:
        setup.require_one_text()
        step = next((step for step in setup.output.postprocess if isinstance(step, NextTokens)), None)
        top = (step or NextTokens(op="next_tokens")).top

        def read(tensors: Mapping[str, NDArray[Any]], memos: Sequence[Any]) -> list[Foreseen]:
            scores = dequantised(tensors[ROLE], setup.tensors[ROLE])
            if scores.ndim != 3:
                raise ModelError(
                    f"The output has shape {scores.shape}, not a score for each token of the vocabulary at each "
                    "position of each text.",
                    hint="Name another output, or export the model with the logits of all positions.",
                )
            return [_foreseen(row, places, top) for row, places in zip(scores, memos, strict=True)]

        return read

    def keep(self, values: Sequence[Foreseen], labels: NDArray[Any] | None) -> Mapping[str, Column]:
        return {
            FOLLOWING: Ragged.of([each.following for each in values], np.int32),
            TRUE: Ragged.of([each.kept.true for each in values], np.float32),
            IDS: Ragged.of([each.kept.ids for each in values], np.int32),
            LOGS: Ragged.of([each.kept.logs for each in values], np.float32),
            BYTES: np.array([each.bytes for each in values], np.int64),
        }

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {KNOWN: pa.int8()}

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        return {KNOWN: np.array([truth is not None for truth in truths], np.int8)}

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        """The mean over the positions of a text of 1 − total variation of both distributions, in which the tokens that
        are not among the most likely of both count as one. It is 1 where a text has no position, and not known of two
        models that split texts differently."""
        if not _same_tokens(a, b):
            return np.full(len(a), np.nan)
        return _text_means(a, position_pairs(a, b).agreement)

    def least_agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        """The agreement of each text if the two give what is not kept of both to different tokens."""
        if not _same_tokens(a, b):
            return np.full(len(a), np.nan)
        return _text_means(a, position_pairs(a, b).least)

    def unknown_agreement(self, a: Answers, b: Answers) -> str:
        different = (
            "the two split the texts into different tokens: bits per byte compare them; perplexity and next-token "
            "accuracy are about other tokens in each of them and are not subtracted"
        )
        return "" if _same_tokens(a, b) else different

    def on_common_ground(self, a: Answers, b: Answers) -> tuple[Answers, Answers]:
        """Behind a token for the beginning the first token of a text is foreseen too, which costs most of all."""
        return _without_beginning(a, b), _without_beginning(b, a)

    def incomparable(self, a: Answers, b: Answers) -> tuple[str, ...]:
        return () if _same_tokens(a, b) else tuple(metric.name for metric in METRICS if metric.name != self.metric)

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return "mean of 1 − total variation of the next token, rare tokens as one"

    def figures(self, a: Answers, b: Answers) -> PairFigures:
        if not _same_tokens(a, b):
            return PairFigures()
        pairs = position_pairs(a, b)
        if not len(pairs.divergence):
            return PairFigures()
        bounds = [float(np.mean(_text_means(a, each))) for each in (pairs.least, pairs.agreement)]
        means = float(np.mean(pairs.divergence)), float(np.mean(pairs.same_best))
        kept = min(_width(a), _width(b))
        intervals = _over_texts(a, pairs)
        return PairFigures(next_tokens=NextTokenFigures(*means, Interval(*bounds), kept, *intervals))

    def silent(self, answers: Answers) -> NDArray[np.bool_]:
        return np.asarray(ragged_column(answers, FOLLOWING).lengths == 0)

    def signature(self, answers: Answers) -> NDArray[Any]:
        """How often each token, by its number, is the most likely one."""
        best, following = _kept(answers).ids[:, 0], ragged_column(answers, FOLLOWING)
        vectors = np.zeros((len(following), _SIGNATURE), np.float32)
        np.add.at(vectors, (_text_of(following), best % _SIGNATURE), 1)
        return vectors

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats:
        """The share of the positions of each text at which the most likely token is the one that follows."""
        return _text_means(answers, _right(answers), 0.0)

    def fine_scores(self, answers: Answers) -> Floats:
        """The probability of each text as a geometric mean over its bytes: bits per byte, turned into a share."""
        nats = _sums(ragged_column(answers, FOLLOWING), _lost(answers))
        return np.asarray(np.exp(-nats / np.maximum(column(answers, BYTES), 1)))

    def judgement(self, answers: Answers) -> Judgement:
        following = ragged_column(answers, FOLLOWING)
        lost, right = (_sums(following, values) for values in (_lost(answers), _right(answers)))
        tokens, size = following.lengths, column(answers, BYTES)

        def aggregate(weights: Counts) -> Floats:
            of_texts = [weights @ values for values in (lost, right, tokens, size)]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                nats, correct, count, length = of_texts
                return np.column_stack([nats / np.log(2) / length, np.exp(nats / count), correct / count])

        bits, perplexity, accuracy = METRICS
        least, most = _constant(_flat(following), int(size.sum()))
        metrics = (replace(bits, blind=least), perplexity, replace(accuracy, blind=most))
        notes = [f"{int(tokens.sum()):,} tokens of {int(size.sum()):,} bytes"]
        if tokens.sum() and right.sum() > _SUSPICIOUS * tokens.sum():
            notes.append(
                f"more than {100 * _SUSPICIOUS:g} % of the next tokens are right: the network may see what it should "
                "foresee (is it a masked one?), or may have learned these texts by heart"
            )
        return Judgement(metrics, aggregate, tuple(notes))

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        tokens, right = len(ragged_column(answers, FOLLOWING)[place]), _right_of(answers, place)
        if not tokens:
            return "no token to foresee"
        return f"{_bits(answers, place):.3f} bits a byte; {right:,} of {tokens:,} next tokens right"

    def document(self, answers: Answers, place: int, classes: AnswerClasses, sample: Any = None) -> Any:
        """Each token that was to be foreseen with its log-probability, and the most likely tokens there. None stands
        for what is infinite, which is no JSON: the logarithm of no probability at all, and the bits of such a token."""
        following, kept = answered_positions(answers, place)
        rows = zip(following.tolist(), kept.true.tolist(), kept.ids.tolist(), kept.logs.tolist(), strict=True)
        positions = [
            {
                "token": token,
                "logprob": _finite(log),
                "top": [{"token": t, "logprob": _finite(v)} for t, v in zip(*best, strict=True)],
            }
            for token, log, *best in rows
        ]
        bits = _finite(_bits(answers, place)) if len(following) else None
        return {"bits_per_byte": bits, "positions": positions}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def answered_positions(answers: Answers, place: int) -> tuple[NDArray[Any], KeptTokens]:
    """The tokens of one text that were to be foreseen, and what was kept of the distribution of each."""
    following, true, ids, logs = (ragged_column(answers, name)[place] for name in (FOLLOWING, TRUE, IDS, LOGS))
    width = _width(answers)
    return following, KeptTokens(true, ids.reshape(-1, width), logs.reshape(-1, width))


def foreseen_tokens(places: TokenPlaces) -> NDArray[np.int64]:
    """Which tokens of a text are to be foreseen: all but the first, which nothing stands before. Special tokens, such
    as one for the end, were not written by whoever wrote the text."""
    return np.asarray(1 + np.flatnonzero(places.texts[1:] >= 0))


def _foreseen(scores: NDArray[np.float32], places: TokenPlaces, top: int) -> Foreseen:
    """What is kept of the scores at the positions of one text."""
    if not isinstance(places.sample, str) or places.ids is None:
        raise DatasetError(
            "A language model goes on with one text, but the sample is a pair of texts or a list of words.",
            hint="Give a plain text: --data passages:FILE.txt.",
        )
    own = np.arange(len(scores))[places.columns(len(scores))]
    if len(own) != len(places.ids):
        raise ModelError(
            f"The output has {len(own)} positions for a text of {len(places.ids)} tokens.",
            hint="Name the output that has the logits of all positions.",
        )
    targets = foreseen_tokens(places)
    kept = kept_tokens(scores, places.ids[targets], top, own[targets - 1])
    return Foreseen(places.ids[targets], kept, _bytes_of(places, targets))


def _bytes_of(places: TokenPlaces, targets: NDArray[np.int64]) -> int:
    """How many bytes of the text the foreseen tokens stand for: those behind the first token, which nothing stands
    before, up to where a long text was cut."""
    if not len(targets):
        return 0
    text = str(places.sample)
    start = int(places.ends[: targets[0]].max())  # 0 behind a token that stands for the beginning of a text
    stop = int(places.ends[targets].max()) if places.cut else len(text)
    return len(text[start:stop].encode("utf-8", "surrogatepass"))


def _over_texts(answers: Answers, pairs: PositionPairs) -> list[Interval | None]:
    """Intervals of the divergence and of the share of equal best tokens, by resampling texts."""
    rows = ragged_column(answers, FOLLOWING)
    sums = np.column_stack([_sums(rows, pairs.divergence), _sums(rows, pairs.same_best), rows.lengths])

    def aggregate(weights: Counts) -> Floats:
        total = weights @ sums
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(total[:, :2] / total[:, 2:], np.float64)

    return [found.interval for found in resampled_estimates(aggregate, len(rows), [AT_LEAST_0, SHARE])]


def _width(answers: Answers) -> int:
    """How many tokens are kept of each distribution."""
    positions = len(_flat(ragged_column(answers, TRUE)))
    return len(_flat(ragged_column(answers, IDS))) // positions if positions else 1


def _kept(answers: Answers) -> KeptTokens:
    true, ids, logs = (_flat(ragged_column(answers, name)) for name in (TRUE, IDS, LOGS))
    width = _width(answers)
    return KeptTokens(true, ids.reshape(-1, width), logs.reshape(-1, width))


def position_pairs(a: Answers, b: Answers) -> PositionPairs:
    """Two models at every position of all texts, one text after the other. Both split texts into the same tokens."""
    return compare_tokens(_kept(a), _kept(b))


def _same_tokens(a: Answers, b: Answers) -> bool:
    ours, theirs = ragged_column(a, FOLLOWING), ragged_column(b, FOLLOWING)
    return np.array_equal(ours.lengths, theirs.lengths) and np.array_equal(_flat(ours), _flat(theirs))


def _without_beginning(answers: Answers, other: Answers) -> Answers:
    """The answers without the first token of each text, where that is all that the other one does not foresee."""
    own, theirs = ragged_column(answers, FOLLOWING), ragged_column(other, FOLLOWING)
    more = own.lengths > 0
    if not more.any() or not np.array_equal(own.lengths - more, theirs.lengths):
        return answers
    later = {FOLLOWING: 1, TRUE: 1, IDS: _width(answers), LOGS: _width(answers)}
    shorter = {
        name: Ragged.of(
            [row[count:] for row in ragged_column(answers, name)], ragged_column(answers, name).values.dtype
        )
        for name, count in later.items()
    }
    if not np.array_equal(shorter[FOLLOWING].values, _flat(theirs)):
        return answers
    return replace(answers, columns={**answers.columns, **shorter, BYTES: column(other, BYTES)})


def _text_of(rows: Ragged) -> NDArray[np.int64]:
    """The text of each position."""
    return np.repeat(np.arange(len(rows)), rows.lengths)


def _sums(rows: Ragged, values: NDArray[Any]) -> Floats:
    return np.bincount(_text_of(rows), values, minlength=len(rows)).astype(np.float64)


def _text_means(answers: Answers, values: NDArray[Any], empty: float = 1.0) -> Floats:
    rows = ragged_column(answers, FOLLOWING)
    counts = rows.lengths
    means: Floats = np.divide(_sums(rows, values), counts, out=np.full(len(rows), empty), where=counts > 0)
    return means


def _flat(rows: Ragged) -> NDArray[Any]:
    """The values of all rows. Of a table that was cut, there are values before the first row and after the last."""
    values: NDArray[Any] = rows.values[rows.offsets[0] : rows.offsets[-1]]
    return values


def _lost(answers: Answers) -> Floats:
    """Nats that each following token costs."""
    return -_kept(answers).true.astype(np.float64)


def _right(answers: Answers) -> NDArray[np.bool_]:
    return np.asarray(_kept(answers).ids[:, 0] == _flat(ragged_column(answers, FOLLOWING)))


def _right_of(answers: Answers, place: int) -> int:
    best = ragged_column(answers, IDS)[place].reshape(-1, _width(answers))[:, 0]
    return int(np.count_nonzero(best == ragged_column(answers, FOLLOWING)[place]))


def _bits(answers: Answers, place: int) -> float:
    nats = -float(ragged_column(answers, TRUE)[place].astype(np.float64).sum())
    return nats / float(np.log(2)) / max(int(column(answers, BYTES)[place]), 1)


def _constant(following: NDArray[Any], size: int) -> tuple[float | None, float | None]:
    """Bits a byte and accuracy of answers that are the same everywhere: how often each token follows elsewhere in these
    texts.

    A token does not count for itself. Of 600 tokens of a text most are there once, and who had learned how often each
    of them is in this very text would need fewer bits than a good model.
    """
    total = len(following)
    if total < 2 or not size:
        return None, None
    counts = np.unique(following, return_counts=True)[1]
    elsewhere = counts - 1
    # Witten and Bell (1991): a new token is as likely as new ones were, and is any of the others in the vocabulary.
    distinct = len(counts) - (elsewhere == 0)
    tokens = int(following.max()) + 1  # those that were seen; a vocabulary may have more
    others = np.maximum(tokens - distinct, 1)
    chances = np.where(elsewhere > 0, elsewhere, distinct / others) / (total - 1 + distinct)
    bits = min(float(-(counts * np.log2(chances)).sum()), total * float(np.log2(tokens)))
    return bits / size, float(counts.max() / total)
