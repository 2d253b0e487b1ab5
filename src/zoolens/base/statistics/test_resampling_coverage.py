"""How often intervals of resampled metrics hold the truth, and how often the tests reject what is true.

Quick settings are a few hundred samples; the slow ones cover each metric at 30 to 300 inputs, also near 0 and 1.
"""

import math
from statistics import NormalDist

import numpy as np
import pytest

from zoolens.base.statistics.resampling import (
    AT_LEAST_0,
    AT_MOST_1,
    of_sums,
    resampled_difference,
    resampled_estimate,
    swap_test,
)
from zoolens.base.statistics.test_resampling import f1, mean_of

QUICK, SLOW = 200, 500
CLASSES = np.array([0.9, 0.7, 0.4, 0.3])  # shares of images that have each class; a rare one comes fifth
MEAN_ENTITIES = 2


def least(draws, level=0.95):
    """What a simulation of so many draws must reach: the level less three of its standard errors."""
    return level - 3 * math.sqrt(level * (1 - level) / draws)


def simulated(quick, slow):
    """Settings of both kinds, each followed by its number of samples."""
    marked = [pytest.param(*each, SLOW, marks=pytest.mark.slow) for each in slow]
    return [*((*each, QUICK) for each in quick), *marked]


def coverage(draw, truth, inputs, samples, limits=(0.0, 1.0)):
    """How often the interval holds the truth where there is one, and in which share of the samples there is one."""
    random = np.random.default_rng(21)
    found = [resampled_estimate(draw(inputs, random), inputs, limits).interval for _ in range(samples)]
    given = [interval.contains(truth) for interval in found if interval is not None]
    return np.mean(given), len(given) / samples


# --- F1


def sentences(n, recall, false_positives, random):
    """Entities that were found, found wrongly, and missed; a hard sentence is hard for all its entities."""
    entities = random.poisson(MEAN_ENTITIES, n)
    found = random.binomial(entities, random.beta(4 * recall, 4 * (1 - recall), n))
    return np.stack([found, random.poisson(false_positives, n), entities - found], axis=1)


def true_f1(recall, false_positives):
    return 2 * recall / (1 + recall + false_positives / MEAN_ENTITIES)


F1_SETTINGS = [(0.6, 0.8), (0.95, 0.1), (0.99, 0.02), (0.05, 1.0)]


@pytest.mark.parametrize(
    ("recall", "false_positives", "n", "samples"),
    simulated([(0.6, 0.8, 30), (0.95, 0.1, 60)], [(*each, n) for each in F1_SETTINGS for n in (30, 100, 700)]),
)
def test_intervals_of_f1_cover(recall, false_positives, n, samples):
    covered, given = coverage(
        lambda n, random: of_sums(sentences(n, recall, false_positives, random), f1),
        true_f1(recall, false_positives),
        n,
        samples,
    )
    assert covered >= least(given * samples)
    assert given > 0.5


def documents(n, random):
    """Documents of very different length: the longest of 100 has a ninth of all entities."""
    entities = np.floor(np.exp(random.normal(0.5, 1.2, n))).astype(int)
    found = random.binomial(entities, random.beta(1.6, 0.4, n))
    return np.stack([found, random.poisson(0.1 * entities), entities - found], axis=1)


@pytest.mark.parametrize(("n", "samples"), simulated([(60,)], [(30,), (100,), (300,)]))
def test_intervals_of_f1_cover_where_few_documents_hold_most_entities(n, samples):
    truth = 2 * 0.8 / (1 + 0.8 + 0.1)
    covered, _ = coverage(lambda n, random: of_sums(documents(n, random), f1), truth, n, samples)
    assert covered >= least(samples)


# --- mIoU


def images(n, level, rare, random):
    """Intersections and unions by class, in images of very different size."""
    shares = np.append(CLASSES, rare)
    unions = np.exp(random.normal(0, 1, (n, len(shares)))) * (random.random((n, len(shares))) < shares)
    return np.concatenate([unions * random.beta(6 * level, 6 * (1 - level), unions.shape), unions], axis=1)


def mean_iou(sums):
    intersections, unions = np.split(sums, 2, axis=1)
    with np.errstate(invalid="ignore"):
        return (intersections / unions).mean(axis=1)


