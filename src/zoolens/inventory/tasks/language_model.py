"""Answers that are distributions over the next token, at every position of a text.

Positions of one text are not independent of each other: an input is a text, and intervals are over texts. Bits per byte
compare models with different tokenizers; perplexity and agreement are about tokens, and compare models with the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ModelError
from zoolens.base.statistics.intervals import Interval
from zoolens.base.statistics.resampling import AT_LEAST_0, SHARE, Counts, resampled_estimates
from zoolens.inventory.manifests.schema_texts import PREDICTING, NextTokens
from zoolens.inventory.preprocess.outputs import dequantised
from zoolens.inventory.preprocess.tokenizer_client import TokenPlaces
from zoolens.inventory.tasks.foreseen_columns import (
    BYTES,
    FOLLOWING,
    IDS,
    NO_SEED,
    RAGGED,
    SAMPLE,
    TRUE,
    Foreseen,
    answered_positions,
    column_types,
    flat,
    kept,
    kept_columns,
    same_tokens,
    sums,
    text_means,
    text_of,
    width,
    without_beginning,
)
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.pair_figures import UNKNOWN, NextTokenFigures, PairFigures
from zoolens.inventory.tasks.scoring.next_tokens import PositionPairs, kept_tokens
from zoolens.inventory.tasks.scoring.token_samples import position_seeds, text_seed
from zoolens.inventory.tasks.task import TOLERANCE, Answers, Column, Floats, Task, column, ragged_column
from zoolens.inventory.tasks.text_agreement import paired_texts

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.inventory.datasets.truth import Truth
    from zoolens.inventory.tasks.documents import AnswerClasses
    from zoolens.inventory.tasks.output_setup import OutputSetup, Reader

ROLE: Final = "logits"
CONTINUATION: Final = "continuation"
KNOWN: Final = "whole"
METRICS: Final = (
    Metric("bits_per_byte", unit="bits", limits=AT_LEAST_0, lower_is_better=True),
    Metric("perplexity", unit="", limits=(1.0, float("inf")), lower_is_better=True),
    Metric("next_token_accuracy"),
)
_SIGNATURE: Final = 64
_SUSPICIOUS: Final = 0.9  # of the next tokens: the best models foresee two thirds of an ordinary text


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
        "Give `zoolens eval` more and longer texts, and evaluate with --fresh what was measured before samples of "
        "unlikely tokens were kept. Of an endpoint, keep more tokens (`next_tokens: {top: 1000}` in the manifests)."
    )
    by_truth: ClassVar[Mapping[str, str]] = {"choice": "multiple-choice", "prompt": "generation"}
    ragged = RAGGED
    later = frozenset(SAMPLE)

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        return column_types()

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
            whole = not setup.tensors[ROLE].likeliest_only
            return [_foreseen(row, places, top, whole=whole) for row, places in zip(scores, memos, strict=True)]

        return read

    def keep(self, values: Sequence[Foreseen], labels: NDArray[Any] | None) -> Mapping[str, Column]:
        return kept_columns(values)

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {KNOWN: pa.int8()}

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        return {KNOWN: np.array([truth is not None for truth in truths], np.int8)}

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        """The mean over the positions of a text of 1 − total variation of both distributions: an estimate where samples
        of unlikely tokens were kept, else the most that it can be. It is not known of two models that split texts
        differently."""
        return paired_texts(a, b).estimate if same_tokens(a, b) else np.full(len(a), np.nan)

    def least_agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        return paired_texts(a, b).least if same_tokens(a, b) else np.full(len(a), np.nan)

    def mean_agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Interval:
        return paired_texts(a, b).mean if same_tokens(a, b) else UNKNOWN

    def unknown_agreement(self, a: Answers, b: Answers) -> str:
        different = (
            "the two split the texts into different tokens: bits per byte compare them; perplexity and next-token "
            "accuracy are about other tokens in each of them and are not subtracted"
        )
        return "" if same_tokens(a, b) else different

    def on_common_ground(self, a: Answers, b: Answers) -> tuple[Answers, Answers]:
        """Behind a token for the beginning the first token of a text is foreseen too, which costs most of all."""
        return without_beginning(a, b), without_beginning(b, a)

    def incomparable(self, a: Answers, b: Answers) -> tuple[str, ...]:
        return () if same_tokens(a, b) else tuple(metric.name for metric in METRICS if metric.name != self.metric)

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return "mean of 1 − total variation of the next token, as far as tokens were kept"

    def figures(self, a: Answers, b: Answers) -> PairFigures:
        if not same_tokens(a, b):
            return PairFigures()
        texts = paired_texts(a, b)
        if not len(texts.pairs.divergence):
            return PairFigures()
        means = float(np.mean(texts.pairs.divergence)), float(np.mean(texts.pairs.same_best))
        likely, intervals = min(width(a), width(b)), _over_texts(a, texts.pairs)
        sampled = texts.pairs.sampled is not None
        return PairFigures(next_tokens=NextTokenFigures(*means, texts.mean, likely, *intervals, sampled=sampled))

    def silent(self, answers: Answers) -> NDArray[np.bool_]:
        return np.asarray(ragged_column(answers, FOLLOWING).lengths == 0)

    def signature(self, answers: Answers) -> NDArray[Any]:
        """How often each token, by its number, is the most likely one."""
        best, following = kept(answers).ids[:, 0], ragged_column(answers, FOLLOWING)
        vectors = np.zeros((len(following), _SIGNATURE), np.float32)
        np.add.at(vectors, (text_of(following), best % _SIGNATURE), 1)
        return vectors

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats:
        """The share of the positions of each text at which the most likely token is the one that follows."""
        return text_means(answers, _right(answers), 0.0)

    def fine_scores(self, answers: Answers) -> Floats:
        """The probability of each text as a geometric mean over its bytes: bits per byte, turned into a share."""
        nats = sums(ragged_column(answers, FOLLOWING), _lost(answers))
        return np.asarray(np.exp(-nats / np.maximum(column(answers, BYTES), 1)))

    def judgement(self, answers: Answers) -> Judgement:
        following = ragged_column(answers, FOLLOWING)
        lost, right = (sums(following, values) for values in (_lost(answers), _right(answers)))
        tokens, size = following.lengths, column(answers, BYTES)

        def aggregate(weights: Counts) -> Floats:
            of_texts = [weights @ values for values in (lost, right, tokens, size)]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                nats, correct, count, length = of_texts
                return np.column_stack([nats / np.log(2) / length, np.exp(nats / count), correct / count])

        bits, perplexity, accuracy = METRICS
        least, most = _constant(flat(following), int(size.sum()))
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
        following, here = answered_positions(answers, place)
        rows = zip(following.tolist(), here.true.tolist(), here.ids.tolist(), here.logs.tolist(), strict=True)
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


def foreseen_tokens(places: TokenPlaces) -> NDArray[np.int64]:
    """Which tokens of a text are to be foreseen: all but the first, which nothing stands before. Special tokens, such
    as one for the end, were not written by whoever wrote the text."""
    return np.asarray(1 + np.flatnonzero(places.texts[1:] >= 0))


def _foreseen(scores: NDArray[np.float32], places: TokenPlaces, top: int, *, whole: bool) -> Foreseen:
    """What is kept of the scores at the positions of one text. `whole`: the scores of all tokens are the model's."""
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
    seed = text_seed(places.sample) if whole else NO_SEED
    seeds = position_seeds(np.array([seed]), np.array([len(targets)])) if whole else None
    found = kept_tokens(scores, places.ids[targets], top, own[targets - 1], seeds)
    return Foreseen(places.ids[targets], found, _bytes_of(places, targets), seed)


