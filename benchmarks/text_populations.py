"""Made-up texts of each task, answered by two models that find the same texts hard, as in `task_populations.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from population import INPUTS, Population, Random, Skills, kept, logistic
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.tasks.foreseen_columns import Foreseen
from zoolens.inventory.tasks.multiple_choice import Chosen
from zoolens.inventory.tasks.scoring.next_tokens import KeptTokens


def tags(random: Random, skills: Skills) -> Population:
    """Texts of very different length, some without entities, with three types, one of them rare."""
    kinds, chances = np.array(["PER", "LOC", "ORG"]), [0.5, 0.4, 0.1]
    truths: list[Truth] = []
    answers: list[list[Any]] = [[], []]
    for _ in range(INPUTS):
        ease, entities = random.normal(), int(np.floor(np.exp(random.normal(0.5, 1.0))))
        types = random.choice(kinds, entities, p=chances)
        truths.append(Truth("tags", {"tags": _spread(types).astype(str)}))
        for place, skill in enumerate(skills):
            sure = random.random(entities) < logistic(skill + ease)
            said = np.where(sure, types, random.choice(np.array([*kinds, ""]), entities))
            alarms = (random.random(2) < 0.1).tolist()
            answers[place].append(_spread(said, alarms))
    return kept("token-classification", [*answers[0], *answers[1]], truths)


def _spread(types: NDArray[np.str_], alarms: Sequence[bool] = (False, False)) -> NDArray[np.object_]:
    """Each entity is two words with a word between it and the next; two words behind them may be mistaken for one."""
    words = [tag for kind in types for tag in ((f"B-{kind}", f"I-{kind}", "O") if kind else ("O", "O", "O"))]
    return np.array([*words, *("B-PER" if alarm else "O" for alarm in alarms)], object)


def spans(random: Random, skills: Skills) -> Population:
    """Questions, a quarter of which have no answer."""
    words = np.array([f"w{number}" for number in range(50)])
    truths: list[Truth] = []
    answers: list[list[Any]] = [[], []]
    for _ in range(INPUTS):
        ease, there = random.normal(), random.random() < 0.75
        true = list(random.choice(words, 1 + random.poisson(1.5))) if there else []
        truths.append(Truth("spans", {"texts": np.array([" ".join(true)] if there else [], str)}))
        for place, skill in enumerate(skills):
            # Right, with words too many or too few, or elsewhere.
            lot = random.random() - logistic(skill + ease)
            said = true if lot < 0 else [*true, "more"] if lot < 0.15 else true[:1] if lot < 0.3 else ["else"]
            answers[place].append(" ".join(said))
    return kept("question-answering", [*answers[0], *answers[1]], truths)


def lines(random: Random, skills: Skills) -> Population:
    """Lines of very different length; most are read without an error, and few hold most errors."""
    letters = np.array(list("abcdefghij      "))
    truths: list[Truth] = []
    answers: list[list[str]] = [[], []]
    for _ in range(INPUTS):
        true = random.choice(letters, 3 + random.negative_binomial(2, 0.15))
        true[0] = "a"
        truths.append(Truth("text", {"text": np.array(["".join(true)])}))
        hard = random.normal()
        for place, skill in enumerate(skills):
            rate = random.beta(0.3, 0.3 * np.exp(2 * skill - hard))
            mistaken = random.random(len(true)) < rate
            replaced = np.where(mistaken, random.choice(np.array(["x", "", "yy"]), len(true)), true)
            answers[place].append("".join(replaced))
    return kept("text-recognition", [*answers[0], *answers[1]], truths)


def continuations(random: Random, skills: Skills, strange: float = 0.0) -> Population:
    """Texts of 10 to 400 tokens, hard as a whole and in stretches: what is hard to foresee is so for the next tokens
    too, and the two models differ in stretches as well. `strange`: the share of texts that are far harder, and longer,
    than all others."""
    odd = random.random(INPUTS) < strange
    lengths = np.clip(np.exp(random.normal(4, 0.6, INPUTS)) * np.where(odd, 3, 1), 10, 400).astype(int)
    most = int(lengths.max())
    ease = random.normal(0, 0.6, (INPUTS, 1)) - 4 * odd[:, None] + 2 * _stretches(random, most)
    following = random.integers(0, 40, (INPUTS, most))
    answers: list[list[Foreseen]] = [[], []]
    sizes = random.integers(1, 8, (INPUTS, most))
    shared = random.random((INPUTS, most)) < 0.7
    for place, skill in enumerate(skills):
        own = 0.2 * random.normal(size=(INPUTS, 1)) + 0.6 * _stretches(random, most)
        true = logistic(skill + ease + own)
        other = 0.6 * (1 - true)
        another = np.where(shared, following + 1, following + 2 + place)
        ids = np.where((true >= other)[..., None], _pair(following, another), _pair(another, following))
        logs = -np.sort(-np.log(_pair(true, other)), axis=2)
        for text, count in enumerate(lengths):
            of_text = slice(text, text + 1), slice(count)
            kept_of = KeptTokens(
                np.log(true[of_text][0]).astype(np.float32),
                ids[of_text][0].astype(np.int32),
                logs[of_text][0].astype(np.float32),
            )
            answers[place].append(Foreseen(following[of_text][0], kept_of, int(sizes[of_text].sum())))
    truths = [Truth("continuation", {"whole": np.array([True])})] * INPUTS
    return kept("language-model", [*answers[0], *answers[1]], truths)


def strange_continuations(random: Random, skills: Skills) -> Population:
    """The same, where three texts of a hundred are in another language, say."""
    return continuations(random, skills, strange=0.03)


def _stretches(random: Random, most: int) -> NDArray[np.float64]:
    """Noise of variance 1 at each position of each text, of which neighbours are correlated by 0.9."""
    noise = random.normal(size=(INPUTS, most))
    for place in range(1, most):
        noise[:, place] = 0.9 * noise[:, place - 1] + np.sqrt(1 - 0.81) * noise[:, place]
    return noise


def _pair(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    return np.stack([first, second], axis=2)


def choices(random: Random, skills: Skills) -> Population:
    """Questions with two to five choices of different length."""
    counts = random.integers(2, 6, INPUTS)
    right = random.integers(0, counts)
    truths = [Truth("choice", {"answer": np.array([place])}) for place in right]
    hard = random.normal(0, 1, INPUTS)
    answers: list[list[Chosen]] = [[], []]
    sizes = [random.integers(2, 40, count) for count in counts]
    for place, skill in enumerate(skills):
        for question, count in enumerate(counts):
            logs = -0.3 * sizes[question] - random.exponential(3, count)
            logs[right[question]] += skill + hard[question]
            answers[place].append(Chosen(logs, sizes[question]))
    return kept("multiple-choice", [*answers[0], *answers[1]], truths)