MIOU_SETTINGS = [(0.6, 0.1), (0.97, 0.2), (0.2, 0.1)]


@pytest.mark.parametrize(
    ("level", "rare", "n", "samples"),
    simulated([(0.6, 0.1, 60)], [(*each, n) for each in MIOU_SETTINGS for n in (30, 60, 300)]),
)
def test_intervals_of_mean_iou_cover_or_are_not_given_where_a_class_is_rare(level, rare, n, samples):
    covered, given = coverage(lambda n, random: of_sums(images(n, level, rare, random), mean_iou), level, n, samples)
    assert covered >= least(given * samples)
    assert given > 0.95 if n * rare >= 10 else 0.1 < given < 0.9


# --- metrics of ranks


def spearman(x, y):
    orders = [np.argsort(values) for values in (x, y)]
    places = [np.argsort(order) for order in orders]

    def ranks(weights, order, place):
        sorted_weights = weights[:, order]
        return (np.cumsum(sorted_weights, axis=1) - sorted_weights / 2)[:, place]

    def aggregate(weights):
        centred = []
        for order, place in zip(orders, places, strict=True):
            rank = ranks(weights, order, place)
            mean = (weights * rank).sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)
            centred.append(rank - mean)
        (a, b) = centred
        return (weights * a * b).sum(axis=1) / np.sqrt((weights * a * a).sum(axis=1) * (weights * b * b).sum(axis=1))

    return aggregate


def correlated(n, rho, random):
    x = random.normal(size=n)
    return spearman(x, rho * x + math.sqrt(1 - rho**2) * random.normal(size=n))


@pytest.mark.parametrize(
    ("rho", "n", "samples"),
    simulated([(0.6, 30), (0.97, 30)], [(rho, n) for rho in (0.0, 0.6, 0.97) for n in (30, 100, 300)]),
)
def test_intervals_of_a_rank_correlation_cover(rho, n, samples):
    truth = 6 / math.pi * math.asin(rho / 2)
    covered, given = coverage(lambda n, random: correlated(n, rho, random), truth, n, samples, (-1.0, 1.0))
    assert covered >= least(samples)
    assert given == 1


def auc(scores, positive):
    order = np.argsort(scores)
    positive = positive[order]

    def aggregate(weights):
        positives, negatives = weights[:, order] * positive, weights[:, order] * ~positive
        pairs = positives.sum(axis=1) * negatives.sum(axis=1)
        with np.errstate(invalid="ignore"):
            return (positives * np.cumsum(negatives, axis=1)).sum(axis=1) / pairs

    return aggregate


def scored(n, distance, share, random):
    positive = random.random(n) < share
    return auc(random.normal(size=n) + distance * positive, positive)


@pytest.mark.parametrize(
    ("distance", "share", "n", "samples"),
    simulated([(1, 0.5, 30)], [(d, s, n) for d, s in ((1, 0.5), (1, 0.2), (3, 0.2)) for n in (60, 300)]),
)
def test_intervals_of_auc_cover(distance, share, n, samples):
    truth = NormalDist().cdf(distance / math.sqrt(2))
    covered, given = coverage(lambda n, random: scored(n, distance, share, random), truth, n, samples)
    assert covered >= least(given * samples)
    assert given > 0.8


def detections(n, distance, missed, random):
    """The AP of detections in n images: objects that are found or missed, and false alarms, all with a score."""
    objects = 1 + random.poisson(1.5, n)
    found, alarms = random.binomial(objects, 1 - missed), random.poisson(2, n)
    image = np.concatenate([np.repeat(np.arange(n), found), np.repeat(np.arange(n), alarms)])
    hit = np.arange(len(image)) < found.sum()
    scores = random.normal(size=len(image)) + distance * hit + random.normal(0, 0.5, n)[image]
    order = np.argsort(-scores)
    image, hit = image[order], hit[order]

    def average_precision(weights):
        counts = weights[:, image]
        hits = counts * hit
        precision = np.cumsum(hits, axis=1) / np.maximum(np.cumsum(counts, axis=1), 1)
        return (hits * precision).sum(axis=1) / (weights @ objects)

    return average_precision