def _bytes_of(places: TokenPlaces, targets: NDArray[np.int64]) -> int:
    """How many bytes of the text the foreseen tokens stand for: those behind the first token, which nothing stands
    before, up to where a long text was cut."""
    if not len(targets):
        return 0
    text = str(places.sample)
    start = int(places.ends[: targets[0]].max())  # 0 behind a token that stands for the beginning of a text
    stop = int(places.ends[targets].max()) if places.cut else len(text)
    return len(text[start:stop].encode("utf-8", "surrogatepass"))


def _over_texts(answers: Answers, pairs: PositionPairs) -> tuple[Interval | None, Interval | None]:
    """Intervals of the divergence and of the share of equal best tokens, by resampling texts."""
    rows = ragged_column(answers, FOLLOWING)
    of_texts = np.column_stack([sums(rows, pairs.divergence), sums(rows, pairs.same_best), rows.lengths])

    def aggregate(weights: Counts) -> Floats:
        total = weights @ of_texts
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(total[:, :2] / total[:, 2:], np.float64)

    divergence, same_best = resampled_estimates(aggregate, len(rows), [AT_LEAST_0, SHARE])
    return divergence.interval, same_best.interval


def _lost(answers: Answers) -> Floats:
    """Nats that each following token costs."""
    return -kept(answers).true.astype(np.float64)


def _right(answers: Answers) -> NDArray[np.bool_]:
    return np.asarray(kept(answers).ids[:, 0] == flat(ragged_column(answers, FOLLOWING)))


def _right_of(answers: Answers, place: int) -> int:
    best = ragged_column(answers, IDS)[place].reshape(-1, width(answers))[:, 0]
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
