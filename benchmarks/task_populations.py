"""Made-up inputs of each task, answered by two models that find the same inputs hard, for `task_intervals.py`.

Answers and truths are kept as a run keeps them. The skill of a model is a number: 0 is poor, 3 is nearly always right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from population import INPUTS, Population, Random, Rows, Skills, kept, logistic
from text_populations import choices, continuations, lines, spans, strange_continuations, tags
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.preprocess.box_outputs import ImageBoxes
from zoolens.inventory.tasks.detection import Found
from zoolens.inventory.tasks.multilabel import Probabilities
from zoolens.inventory.tasks.voice_activity import Frames

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