@pytest.mark.parametrize(
    ("distance", "missed", "n", "samples"),
    simulated([(3, 0.1, 30)], [(d, m, n) for d, m in ((1.5, 0.3), (4, 0.03)) for n in (30, 100)]),
)
def test_intervals_of_average_precision_cover(distance, missed, n, samples):
    many = 40_000
    large = detections(many, distance, missed, np.random.default_rng(22))
    truth = float(large(np.ones((1, many), np.int64))[0])
    covered, _ = coverage(lambda n, random: detections(n, distance, missed, random), truth, n, samples)
    assert covered >= least(samples)


# --- errors of numbers, which have no largest value, and R², which has no least one

# Errors, and the mean of their sizes. The fourth moment of the last kind is infinite.
ERRORS = {
    "normal": (lambda n, random: random.normal(size=n), math.sqrt(2 / math.pi)),
    "lognormal": (lambda n, random: np.exp(random.normal(size=n)), math.exp(0.5)),
    "outliers": (
        lambda n, random: random.normal(size=n) * np.where(random.random(n) < 0.1, 10, 1),
        1.9 * math.sqrt(2 / math.pi),
    ),
    "t3": (lambda n, random: random.standard_t(3, n), 2 * math.sqrt(3) / math.pi),
}


@pytest.mark.parametrize(
    ("kind", "n", "samples"),
    simulated([("t3", 100), ("outliers", 100)], [(kind, n) for kind in ERRORS for n in (100, 300)]),
)
def test_intervals_of_a_mean_absolute_error_cover_also_where_errors_have_heavy_tails(kind, n, samples):
    errors, truth = ERRORS[kind]
    covered, given = coverage(lambda n, random: mean_of(np.abs(errors(n, random))), truth, n, samples, AT_LEAST_0)
    assert covered >= least(samples)
    assert given == 1


def read_lines(n, rate, random):
    """Edits and characters of lines of very different length; most lines are read without an error, few hold most."""
    lengths = 1 + random.negative_binomial(2, 0.08, n)
    return np.stack([random.binomial(lengths, random.beta(0.4, 0.4 * (1 - rate) / rate, n)), lengths], axis=1)


def error_rate(sums):
    return sums[:, 0] / sums[:, 1]


@pytest.mark.parametrize(
    ("rate", "n", "samples"),
    simulated([(0.1, 100)], [(rate, n) for rate in (0.02, 0.1, 0.4) for n in (100, 300)]),
)
def test_intervals_of_an_error_rate_of_characters_cover(rate, n, samples):
    covered, given = coverage(
        lambda n, random: of_sums(read_lines(n, rate, random), error_rate), rate, n, samples, AT_LEAST_0
    )
    assert covered >= least(samples)
    assert given == 1


def explained(n, noise, random):
    """R² of numbers of variance 1 that are predicted with normal errors."""
    true = random.normal(size=n)
    squares = random.normal(0, noise, n) ** 2

    def aggregate(weights):
        total = weights.sum(axis=1)
        variances = weights @ true**2 / total - (weights @ true / total) ** 2
        return 1 - weights @ squares / total / variances

    return aggregate


@pytest.mark.parametrize(
    ("noise", "n", "samples"),
    simulated([(0.2, 100)], [(noise, n) for noise in (0.2, 1.0, 2.0) for n in (100, 300)]),
)
def test_intervals_of_r_squared_cover_where_errors_are_normal(noise, n, samples):
    covered, given = coverage(lambda n, random: explained(n, noise, random), 1 - noise**2, n, samples, AT_MOST_1)
    assert covered >= least(samples)
    assert given == 1


@pytest.mark.parametrize(
    ("kind", "n", "samples"),
    simulated([("t3", 100)], [(kind, n) for kind in ERRORS for n in (100, 300)]),
)
def test_intervals_and_p_values_of_a_difference_of_errors_hold(kind, n, samples):
    random, covered, rejected = np.random.default_rng(27), [], []
    errors, _ = ERRORS[kind]
    for _ in range(samples):
        shared = errors(n, random)
        a, b = (mean_of(np.abs(shared + errors(n, random))) for _ in range(2))
        found = resampled_difference(a, b, n, AT_LEAST_0)
        covered.append(found.interval.contains(0.0))
        rejected.append(found.p_value < 0.05)
    assert np.mean(covered) >= least(samples)
    assert np.mean(rejected) <= 1 - least(samples)


