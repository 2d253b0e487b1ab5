"""What several seeds say: alike, different, or neither; and two data pipelines in one training."""

import numpy as np
import pytest

from zoolens.base.statistics.seeds import seed_noise
from zoolens.base.verdicts import Outcome
from zoolens.training.pairs.loop.seed_pairs import SeedPair
from zoolens.training.pairs.loop.seed_verdict import training_coverage
from zoolens.training.pairs.loop.single_run import SingleRun
from zoolens.training.port.training.paired import train
from zoolens.training.port.training.paired_words import paired_data, paired_lines


def pairs(*accuracies, churn=0.1):
    made = []
    for seed, both in enumerate(accuracies):
        runs = [SingleRun(1.0, (0.5,), 4, 0.1, correct=round(1000 * one), total=1000) for one in both]
        made.append(SeedPair(seed, (runs[0], runs[1]), churn=churn))
    return made


def coverage(*accuracies, churn=0.1):
    noise = seed_noise("A", [a for a, _ in accuracies], "B", [b for _, b in accuracies], 1000)
    return training_coverage(pairs(*accuracies, churn=churn), noise, "accuracy")


def test_a_wide_interval_is_not_agreement():
    found = coverage((0.81, 0.68), (0.82, 0.75), (0.82, 0.82))
    assert not found.whole
    assert "which 3 seeds cannot exclude" in found.text
    assert "--seeds" in found.remedies[0]


def test_differences_below_those_of_two_seeds_are_alike():
    drawn = np.random.default_rng(0)
    seeds = drawn.normal(0.8, 0.02, 12)
    assert coverage(*zip(seeds, seeds + drawn.normal(0, 0.002, 12), strict=True)).whole


def test_equal_answers_are_alike_and_one_seed_never_tells():
    assert coverage((0.8, 0.8), (0.8, 0.8), churn=0.0).whole
    for churn in (0.0, 0.1):
        assert "two seeds at least" in coverage((0.8, 0.8), churn=churn).text


def test_a_seed_that_both_lose_is_named():
    lost = SingleRun(1.0, (), 2, 0.1, not_finite=2)
    found = training_coverage([*pairs((0.8, 0.8), (0.7, 0.7), churn=0.0), SeedPair(2, (lost, lost))], None, "accuracy")
    assert not found.whole
    assert "seed 2, in which neither side stays finite" in found.text


def test_each_side_on_its_own_data():
    torch = pytest.importorskip("torch")

    def side():
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(9, 2))
        return net, torch.optim.SGD(net.parameters(), lr=0.01), torch.nn.CrossEntropyLoss()

    drawn = np.random.default_rng(0)
    images, labels = drawn.random((24, 1, 3, 3)).astype(np.float32), drawn.integers(0, 2, 24)
    ours, theirs = (((size * images, labels), (size * images[:8], labels[:8])) for size in (np.float32(1), 255))
    how = {"data": lambda: ours, "data_b": lambda: theirs, "batch": 8, "seeds": 2}
    own = train(side, side, ["1x3x3"], **how, train_on="own")
    shared = train(side, side, ["1x3x3"], **how)
    assert own.seeds[0].runs[0].first_loss != own.seeds[0].runs[1].first_loss
    assert shared.seeds[0].runs[0].first_loss == shared.seeds[0].runs[1].first_loss
    for result in (own, shared):
        assert result.verdict.outcome is Outcome.DIFFERENT  # the data are
        assert "  B = A × 255: 0 to 255 in B for 0 to 1 in A" in paired_lines(result)
        assert paired_data(result)["streams"]["first"] == 1
    assert "Each side was trained on its own data." in paired_lines(own)
    assert "Both were trained on A's data." in paired_lines(shared)
