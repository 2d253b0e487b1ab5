"""Which models answer alike: the signatures of all models over one probe dataset, compared exactly.

`agreement` of classifiers is the share of probes with the same answer. Models that answer no classes have vectors, and
their agreement is 1 − min(1, mean relative l2), where an input's relative l2 is ‖a − b‖ / max(‖a‖, ‖b‖); vectors of
different lengths have none (NaN). Of models with several outputs the main one counts.

Signatures live in a file (`journal`). Of labels, all stay in memory as long as they fit its budget, else their
sketches: answers stay exact, since a sketch only ever rules models out and whoever it does not rule out is read from
the file. One object is for one thread; several processes may read and write one file.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.findings.index.signatures import transitivity
from zoolens.findings.index.signatures.journal import Damaged, Journal
from zoolens.findings.index.signatures.memory import Residence, memory_budget
from zoolens.findings.index.signatures.signature_codec import encode
from zoolens.findings.index.signatures.signature_file import SignatureFile
from zoolens.findings.index.signatures.sketches import agreement_at_most, differing, ones
from zoolens.findings.index.signatures.vector_agreement import vector_agreement
from zoolens.inventory.tasks.task import DEFAULT_TASK, task_named

_BLOCK_BYTES: Final = 1 << 22
_VERIFIED: Final = 64  # candidates read from the file at once

Approximate = Literal["transitivity"]


class Near(NamedTuple):
    key: str
    agreement: float


class Entry(NamedTuple):
    """What a model answered to the probes, and where answers are classes, which of them are right."""

    key: str
    answers: NDArray[Any]
    correct: NDArray[np.bool_] | None = None


class SemanticIndex:
    """Open one with `open_semantic`. `keys` are in the order of every array that is returned."""

    def __init__(self, journal: Journal, *, probes: int, task: str, labels: bool, memory: int) -> None:
        self.probes, self.task, self.labels, self.memory = probes, task, labels, memory
        self._signatures = SignatureFile(journal, probes, labels=labels)
        self._residence: Residence | None = None
        self._inferred: NDArray[np.float32] | None = None
        self.refresh()

    def __len__(self) -> int:
        return len(self._signatures)

    def __contains__(self, key: str) -> bool:
        return key in self._signatures

    @property
    def keys(self) -> list[str]:
        return self._signatures.keys

    @property
    def path(self) -> Path:
        return self._signatures.journal.path

    @property
    def file_bytes(self) -> int:
        return self._signatures.journal.end

    @property
    def nbytes(self) -> int:
        """Bytes in memory for comparing. The keys belong to the rows and are not counted."""
        return self._signatures.nbytes + (self._residence.rows.nbytes if self._residence else 0)

    @property
    def sketched(self) -> bool:
        """Whether only sketches are in memory."""
        return self._residence is not None and not self._residence.whole

    # --- writing

    def insert(self, key: str, answers: NDArray[Any], correct: NDArray[np.bool_] | None = None) -> None:
        """Add a model, or replace what it answered: one class an input, or one vector."""
        self.insert_all([Entry(key, answers, correct)])

    def insert_all(self, entries: Sequence[Entry]) -> None:
        """Add models as `insert` does. Others wait until all of them are written."""
        for entry in entries:
            self.check(*entry)
        if not entries:
            return
        with self._signatures.compacting():
            self.refresh()
            self._inferred = None
            for entry in entries:
                self._keep_in_memory(self._signatures.write(encode(*entry)))

    def remove(self, key: str) -> None:
        # An error where nobody knows it.
        self._signatures.row(key)
        with self._signatures.compacting():
            self.refresh()
            if key not in self:  # another process was first
                return
            row = self._signatures.erase(key)
            self._inferred = None
            if self._residence is not None:
                self._residence.rows.remove(row)

    def refresh(self) -> None:
        """See what other processes have written."""
        if self._signatures.refresh():
            self._settle()

    def check(self, key: str, answers: NDArray[Any], correct: NDArray[np.bool_] | None) -> None:
        if len(answers) != self.probes or (correct is not None and len(correct) != self.probes):
            raise ZoolensError(
                f"{key} answered {len(answers):,} inputs, but this index has {self.probes:,} probes.",
                hint="Evaluate it on the same dataset, with the same --limit and --seed.",
            )
        if (answers.ndim == 1) != self.labels:
            raise ZoolensError(
                f"{key} answered {'classes' if answers.ndim == 1 else 'vectors'}, but this is an index of {self.task}.",
                hint="There is one index for each task.",
            )

    def _settle(self) -> None:
        """Decide again what stays in memory."""
        self._inferred = self._residence = None
        if not self.labels:
            return
        residence = Residence(len(self), self.probes, self._signatures.widest(), self.memory)
        for _, block in self._blocks(range(len(self))):
            for seen in residence.seen(block):
                residence.rows.append(seen)
        self._residence = residence

    def _keep_in_memory(self, row: int) -> None:
        if self._residence is None:
            return
        self._residence.rows.put(row, self._residence.seen(self._signatures.answers(row)))
        if self._residence.overfull:
            self._settle()

    # --- reading

    def answers(self, key: str) -> NDArray[Any]:
        """What a model answered: one class a probe, or one vector."""
        return self._signatures.answers(self._signatures.row(key))

    def _blocks(self, indices: Sequence[int] | NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[Any]]]:
        """The labels of these models, some megabytes at a time, and which of `indices` they are."""
        step = max(1, _BLOCK_BYTES // max(1, 4 * self.probes))
        whole = self._residence is not None and self._residence.whole
        for start in range(0, len(indices), step):
            where = slice(start, min(start + step, len(indices)))
            if whole and self._residence is not None:
                chosen = indices[where]
                rows = self._residence.rows.values
                yield where, rows[chosen.start : chosen.stop] if isinstance(chosen, range) else rows[chosen]
            else:
                yield where, np.stack([self._signatures.answers(int(index)) for index in indices[where]])

    def agreement(self, key: str, *, approximate: Approximate | None = None) -> NDArray[np.float64]:
        """Returns the agreement with every model of the index. `approximate`: as inferred from comparisons with five
        random models."""
        index = self._signatures.row(key)
        if approximate == "transitivity":
            return self._transitive(index)
        return self._agreement(self._signatures.answers(index), range(len(self)))

    def _agreement(self, answers: NDArray[Any], indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        if answers.ndim == 2:
            return np.array(
                [vector_agreement(answers, self._signatures.answers(int(index))) for index in indices], np.float64
            )
        counts = np.zeros(len(indices), np.int64)
        for where, block in self._blocks(indices):
            counts[where] = np.count_nonzero(block == answers, axis=1)
        return np.asarray(counts / self.probes, np.float64)

    def _transitive(self, index: int) -> NDArray[np.float64]:
        if self._inferred is None:
            self._inferred = transitivity.infer(
                lambda new, others: 1 - self._agreement(self._signatures.answers(new), others), len(self)
            )
        return np.asarray(1 - self._inferred[index].astype(np.float64))

    def nearest(self, key: str, k: int = 5, *, approximate: Approximate | None = None) -> list[Near]:
        """The k other models that agree most, exactly; ties by order of the keys."""
        index = self._signatures.row(key)
        if approximate is None and self.sketched:
            return self._ranked(*self._survivors(index, k), index)[:k]
        scores = self.agreement(key, approximate=approximate)
        return self._ranked(np.arange(len(self)), scores, index)[:k]

    def at_least(self, key: str, share: float) -> list[Near]:
        """Every other model that agrees on at least this share of the probes, best first."""
        index = self._signatures.row(key)
        chosen = np.flatnonzero(self._at_most(index) >= share) if self.sketched else np.arange(len(self))
        scores = self._agreement(self._signatures.answers(index), chosen)
        return self._ranked(chosen[scores >= share], scores[scores >= share], index)

    def _at_most(self, index: int) -> NDArray[np.float64]:
        """An upper bound of the agreement with each model, from the sketches."""
        assert self._residence is not None
        rows = self._residence.rows.values
        return agreement_at_most(differing(rows, rows[index]), self.probes)

    def _survivors(self, index: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Models read from the file, most promising first, until no other can be among the k best."""
        bounds, answers = self._at_most(index), self._signatures.answers(index)
        bounds[index] = -1.0
        order = np.argsort(-bounds, kind="stable")[: len(self) - 1]
        scores = np.zeros(0)
        while len(scores) < len(order):
            if len(scores) >= k > 0 and bounds[order[len(scores)]] < np.partition(scores, -k)[-k]:
                break
            more = order[len(scores) : len(scores) + max(_VERIFIED, len(scores))]
            scores = np.concatenate([scores, self._agreement(answers, more)])
        return order[: len(scores)], scores

    def _ranked(self, indices: NDArray[np.int64], scores: NDArray[np.float64], without: int) -> list[Near]:
        known = (indices != without) & ~np.isnan(scores)
        indices, scores = indices[known], scores[known]
        return [Near(self.keys[indices[i]], float(scores[i])) for i in np.lexsort((indices, -scores))]

    # --- right or wrong

    def accuracy(self) -> NDArray[np.float64]:
        """The share of right answers of each model; NaN where nobody knows."""
        bits = [self._signatures.correct(index) for index in range(len(self))]
        return np.array([np.nan if right is None else ones(right) / self.probes for right in bits], np.float64)

    def paired(self, key: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each model: how many probes only `key` has right, and how many only that model has; −1: not known."""
        mine = self._signatures.correct(self._signatures.row(key))
        only_mine, only_theirs = np.full((2, len(self)), -1, np.int64)
        for index in range(len(self)):
            theirs = self._signatures.correct(index)
            if mine is not None and theirs is not None:
                only_mine[index], only_theirs[index] = ones(mine & ~theirs), ones(theirs & ~mine)
        return only_mine, only_theirs


def open_semantic(
    path: Path | None,
    *,
    dataset: str,
    probes: int,
    task: str = DEFAULT_TASK,
    labels: bool | None = None,
    memory: int | None = None,
    say: Callable[[str], None] | None = None,
) -> SemanticIndex:
    """The index in this file, which is made where it is absent, and rebuilt, empty, where it is damaged (`say` is
    told). None: in a file of its own that goes with it. `labels`: whether answers are classes, where that is known;
    else the task says it."""
    if probes < 1:
        raise ZoolensError("An index needs at least one probe input.", hint="Evaluate models on a dataset first.")
    own = tempfile.TemporaryDirectory(prefix="zoolens-index-") if path is None else None
    place = Path(own.name) / "index.zli" if own is not None else Path(path or "")
    journal = Journal(place, _about(dataset, probes, task))
    discrete = task_named(task).discrete if labels is None else labels

    def attempt() -> SemanticIndex:
        return SemanticIndex(journal, probes=probes, task=task, labels=discrete, memory=memory_budget(memory))

    opened = _open(journal, attempt, say or (lambda _: None))
    if own is not None:
        weakref.finalize(opened, own.cleanup)
    return opened


def _open(journal: Journal, attempt: Callable[[], SemanticIndex], say: Callable[[str], None]) -> SemanticIndex:
    try:
        return attempt()
    except FileNotFoundError:
        pass
    except Damaged as error:
        say(f"The index file {journal.path} is damaged ({error.reason}); it is rebuilt from the store.")
    with journal.alone():
        try:
            return attempt()  # another process was first
        except (FileNotFoundError, Damaged):
            journal.rewrite(())
            return attempt()


def check_file(path: Path, *, dataset: str, probes: int, task: str = DEFAULT_TASK) -> None:
    """Read an index file as it is; `Damaged` where it is not what was written."""
    SignatureFile(Journal(path, _about(dataset, probes, task)), probes, labels=task_named(task).discrete).refresh()


def _about(dataset: str, probes: int, task: str) -> dict[str, Any]:
    return {"task": task, "dataset": dataset, "probes": probes}