def searches(n, level, random):
    """nDCG of queries, which are every fifth input; the others are documents, which count for nothing."""
    is_query = np.arange(n) % 5 == 0
    found = random.beta(1.5 * level, 1.5 * (1 - level), n)
    return np.stack([np.where(is_query, found, 0), is_query], axis=1)


@pytest.mark.parametrize(
    ("level", "n", "samples"),
    simulated([(0.4, 200)], [(level, n) for level in (0.1, 0.4, 0.9) for n in (150, 500, 1500)]),
)
def test_intervals_of_a_mean_over_queries_cover_where_most_inputs_are_documents(level, n, samples):
    covered, given = coverage(lambda n, random: of_sums(searches(n, level, random), error_rate), level, n, samples)
    assert covered >= least(given * samples)
    assert given > 0.95


# --- two models on the same inputs


def two_taggers(n, a, b, random):
    """Parts of two models that find the same sentences hard; a model is a recall and its false positives."""
    entities, ease = random.poisson(MEAN_ENTITIES, n), random.beta(4, 4, n) - 0.5
    parts = []
    for recall, false_positives in (a, b):
        found = random.binomial(entities, recall + 2 * ease * min(recall, 1 - recall))
        parts.append(np.stack([found, random.poisson(false_positives, n), entities - found], axis=1))
    return parts


ALIKE = ((0.8, 0.3), (0.8, 0.3))
APART = ((0.6, 0.3), (0.8, 0.3))
ALIKE_IN_F1_ALONE = ((0.9, 1.0), (0.6, 0.0))
NEAR_1 = ((0.97, 0.03), (0.99, 0.01))


@pytest.mark.parametrize(
    ("models", "n", "samples"),
    simulated(
        [(APART, 30), (NEAR_1, 60)],
        [(models, n) for models in (ALIKE, APART, ALIKE_IN_F1_ALONE, NEAR_1) for n in (30, 100, 300)],
    ),
)
def test_intervals_of_a_difference_of_f1_cover(models, n, samples):
    random, truth, covered = np.random.default_rng(23), true_f1(*models[1]) - true_f1(*models[0]), []
    for _ in range(samples):
        a, b = (of_sums(parts, f1) for parts in two_taggers(n, *models, random))
        interval = resampled_difference(a, b, n).interval
        if interval is not None:
            covered.append(interval.contains(truth))
    assert np.mean(covered) >= least(len(covered))
    assert len(covered) > 0.9 * samples


@pytest.mark.parametrize(("n", "samples"), simulated([(60,)], [(30,), (100,), (300,)]))
def test_intervals_and_p_values_of_a_difference_of_auc_hold(n, samples):
    random, covered, rejected = np.random.default_rng(24), [], []
    for _ in range(samples):
        positive, shared = random.random(n) < 0.4, random.normal(0, 0.6, n)
        # The second model gives other scores of the same order of merit.
        a, b = (auc(shared + random.normal(0, 0.8, n) + 1.5 * positive, positive) for _ in range(2))
        found = resampled_difference(a, b, n)
        covered.append(found.interval.contains(0.0))
        rejected.append(found.p_value < 0.05)
    assert np.mean(covered) >= least(samples)
    assert np.mean(rejected) <= 1 - least(samples)


@pytest.mark.parametrize(
    ("models", "n", "samples"),
    simulated([(ALIKE, 30)], [(models, n) for models in (ALIKE, ALIKE_IN_F1_ALONE) for n in (30, 100)]),
)
def test_swaps_reject_equal_models_no_more_often_than_they_say(models, n, samples):
    random = np.random.default_rng(25)
    p_values = [swap_test(of_sums(np.concatenate(two_taggers(n, *models, random)), f1), n) for _ in range(samples)]
    for level in (0.05, 0.2):
        assert np.mean(np.array(p_values) <= level) <= 1 - least(samples, 1 - level)


def test_swaps_notice_a_better_model():
    random = np.random.default_rng(26)
    p_values = [swap_test(of_sums(np.concatenate(two_taggers(100, *APART, random)), f1), 100) for _ in range(20)]
    assert np.mean(np.array(p_values) < 0.05) > 0.8
