"""Two models' answers to the same made-up inputs, kept as a run keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.tasks.judgement import Judgement
from zoolens.inventory.tasks.pair_figures import NextTokenFigures
from zoolens.inventory.tasks.task import TRUTH_KNOWN, Answers, Task, taken_answers, task_named

INPUTS = 4_000
Random = np.random.Generator
Rows = NDArray[np.int64]
Skills = tuple[float, float]


@dataclass(frozen=True)
class Population:
    """The answers of two models to the same inputs: first those of A, then those of B. `always`: how many inputs behind
    those that are drawn are part of every sample, such as the documents that queries search."""

    answers: Answers
    always: int = 0

    @property
    def task(self) -> Task:
        return task_named(self.answers.task)

    def rows(self, drawn: Rows, of_b: NDArray[np.bool_] | bool = False) -> Rows:
        """The places of the answers to some inputs, those of B where it is said."""
        of_all = np.r_[drawn, INPUTS + np.arange(self.always)]
        other = np.r_[np.broadcast_to(of_b, len(drawn)), np.zeros(self.always, bool)]
        return np.asarray(of_all + (INPUTS + self.always) * other, np.int64)

    def judged(self, rows: Rows) -> Judgement:
        judgement = self.task.judgement(taken_answers(self.answers, rows))
        assert judgement is not None
        return judgement

    def scores(self, of_b: bool = False) -> NDArray[np.float64] | None:
        """How right the answer to each input is by itself, which `eval` prints the mean of."""
        known = taken_answers(self.answers, self.rows(np.arange(INPUTS), of_b))
        return self.task.scores(known, np.full(len(known), -1))

    def next_tokens(self, drawn: Rows) -> NextTokenFigures | None:
        """How two language models differ on some texts."""
        a, b = (taken_answers(self.answers, self.rows(drawn, of_b)) for of_b in (False, True))
        return self.task.figures(a, b).next_tokens

    @property
    def agreement(self) -> NDArray[np.float64]:
        a, b = (taken_answers(self.answers, self.rows(np.arange(INPUTS), of_b)) for of_b in (False, True))
        return self.task.agreement(a, b)


def kept(name: str, values: Any, truths: Sequence[Truth], always: int = 0) -> Population:
    """What a run keeps of the values of both models, one behind the other."""
    task, twice = task_named(name), [*truths, *truths]
    known = np.ones(len(twice), np.int8)
    answers = Answers("out", name, task.keep(values, None), truths={**task.keep_truth(twice), TRUTH_KNOWN: known})
    return Population(answers, always)


def logistic(values: NDArray[np.float64] | float) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-np.asarray(values, np.float64))))
