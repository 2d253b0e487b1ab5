"""What is expected of texts: how many tokens they have, and how long they take behind the longest prompt."""

import numpy as np
import pytest

from zoolens.faces.serving.contracts.ladder import Ladder, LatencyProfile, Rung
from zoolens.faces.serving.plane.text_lengths import TextLengths, as_behind_longest
from zoolens.faces.serving.plane.timing import ScaledTiming
from zoolens.faces.serving.policies.batch_times import BatchTimes

PROMPT, ANSWER = 100, 50
READ, WRITE = 0.01, 0.2  # seconds of a token
PROFILE = LatencyProfile({1: PROMPT * READ, ANSWER: PROMPT * READ + (ANSWER - 1) * WRITE})


@pytest.mark.parametrize("share", [0.9, 0.95, 0.995])
def test_texts_are_no_longer_than_expected_as_often_as_is_said(share):
    random = np.random.default_rng(3)
    kept = []
    for _ in range(15):
        lengths = TextLengths(share)
        for _ in range(400):
            most = int(random.choice([20, 100, 300]))
            written = min(most, int(random.geometric(1 / 40)))
            kept.append(written <= lengths.expected(most))
            lengths.add(most, written)
    assert np.mean(kept) >= share - 0.01


def test_texts_that_could_not_be_longer_say_nothing_of_those_that_can():
    lengths = TextLengths(0.9)
    for _ in range(100):
        lengths.add(5, 5)
    assert (lengths.expected(5), lengths.expected(3), lengths.expected(64)) == (5, 3, 64)
    for _ in range(9):
        lengths.add(64, 12)
    assert (lengths.expected(64), lengths.expected(8)) == (12, 8)


@pytest.mark.parametrize(("share", "needed"), [(0.9, 9), (0.95, 19), (0.99, 99)])
def test_all_that_a_text_may_have_is_expected_until_enough_were_written(share, needed):
    lengths = TextLengths(share)
    for _ in range(needed - 1):
        lengths.add(64, 1)
    assert lengths.expected(64) == 64
    lengths.add(64, 1)
    assert lengths.expected(64) == 1


def test_old_texts_are_forgotten():
    lengths = TextLengths(0.9)
    for _ in range(1000):
        lengths.add(64, 2)
    for _ in range(1000):
        lengths.add(64, 60)
    assert lengths.expected(64) == 60


def took(read, written, slowness=1.0):
    return slowness * (max(WRITE, read * READ) + (written - 1) * WRITE)


@pytest.mark.parametrize("slowness", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("prompt", [0, 1, 10, PROMPT])
def test_texts_behind_short_prompts_teach_what_longer_ones_take(slowness, prompt):
    random = np.random.default_rng(prompt)
    ladder = Ladder((Rung("one", "fake", 1.0, 1.0, PROFILE),))
    times, timing = BatchTimes(ladder), ScaledTiming(PROFILE)
    for _ in range(200):
        written = int(random.integers(1, ANSWER))
        seconds = as_behind_longest(PROFILE, PROMPT, prompt, written, took(prompt, written, slowness))
        times.observe(0, written, seconds)
        timing.add(written, seconds)
    longest = took(PROMPT, ANSWER, slowness)
    assert times.seconds(0, ANSWER) == pytest.approx(longest, rel=0.01)
    assert timing.predict(ANSWER) == pytest.approx(longest, rel=0.01)


def test_texts_of_one_token_at_most():
    only = LatencyProfile({1: 1.0})
    assert as_behind_longest(only, PROMPT, PROMPT // 2, 1, 0.5) == pytest.approx(1.0)
    assert as_behind_longest(only, PROMPT, 0, 1, 0.5) == 0.5
