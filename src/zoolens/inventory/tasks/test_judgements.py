"""Each task's judgement, every input counted once, equals the field's library on what the task kept.

Data are random and hostile: ties, classes that nobody has or that all have, answers that are empty, one input. What
the figures of `scoring` are, their own tests say; here the way from kept columns to the figures is tested. COCO's and
seqeval's figures are pinned there, because neither library is installed.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    f1_score,
    jaccard_score,
    mean_absolute_error,
    r2_score,
    recall_score,
    roc_auc_score,
    root_mean_squared_error,
)

from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.tasks.multilabel import Probabilities
from zoolens.inventory.tasks.scoring.answer_spans import answer_parts
from zoolens.inventory.tasks.scoring.entities import read_entities
from zoolens.inventory.tasks.task import TRUTH_KNOWN, Answers, task_named
from zoolens.inventory.tasks.vectors import cosine
from zoolens.inventory.tasks.voice_activity import Frames

SEEDS = st.integers(0, 2**31)
QUICK = settings(max_examples=15, deadline=None)


def kept(name, values, truths):
    task = task_named(name)
    columns = {**task.keep_truth(truths), TRUTH_KNOWN: np.ones(len(truths), np.int8)}
    return Answers("out", name, task.keep(values, None), truths=columns)


def figures(answers):
    judgement = task_named(answers.task).judgement(answers)
    found = judgement.aggregate(np.ones((1, len(answers)), np.int64))[0]
    return dict(zip([metric.name for metric in judgement.metrics], found, strict=True))


def scores(answers):
    """How right each answer is, which `runs show` averages."""
    found = task_named(answers.task).scores(answers, np.full(len(answers), -1))
    assert ((found >= 0) & (found <= 1)).all()
    return found


def equal(found, wanted):
    assert found == pytest.approx(wanted, abs=1e-9, nan_ok=True)


# --- masks


@QUICK
@given(SEEDS, st.integers(1, 4), st.integers(1, 5))
def test_masks_as_scikit_learn_judges_pixels(seed, images, classes):
    random = np.random.default_rng(seed)
    true = random.integers(0, random.integers(1, classes + 1), (images, 6, 7))
    answered = np.where(random.random(true.shape) < random.random(), true, random.integers(0, classes, true.shape))
    known = random.random(true.shape) < 0.9
    known[:, 0, 0] = True
    truths = [Truth("mask", {"mask": mask.astype(np.uint8)}) for mask in np.where(known, true, 255)]
    answers = kept("segmentation", list(answered.astype(np.uint16)), truths)
    t, a = true[known], answered[known]
    present, either = np.unique(t), np.unique(np.concatenate([t, a]))
    shares = np.bincount(t)[present] / len(t)
    of_each = jaccard_score(t, a, average=None, labels=present, zero_division=0)
    found = figures(answers)
    del found["boundary_iou"]  # which scikit-learn does not have
    equal(
        found,
        {
            "miou": of_each.mean(),
            "miou_or_answered": jaccard_score(t, a, average="macro", labels=either, zero_division=0),
            "pixel_accuracy": accuracy_score(t, a),
            "mean_accuracy": recall_score(t, a, average="macro", labels=present, zero_division=0),
            "fw_iou": float(shares @ of_each),
        },
    )
    equal(scores(answers), [accuracy_score(t[k], a[k]) for t, a, k in zip(true, answered, known, strict=True)])


# --- labels


@QUICK
@given(SEEDS, st.integers(1, 12), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_labels_as_scikit_learn_judges_them(seed, inputs, share):
    """Labels that no input has, or that all have, are left out of means where scikit-learn has no figure for them."""
    random = np.random.default_rng(seed)
    present = random.random((inputs, 4)) < [share, 0.5, 0.3, 1.0]
    probabilities = (random.integers(0, 5, present.shape) / 4).astype(np.float32)
    predicted = probabilities > 0.5
    truths = [Truth("labels", {"present": row.astype(np.int8)}) for row in present]
    answers = kept("multilabel", Probabilities(probabilities, 0.5), truths)
    there, both = present.any(axis=0), present.any(axis=0) & ~present.all(axis=0)
    mixed = present.any() and not present.all()
    columns = range(4)
    of_labels = [average_precision_score(present[:, c], probabilities[:, c]) for c in columns if there[c]]
    areas = [roc_auc_score(present[:, c], probabilities[:, c]) for c in columns if both[c]]
    nowhere = np.nan
    f1s = [f1_score(present[:, c], predicted[:, c], zero_division=np.nan) for c in columns]
    equal(
        figures(answers),
        {
            "map": np.mean(of_labels) if of_labels else nowhere,
            "macro_auc": np.mean(areas) if areas else nowhere,
            "subset_accuracy": accuracy_score(present, predicted),
            "micro_f1": f1_score(present, predicted, average="micro", zero_division=np.nan),
            "macro_f1": np.nanmean(f1s) if not np.isnan(f1s).all() else nowhere,
            "micro_auc": roc_auc_score(present.ravel(), probabilities.ravel()) if mixed else nowhere,
        },
    )
    equal(scores(answers), jaccard_of_inputs(present, predicted))


def jaccard_of_inputs(present, predicted):
    either = (present | predicted).sum(axis=1)
    return np.where(either, (present & predicted).sum(axis=1) / np.maximum(either, 1), 1.0)


# --- numbers and vectors


@QUICK
@given(SEEDS, st.integers(1, 15), st.sampled_from([0, 1, 6]))
def test_numbers_as_scikit_learn_and_scipy_judge_them(seed, inputs, digits):
    random = np.random.default_rng(seed)
    true = np.round(random.normal(size=inputs), digits)
    predicted = np.round(true + random.normal(size=inputs), digits).astype(np.float32)
    answers = kept("regression", predicted[:, None], [Truth("value", {"value": np.array([value])}) for value in true])
    p = predicted.astype(np.float64)
    correlated = len(np.unique(true)) > 1 and len(np.unique(p)) > 1
    wanted = {
        "mae": mean_absolute_error(true, p),
        "rmse": root_mean_squared_error(true, p),
        "r2": r2_score(true, p) if len(np.unique(true)) > 1 else np.nan,
        "spearman": spearmanr(true, p).statistic if correlated else np.nan,
        "pearson": pearsonr(true, p).statistic if correlated else np.nan,
    }
    equal(figures(answers), wanted)


@QUICK
@given(SEEDS, st.integers(2, 12))
def test_vectors_of_pairs_as_scipy_ranks_their_cosines(seed, inputs):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(inputs, 2, 5)).astype(np.float32)
    alike = np.round(random.random(inputs) * 3)
    truths = [Truth("similarity", {"similarity": np.array([value])}) for value in alike]
    answers = kept("embedding", vectors.reshape(inputs, 10), truths)
    cosines = cosine(vectors[:, 0].astype(np.float64), vectors[:, 1].astype(np.float64))
    defined = len(np.unique(alike)) > 1
    wanted = [statistic(cosines, alike).statistic if defined else np.nan for statistic in (spearmanr, pearsonr)]
    equal(figures(answers), dict(zip(("spearman", "pearson"), wanted, strict=True)))


# --- texts


@QUICK
@given(SEEDS, st.integers(1, 8))
def test_entities_counted_as_sets(seed, inputs):
    random = np.random.default_rng(seed)
    tags = np.array(["O", "O", "B-X", "I-X", "B-Y", "I-Y"], object)
    lengths = random.integers(0, 7, inputs)
    true, found = ([random.choice(tags, length) for length in lengths] for _ in range(2))
    found = [np.where(random.random(len(row)) < 0.6, row, other) for row, other in zip(true, found, strict=True)]
    answers = kept("token-classification", found, [Truth("tags", {"tags": row.astype(str)}) for row in true])
    sets = [
        [{(place, *entity) for place, row in enumerate(rows) for entity in read_entities(row.tolist())}]
        for rows in (true, found)
    ]
    (gold,), (said,) = sets
    right = len(gold & said)
    wanted = {
        "f1": ratio(2 * right, len(gold) + len(said)),
        "precision": ratio(right, len(said)),
        "recall": ratio(right, len(gold)),
    }
    of_all = figures(answers)
    equal({name: of_all[name] for name in wanted}, wanted)
    each = [({e for e in gold if e[0] == place}, {e for e in said if e[0] == place}) for place in range(inputs)]
    equal(scores(answers), [2 * len(g & s) / (len(g) + len(s)) if g or s else 1.0 for g, s in each])


def ratio(part, whole):
    return part / whole if whole else np.nan


@QUICK
@given(SEEDS, st.integers(1, 8), st.booleans())
def test_answers_in_a_text_are_averaged(seed, inputs, impossible):
    random = np.random.default_rng(seed)
    words = ["the", "cat", "a dog", "", "cat!"]
    said = [" ".join(random.choice(words, 2)) for _ in range(inputs)]
    references = [list(random.choice(words[:3], random.integers(0 if impossible else 1, 3))) for _ in range(inputs)]
    answers = kept("question-answering", said, [Truth("spans", {"texts": np.array(each, str)}) for each in references])
    parts = answer_parts(said, references, 1 if all(references) else 2)
    found = figures(answers)
    equal((found["f1"], found["exact_match"]), (parts.f1.mean(), parts.exact.mean()))
    # The mean score of a run is its F1.
    equal(scores(answers), parts.f1)


# --- frames


@QUICK
@given(SEEDS, st.integers(1, 5))
def test_frames_as_scikit_learn_judges_them(seed, inputs):
    random = np.random.default_rng(seed)
    frames, truths, spoken = [], [], []
    for _ in range(inputs):
        count = int(random.integers(1, 9))
        values = (random.integers(0, 5, count) / 4).astype(np.float32)
        frames.append(Frames(values, 0.05, 0.1, 0.1 * count, 0.5))
        # Turns begin and end between the centres of frames.
        first, last = np.sort(random.integers(0, count + 1, 2))
        turn = [[0.1 * first, 0.1 * last]] if last > first else []
        about = {"intervals": np.array(turn, float).reshape(-1, 2), "timed": np.array([True])}
        truths.append(Truth("activity", about))
        spoken.append((np.arange(count) >= first) & (np.arange(count) < last))
    answers = kept("voice-activity", frames, truths)
    true, values = np.concatenate(spoken), np.concatenate([each.probability for each in frames])
    predicted = values > 0.5
    both = true.any() and not true.all()
    wanted = {
        "frame_auc": roc_auc_score(true, values) if both else np.nan,
        "frame_accuracy": accuracy_score(true, predicted),
        "frame_f1": f1_score(true, predicted, zero_division=np.nan),
    }
    # Where some sounds have no speech at all, there are figures of whole sounds too.
    equal({name: value for name, value in figures(answers).items() if name in wanted}, wanted)
    equal(scores(answers), [accuracy_score(t, f.probability > 0.5) for t, f in zip(spoken, frames, strict=True)])
