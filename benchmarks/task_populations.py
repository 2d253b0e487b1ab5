"""Made-up inputs of each task, answered by two models that find the same inputs hard, for `task_intervals.py`.

Answers and truths are kept as a run keeps them. The skill of a model is a number: 0 is poor, 3 is nearly always right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.preprocess.box_outputs import ImageBoxes
from zoolens.inventory.tasks.detection import Found
from zoolens.inventory.tasks.judgement import Judgement
from zoolens.inventory.tasks.language_model import Foreseen
from zoolens.inventory.tasks.multilabel import Probabilities
from zoolens.inventory.tasks.multiple_choice import Chosen
from zoolens.inventory.tasks.scoring.next_tokens import KeptTokens
from zoolens.inventory.tasks.task import TRUTH_KNOWN, Answers, NextTokenFigures, Task, taken_answers, task_named
from zoolens.inventory.tasks.voice_activity import Frames

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


# --- images


def detection(random: Random, skills: Skills, shares: Sequence[float] = (1.0, 0.4, 0.2)) -> Population:
    """`shares`: objects of each class in an image. In a hard image objects are missed and boxes are loose."""
    easier = np.random.default_rng(3).normal(0, 0.5, len(shares))  # classes differ
    truths: list[Truth] = []
    found: list[list[Found]] = [[], []]
    for _ in range(INPUTS):
        ease = random.normal()
        classes = np.repeat(np.arange(len(shares)), random.poisson(shares))
        sides = np.exp(random.normal(4, 0.8, (len(classes), 2)))
        boxes = np.c_[random.uniform(0, 500, (len(classes), 2)), sides]
        about = {
            "boxes": boxes,
            "classes": classes,
            "areas": sides.prod(axis=1),
            "crowds": np.zeros(len(classes), bool),
        }
        truths.append(Truth("boxes", about))
        for place, skill in enumerate(skills):
            found[place].append(_detections(boxes, classes, skill + ease + easier, random))
    return kept("detection", [*found[0], *found[1]], truths)


def rare_detection(random: Random, skills: Skills) -> Population:
    """Eight classes: the commonest in most images, the rarest in one of 28."""
    return detection(random, skills, tuple(1 / np.arange(1, 9) ** 1.6))


def many_detection(random: Random, skills: Skills) -> Population:
    """24 classes, half of which are in 6 % of the images or less."""
    return detection(random, skills, tuple(0.8 / np.arange(1, 25) ** 1.1))


def _detections(boxes: NDArray[np.float64], classes: Rows, skills: NDArray[np.float64], random: Random) -> Found:
    skill = skills[classes]
    sure = logistic(skill + random.normal(0, 1, len(boxes)))
    seen = random.random(len(boxes)) < sure
    loose = 0.22 * (1.2 - sure[seen, None]) * boxes[seen][:, [2, 3, 2, 3]]
    near = boxes[seen] + loose * random.normal(0, 1, (int(seen.sum()), 4))
    near[:, 2:] = np.maximum(near[:, 2:], 1)
    alarms = int(random.poisson(1.0))
    wrong = np.c_[random.uniform(0, 500, (alarms, 2)), np.exp(random.normal(4, 0.8, (alarms, 2)))]
    scores = np.r_[logistic(2 * skill[seen] / 3 + random.normal(0, 1, len(near))), 0.6 * random.beta(1, 3, alarms)]
    labels = np.r_[classes[seen], random.integers(0, len(skills), alarms)]
    order = np.argsort(-scores, kind="stable")
    return Found(ImageBoxes(np.r_[near, wrong][order], labels[order].astype(np.int64), scores[order]), 0)


def segmentation(random: Random, skills: Skills, shares: Sequence[float] = (0.55, 0.2, 0.12, 0.1, 0.03)) -> Population:
    """Patches on images of 16 × 16; whole patches are mistaken. `shares`: of the patches that have each class."""
    count, chances = len(shares), np.array(shares) / sum(shares)
    truths: list[Truth] = []
    masks: list[list[NDArray[np.uint16]]] = [[], []]
    for _ in range(INPUTS):
        ease = random.normal()
        patches = random.choice(count, (4, 4), p=chances)
        truths.append(Truth("mask", {"mask": np.kron(patches, np.ones((4, 4), int)).astype(np.uint8)}))
        for place, skill in enumerate(skills):
            right = random.random((4, 4)) < logistic(skill + ease)
            answered = np.kron(np.where(right, patches, random.choice(count, (4, 4), p=chances)), np.ones((4, 4), int))
            masks[place].append(np.roll(answered, int(random.integers(0, 2)), axis=1).astype(np.uint16))
    return kept("segmentation", [*masks[0], *masks[1]], truths)


def many_segmentation(random: Random, skills: Skills) -> Population:
    """21 classes, most of which are in a seventh of the images."""
    return segmentation(random, skills, (0.6, 0.2, *(19 * [0.01])))


def labels(random: Random, skills: Skills, shares: Sequence[float] = (0.5, 0.3, 0.2, 0.1)) -> Population:
    """`shares`: of the inputs that have each label."""
    present = random.random((INPUTS, len(shares))) < np.array(shares)
    ease = random.normal(0, 0.7, (INPUTS, 1))
    truths = [Truth("labels", {"present": row.astype(np.int8)}) for row in present]
    answers = []
    for skill in skills:
        logits = (2 * present - 1) * (skill + ease) + random.normal(0, 1.5, present.shape) - 0.5
        answers.append(logistic(logits).astype(np.float32))
    return kept("multilabel", Probabilities(np.concatenate(answers), 0.5), truths)


def many_labels(random: Random, skills: Skills) -> Population:
    """30 labels, most of which are in a tenth of the inputs."""
    return labels(random, skills, (0.5, 0.3, *(28 * [0.1])))


# --- texts


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


# --- numbers and vectors


def numbers(random: Random, skills: Skills) -> Population:
    """True values with many ties, as ratings have them, and errors of very different size."""
    true = np.round(random.normal(0, 1.2, INPUTS) * 5) / 5
    hard = np.exp(random.normal(0, 0.4, INPUTS))
    shared = random.normal(0, 0.4, INPUTS)
    truths = [Truth("value", {"value": np.array([value])}) for value in true]
    answers = [
        (true + hard * (shared + random.normal(0, 1.6 - skill, INPUTS)))[:, None].astype(np.float32) for skill in skills
    ]
    return kept("regression", np.concatenate(answers), truths)


def heavy_numbers(random: Random, skills: Skills) -> Population:
    """The same with errors of a t distribution of three degrees of freedom."""
    true = random.normal(0, 1.2, INPUTS)
    shared = random.standard_t(3, INPUTS)
    truths = [Truth("value", {"value": np.array([value])}) for value in true]
    answers = [
        (true + 0.3 * (shared + (1.6 - skill) * random.standard_t(3, INPUTS)))[:, None].astype(np.float32)
        for skill in skills
    ]
    return kept("regression", np.concatenate(answers), truths)


def _pairs(random: Random, skills: Skills, alike: NDArray[np.float64]) -> Population:
    """Vectors of two texts, whose cosine follows how alike they are."""
    truths = [Truth("similarity", {"similarity": np.array([value])}) for value in alike]
    hard = random.normal(0, 0.5, INPUTS)
    answers = []
    for skill in skills:
        angle = np.pi * logistic(skill * (0.5 - alike) * 2 + hard + random.normal(0, 1, INPUTS))
        turned = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        answers.append(np.c_[np.ones(INPUTS), np.zeros(INPUTS), turned].astype(np.float32))
    return kept("embedding", np.concatenate(answers), truths)


def similarities(random: Random, skills: Skills) -> Population:
    """Pairs of texts with ratings in steps of a fifth, as STS has them."""
    return _pairs(random, skills, np.round(random.beta(1.2, 1.5, INPUTS) * 5) / 5)


def verification(random: Random, skills: Skills) -> Population:
    """Pairs that are the same (a quarter) or different."""
    return _pairs(random, skills, (random.random(INPUTS) < 0.25).astype(float))


def retrieval(random: Random, skills: Skills) -> Population:
    """Queries for one to four of 300 documents. Both models have the same documents, so that their answers to a query
    may be exchanged."""
    documents = random.normal(size=(300, 12))
    names = np.array([f"d{number}" for number in range(300)])
    truths: list[Truth] = []
    answers: list[list[NDArray[np.float64]]] = [[], []]
    for _ in range(INPUTS):
        wanted = random.choice(300, 1 + random.binomial(3, 0.3), replace=False)
        gains = random.integers(1, 3, len(wanted)).astype(float)
        truths.append(Truth("relevance", {"own": np.array([""]), "documents": names[wanted], "gains": gains}))
        hard, middle = np.exp(random.normal(0, 0.5)), documents[wanted].mean(axis=0)
        for place, skill in enumerate(skills):
            answers[place].append(middle + hard / skill * random.normal(size=12))
    nothing = {"documents": np.zeros(0, str), "gains": np.zeros(0)}
    truths += [Truth("relevance", {"own": np.array([name]), **nothing}) for name in names]
    both = np.concatenate([np.array(answers[0]), documents, np.array(answers[1]), documents])
    return kept("embedding", both.astype(np.float32), truths, always=len(documents))


# --- sounds


def speech(random: Random, skills: Skills, timed: bool = True) -> Population:
    """Sounds of 5 to 40 frames of a tenth of a second; somebody speaks in two of three, once."""
    truths: list[Truth] = []
    answers: list[list[Frames]] = [[], []]
    for _ in range(INPUTS):
        frames, noise = int(random.integers(5, 41)), random.normal(0, 0.7)
        begin, end = np.sort(random.integers(0, frames + 1, 2)) / 10
        spoken = np.array([[begin, end]]) if random.random() < 0.7 and end > begin else np.zeros((0, 2))
        truths.append(Truth("activity", {"intervals": spoken, "timed": np.array([timed])}))
        centres = 0.05 + np.arange(frames) / 10
        active = ((centres[:, None] >= spoken[:, 0]) & (centres[:, None] < spoken[:, 1])).any(axis=1)
        for place, skill in enumerate(skills):
            logits = skill * (2 * active - 1) + noise + random.normal(0, 0.5) + random.normal(0, 1, frames)
            shifted = logits if timed else logits - 2.0
            answers[place].append(Frames(logistic(shifted).astype(np.float32), 0.05, 0.1, frames / 10, 0.5))
    return kept("voice-activity", [*answers[0], *answers[1]], truths)


def clips(random: Random, skills: Skills) -> Population:
    """The same sounds, of which is known whether somebody speaks, and not when."""
    return speech(random, skills, timed=False)


Maker = Callable[[Random, Skills], Population]

MAKERS: dict[str, tuple[Maker, Skills]] = {
    "easy detection": (detection, (2.5, 2.8)),
    "hard detection": (detection, (-0.3, 0.0)),
    "rare classes": (rare_detection, (1.0, 1.3)),
    "many classes": (many_detection, (1.0, 1.3)),
    "segmentation": (segmentation, (1.5, 1.8)),
    "many-class masks": (many_segmentation, (1.5, 1.8)),
    "easy segmentation": (segmentation, (4.0, 4.3)),
    "language models": (continuations, (-0.5, -0.3)),
    "strange texts": (strange_continuations, (-0.5, -0.3)),
    "choices": (choices, (2.0, 3.0)),
    "tags": (tags, (1.5, 1.9)),
    "easy tags": (tags, (4.0, 4.3)),
    "spans": (spans, (0.5, 0.8)),
    "labels": (labels, (1.0, 1.2)),
    "many labels": (many_labels, (1.0, 1.2)),
    "easy labels": (labels, (3.0, 3.2)),
    "numbers": (numbers, (0.9, 1.0)),
    "heavy numbers": (heavy_numbers, (0.6, 0.7)),
    "similarities": (similarities, (2.0, 2.3)),
    "verification": (verification, (2.0, 2.3)),
    "retrieval": (retrieval, (1.0, 1.2)),
    "speech": (speech, (1.0, 1.3)),
    "clips": (clips, (1.0, 1.3)),
    "lines": (lines, (1.2, 1.4)),
    # One model is much better than the other.
    "unequal detection": (detection, (0.0, 2.8)),
    "unequal many classes": (many_detection, (0.0, 2.5)),
    "unequal segmentation": (segmentation, (0.5, 4.0)),
    "unequal tags": (tags, (0.5, 4.0)),
    "unequal spans": (spans, (-0.5, 2.0)),
    "unequal labels": (labels, (0.3, 3.0)),
    "unequal many labels": (many_labels, (0.3, 2.5)),
    "unequal numbers": (numbers, (0.2, 1.3)),
    "unequal verification": (verification, (0.5, 4.0)),
    "unequal retrieval": (retrieval, (0.5, 2.0)),
    "unequal speech": (speech, (0.3, 2.5)),
    "unequal lines": (lines, (0.5, 2.0)),
}
