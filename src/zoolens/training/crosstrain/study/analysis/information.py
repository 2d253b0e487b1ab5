"""How much a hyperparameter, or two together, say about a figure: mutual information in nats.

Both are cut into bins by rank (equal shares of the trials; equal values always share a bin; a text, a missing value
and each value of a short list are levels of their own), then counted. The bins of two hyperparameters together are
those of each, crossed: a finer partition can only say more, so the joint information is never below the larger of the
two, and since only counts enter, the order of the trials is nothing. Nearest-neighbour estimators promise neither.

Counting makes small samples look informative. So each value stands beside what it is on average when the figure is
dealt to the trials at random (`chance`), with the share of such deals that reach it (`p_value`); the deals depend on
the bins' sizes alone, so shuffled trials have the same p-values too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError

Codes = NDArray[np.int64]

FEWEST: Final = 20
PER_CELL: Final = 3  # trials per cell of a joint table, on average, that decide the number of bins
MOST_BINS: Final = 8
PERMUTATIONS: Final = 999
MOST_PAIRED: Final = 8  # hyperparameters of which all pairs are tried: the ones that say most alone
BLOCK: Final = 4_000_000  # numbers held at once
ROUNDING: Final = 1e-12


class TooFewTrials(ZoolensError):
    """An estimate that would be noise. The report says so in its place."""

    def __init__(self, what: str, number: int, needed: int) -> None:
        super().__init__(f"Too few trials for {what}: {number}, at least {needed} are needed.")


@dataclass(frozen=True)
class Single:
    """What one hyperparameter says about the target, in nats."""

    name: str
    nats: float
    chance: float
    p_value: float
    levels: int


@dataclass(frozen=True)
class Joint:
    """What two say together."""

    names: tuple[str, str]
    nats: float
    chance: float
    p_value: float
    synergy: float  # beyond the sum of what each says alone; below zero: they say the same
    synergy_chance: float  # what counting alone makes of it


@dataclass(frozen=True)
class Information:
    """How much hyperparameters say about a target."""

    target: str
    n: int
    left_out: int  # trials without the target
    bins: int  # of every number
    entropy: float  # of the target: the most that anything could say about it
    permutations: int
    seed: int
    singles: tuple[Single, ...]
    joints: tuple[Joint, ...]

    @property
    def estimator(self) -> str:
        return (
            f"plug-in mutual information of {self.bins} rank bins, in nats; chance and p from {self.permutations} "
            f"permutations (seed {self.seed})"
        )


def information(
    columns: Mapping[str, NDArray[Any]],
    target: NDArray[np.float64],
    name: str,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Information:
    """Between each column, each pair of columns, and the target; trials without a target are left out."""
    known = np.isfinite(target)
    n = int(known.sum())
    if n < FEWEST:
        raise TooFewTrials("mutual information", n, FEWEST)
    bins = bins_for(n)
    codes = {key: coded(column[known], bins) for key, column in columns.items()}
    answer = coded(target[known], bins)
    logs = _logs(n)
    deals = _deals(answer, permutations, seed)
    singles = tuple(_single(key, entry, answer, deals, logs) for key, entry in codes.items())
    strongest = sorted(singles, key=lambda single: single.chance - single.nats)[:MOST_PAIRED]
    paired = [key for key in codes if any(entry.name == key for entry in strongest)]
    joints = tuple(_joint((a, b), codes[a], codes[b], answer, deals, logs) for a, b in combinations(paired, 2))
    entropy = float((logs[n] - logs[np.bincount(answer)].sum()) / n)
    return Information(name, n, len(target) - n, bins, entropy, permutations, seed, singles, joints)


def bins_for(n: int) -> int:
    return int(np.clip(np.round((n / PER_CELL) ** (1 / 3)), 2, MOST_BINS))


def coded(values: NDArray[Any], bins: int) -> Codes:
    """Levels 0, 1, …, from the values alone: never from the order in which they come."""
    if values.dtype.kind not in "fiu":
        return np.unique(values, return_inverse=True)[1].astype(np.int64).reshape(-1)
    levels, place, counts = np.unique(values, return_inverse=True, return_counts=True)  # NaN is one level, the last
    if len(levels) <= bins:
        return place.astype(np.int64).reshape(-1)
    known = ~np.isnan(levels)
    upto = np.cumsum(counts)
    middle = (upto - counts / 2) / counts[known].sum()
    binned = np.where(known, np.minimum((middle * bins).astype(np.int64), bins - 1), bins)
    return np.unique(binned[place.reshape(-1)], return_inverse=True)[1].astype(np.int64).reshape(-1)


def mutual_information(a: Codes, b: Codes) -> float:
    """Plug-in estimate between two columns of levels, in nats."""
    return _from_tables(_tables(a, b[None, :]), _logs(len(a)))[0]  # type: ignore[no-any-return]


def crossed(a: Codes, b: Codes) -> Codes:
    """The partition that refines both."""
    return np.unique(a * (b.max() + 1) + b, return_inverse=True)[1].astype(np.int64).reshape(-1)


def _single(name: str, code: Codes, answer: Codes, deals: Codes, logs: NDArray[np.float64]) -> Single:
    shared = float(_from_tables(_tables(code, answer[None, :]), logs)[0])
    dealt = _from_many(np.sort(code), deals, logs)
    return Single(name, shared, float(dealt.mean()), _p_value(shared, dealt), int(code.max()) + 1)


def _joint(names: tuple[str, str], a: Codes, b: Codes, answer: Codes, deals: Codes, logs: NDArray[np.float64]) -> Joint:
    alone = [float(_from_tables(_tables(code, answer[None, :]), logs)[0]) for code in (a, b)]
    both = crossed(a, b)
    shared = float(_from_tables(_tables(both, answer[None, :]), logs)[0])
    order = np.argsort(both, kind="stable")
    dealt = _from_many(both[order], deals, logs)
    apart = _from_many(a[order], deals, logs) + _from_many(b[order], deals, logs)
    return Joint(
        names,
        max(shared, *alone),  # equal by mathematics where rounding says otherwise
        float(dealt.mean()),
        _p_value(shared, dealt),
        shared - sum(alone),
        float((dealt - apart).mean()),
    )


def _p_value(statistic: float, dealt: NDArray[np.float64]) -> float:
    return float((1 + (dealt >= statistic - ROUNDING).sum()) / (1 + len(dealt)))


def _deals(answer: Codes, permutations: int, seed: int) -> Codes:
    rows = np.tile(np.sort(answer), (permutations, 1))
    return np.random.default_rng(seed).permuted(rows, axis=1)


def _from_many(code: Codes, answers: Codes, logs: NDArray[np.float64]) -> NDArray[np.float64]:
    cells = int(code.max() + 1) * int(answers.max() + 1)
    block = max(1, BLOCK // max(cells, len(code)))
    parts = [answers[start : start + block] for start in range(0, len(answers), block)]
    return np.concatenate([_from_tables(_tables(code, part), logs) for part in parts])


def _tables(code: Codes, answers: Codes) -> Codes:
    """One table of counts (levels of the code × levels of the answer) for each row of answers."""
    rows, levels, marks = len(answers), int(code.max()) + 1, int(answers.max()) + 1
    cell = (np.arange(rows)[:, None] * levels + code[None, :]) * marks + answers
    return np.bincount(cell.reshape(-1), minlength=rows * levels * marks).reshape(rows, levels, marks)


def _from_tables(tables: Codes, logs: NDArray[np.float64]) -> NDArray[np.float64]:
    n = len(logs) - 1
    inside = logs[tables].sum(axis=(1, 2))
    margins = logs[tables.sum(axis=2)].sum(axis=1) + logs[tables.sum(axis=1)].sum(axis=1)
    nats: NDArray[np.float64] = np.maximum((inside - margins + logs[n]) / n, 0.0)
    return nats


def _logs(n: int) -> NDArray[np.float64]:
    """c · ln c of every count up to n."""
    counts = np.arange(n + 1, dtype=np.float64)
    products: NDArray[np.float64] = counts * np.log(np.maximum(counts, 1))
    return products
