"""What is kept of a language model's answers, in columns: of each text the tokens that were to be foreseen, and of the
distribution at each position the most likely tokens and a sample of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.scoring.next_tokens import KeptTokens
from zoolens.inventory.tasks.scoring.token_samples import TokenSample, Words, position_seeds
from zoolens.inventory.tasks.task import Answers, Column, Floats, column, ragged_column

if TYPE_CHECKING:
    import pyarrow as pa

FOLLOWING: Final = "following"  # the tokens that were to be foreseen
TRUE: Final = "true_logprob"
IDS: Final = "top_ids"
LOGS: Final = "top_logprobs"
BYTES: Final = "bytes"
# Of the sample: how many tokens at each position, which, their log-probabilities, and the number that stands for the
# text; −1: no sample was kept of it.
SAMPLED: Final = "sampled"
SAMPLED_IDS: Final = "sampled_ids"
SAMPLED_LOGS: Final = "sampled_logprobs"
SEED: Final = "seed"
NO_SEED: Final = -1
SAMPLE: Final = (SAMPLED, SAMPLED_IDS, SAMPLED_LOGS, SEED)
RAGGED: Final = frozenset({FOLLOWING, TRUE, IDS, LOGS, SAMPLED, SAMPLED_IDS, SAMPLED_LOGS})


@dataclass(frozen=True)
class Foreseen:
    """What was kept of one text. `bytes`: those that the foreseen tokens stand for. `seed`: of the sample."""

    following: NDArray[np.int64]
    kept: KeptTokens
    bytes: int
    seed: int = NO_SEED


def column_types() -> Mapping[str, pa.DataType]:
    import pyarrow as pa

    numbers, logs = pa.list_(pa.int32()), pa.list_(pa.float32())
    return {
        FOLLOWING: numbers,
        TRUE: logs,
        IDS: numbers,
        LOGS: logs,
        BYTES: pa.int64(),
        SAMPLED: numbers,
        SAMPLED_IDS: numbers,
        SAMPLED_LOGS: logs,
        SEED: pa.int64(),
    }


def kept_columns(texts: Sequence[Foreseen]) -> Mapping[str, Column]:
    samples = [_sample_of(text) for text in texts]
    return {
        FOLLOWING: Ragged.of([text.following for text in texts], np.int32),
        TRUE: Ragged.of([text.kept.true for text in texts], np.float32),
        IDS: Ragged.of([text.kept.ids for text in texts], np.int32),
        LOGS: Ragged.of([text.kept.logs for text in texts], np.float32),
        BYTES: np.array([text.bytes for text in texts], np.int64),
        SAMPLED: Ragged.of([sample.counts for sample in samples], np.int32),
        SAMPLED_IDS: Ragged.of([sample.ids for sample in samples], np.int32),
        SAMPLED_LOGS: Ragged.of([sample.logs for sample in samples], np.float32),
        SEED: np.array([NO_SEED if text.kept.sample is None else text.seed for text in texts], np.int64),
    }


def _sample_of(text: Foreseen) -> TokenSample:
    if text.kept.sample is not None:
        return text.kept.sample
    none = np.zeros(len(text.following), np.int32)
    return TokenSample(none, none[:0], np.empty(0, np.float32))


# --- reading


def width(answers: Answers) -> int:
    """How many of the most likely tokens are kept of each distribution."""
    positions = len(flat(ragged_column(answers, TRUE)))
    return len(flat(ragged_column(answers, IDS))) // positions if positions else 1


def kept(answers: Answers) -> KeptTokens:
    """What is kept at the positions of all texts, one text after the other."""
    true, ids, logs = (flat(ragged_column(answers, name)) for name in (TRUE, IDS, LOGS))
    count = width(answers)
    return KeptTokens(true, ids.reshape(-1, count), logs.reshape(-1, count), _sample(answers))


def _sample(answers: Answers) -> TokenSample | None:
    if not has_samples(answers):
        return None
    return TokenSample(*(flat(ragged_column(answers, name)) for name in (SAMPLED, SAMPLED_IDS, SAMPLED_LOGS)))


def has_samples(answers: Answers) -> bool:
    """Whether a sample was kept of every text. Runs of before samples were drawn have none, and neither has what an
    endpoint answers, which tells the most likely tokens alone."""
    return all(name in answers.columns for name in SAMPLE) and bool((column(answers, SEED) != NO_SEED).all())


def common_seeds(a: Answers, b: Answers) -> Words | None:
    """The seed of each position of all texts; None: the samples of the two cannot be compared, or there is none."""
    if not has_samples(a) or not has_samples(b) or not np.array_equal(column(a, SEED), column(b, SEED)):
        return None
    return position_seeds(column(a, SEED), ragged_column(a, FOLLOWING).lengths)


def answered_positions(answers: Answers, place: int) -> tuple[NDArray[Any], KeptTokens]:
    """The tokens of one text that were to be foreseen, and the most likely ones at each of its positions."""
    following, true, ids, logs = (ragged_column(answers, name)[place] for name in (FOLLOWING, TRUE, IDS, LOGS))
    count = width(answers)
    return following, KeptTokens(true, ids.reshape(-1, count), logs.reshape(-1, count))


def same_tokens(a: Answers, b: Answers) -> bool:
    ours, theirs = ragged_column(a, FOLLOWING), ragged_column(b, FOLLOWING)
    return np.array_equal(ours.lengths, theirs.lengths) and np.array_equal(flat(ours), flat(theirs))


def without_beginning(answers: Answers, other: Answers) -> Answers:
    """The answers without the first token of each text, where that is all that the other one does not foresee."""
    own, theirs = ragged_column(answers, FOLLOWING), ragged_column(other, FOLLOWING)
    more = own.lengths > 0
    if not more.any() or not np.array_equal(own.lengths - more, theirs.lengths):
        return answers
    later = {FOLLOWING: 1, TRUE: 1, IDS: width(answers), LOGS: width(answers)}
    shorter = {name: _without(answers, name, [count] * len(own)) for name, count in later.items()}
    if not np.array_equal(shorter[FOLLOWING].values, flat(theirs)):
        return answers
    if has_samples(answers):
        first = [int(row[0]) if len(row) else 0 for row in ragged_column(answers, SAMPLED)]
        shorter[SAMPLED] = _without(answers, SAMPLED, [1] * len(own))
        shorter |= {name: _without(answers, name, first) for name in (SAMPLED_IDS, SAMPLED_LOGS)}
    return replace(answers, columns={**answers.columns, **shorter, BYTES: column(other, BYTES)})


def _without(answers: Answers, name: str, counts: Sequence[int]) -> Ragged:
    """Rows without so many of their first values."""
    rows = ragged_column(answers, name)
    return Ragged.of([row[count:] for row, count in zip(rows, counts, strict=True)], rows.values.dtype)


# --- from positions to texts


def flat(rows: Ragged) -> NDArray[Any]:
    """The values of all rows. Of a table that was cut, there are values before the first row and after the last."""
    values: NDArray[Any] = rows.values[rows.offsets[0] : rows.offsets[-1]]
    return values


def text_of(rows: Ragged) -> NDArray[np.int64]:
    """The text of each position."""
    return np.repeat(np.arange(len(rows)), rows.lengths)


def sums(rows: Ragged, values: NDArray[Any]) -> Floats:
    return np.bincount(text_of(rows), values, minlength=len(rows)).astype(np.float64)


def text_means(answers: Answers, values: NDArray[Any], empty: float = 1.0) -> Floats:
    rows = ragged_column(answers, FOLLOWING)
    counts = rows.lengths
    means: Floats = np.divide(sums(rows, values), counts, out=np.full(len(rows), empty), where=counts > 0)
    return means
