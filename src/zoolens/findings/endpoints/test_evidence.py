"""Honest sessions are rejected as seldom as stated, simulated; and each departure is found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zoolens.findings.endpoints.evidence import HONEST_SHARE, ShareTest, TokenTest, at_temperature, mixed
from zoolens.findings.endpoints.hypothesis import Hypothesis, Standing
from zoolens.findings.endpoints.questions import kind_of_next

SESSIONS = 1000
ERROR = 0.01
# Of 1,000 sessions that are each rejected with probability 0.01, more than 20 are with probability 0.002.
MOST_REJECTED = 20


def distributions(random, count, size=40):
    logs = random.normal(0, 2.5, (count, size))
    chances = np.exp(logs)
    return chances / chances.sum(axis=1, keepdims=True)


@pytest.mark.slow
def test_honest_log_probabilities_are_rejected_as_seldom_as_stated():
    """The hardest honest server: it exceeds the allowance at as many prompts as is granted, and draws from its own."""
    random = np.random.default_rng(1)
    rejected = accepted = 0
    own = distributions(random, 64)
    for _ in range(SESSIONS):
        session = Hypothesis("m", ERROR, 0.02, 0.005)
        for number in range(60):
            distance = 0.05 if random.random() < HONEST_SHARE else 0.001
            session.add_distance(distance, long=kind_of_next(number))
            chances = own[random.integers(len(own))]
            session.add_token(chances, {}, int(random.choice(len(chances), p=chances)), random.random())
            if session.standing is not Standing.OPEN:
                break
        rejected += session.standing is Standing.REJECTED
        accepted += session.standing is Standing.FITS
    assert rejected <= MOST_REJECTED
    assert accepted > 0.9 * SESSIONS


@pytest.mark.slow
def test_honest_tokens_are_rejected_as_seldom_as_stated():
    """Also by a server whose distributions are off by the rounding that is granted, in the direction of a bet."""
    random = np.random.default_rng(2)
    own = distributions(random, 64)
    rounding = 0.005
    rejected = 0
    for _ in range(SESSIONS):
        test = TokenTest(rounding)
        for _ in range(60):
            chances = own[random.integers(len(own))]
            best, worst = chances.argmax(), chances.argsort()[len(chances) // 2]
            served = chances.copy()
            moved = min(rounding, served[worst])
            served[[best, worst]] += moved, -moved
            cold = {"cold": at_temperature(chances, 0.5), "warm": at_temperature(chances, 2.0)}
            test.add(chances, cold, int(random.choice(len(served), p=served / served.sum())), random.random())
            if test.log_capital >= math.log(1 / ERROR):
                rejected += 1
                break
    assert rejected <= MOST_REJECTED


@pytest.mark.parametrize("temperature", [0.6, 1.6])
def test_another_temperature_is_found(temperature):
    random = np.random.default_rng(3)
    counts = []
    for _ in range(20):
        session = Hypothesis("m", ERROR, 0.02, 0.005, by_tokens=True)
        while session.standing is Standing.OPEN and session.asked < 2000:
            (own,) = distributions(random, 1)
            served = at_temperature(own, temperature)
            session.add_token(own, {}, int(random.choice(len(own), p=served)), random.random())
        assert session.standing is Standing.REJECTED
        assert "temperature" in session.cause or "places" in session.cause
        counts.append(session.asked)
    assert np.median(counts) < 400


def test_tokens_that_the_model_does_not_have_reject_it():
    session = Hypothesis("m", ERROR, 0.02, 0.005, by_tokens=True)
    (own,) = distributions(np.random.default_rng(4), 1)
    for _ in range(40):
        session.add_token(own, {}, None, 0.5)
    assert session.standing is Standing.REJECTED


def test_a_model_that_differs_now_and_then_is_rejected_and_never_taken_for_the_named():
    random = np.random.default_rng(5)
    standings = []
    for _ in range(200):
        session = Hypothesis("m", ERROR, 0.02, 0.005)
        for number in range(400):
            session.add_distance(0.03 if random.random() < 0.3 else 0.01, long=kind_of_next(number))
            if session.standing is not Standing.OPEN:
                break
        standings.append(session.standing)
    assert standings.count(Standing.FITS) <= 6
    assert standings.count(Standing.REJECTED) > 190


def test_one_exceeding_prompt_rejects_nothing():
    test = ShareTest(0.2)
    test.add(exceeds=True)
    assert test.against_honest == pytest.approx(math.log(20))
    assert test.against_other == -test.against_honest
    assert mixed([(0.5, 0.0), (0.5, math.log(3))]) == pytest.approx(math.log(2))


def test_bets_do_not_grow_on_average():
    """The mean of what each bet wins, over the model's own distribution, is at most 1."""
    random = np.random.default_rng(6)
    own, other = distributions(random, 2, 12)
    for rounding in (0.0, 0.01):
        won = []
        for token in range(12):
            test = TokenTest(rounding)
            test.add(own, {"other": other, "cold": at_temperature(own, 0.5)}, token, 0.3)
            won.append([math.exp(value) for name, value in test._capitals.items() if name != "places"])
        means = own @ np.array(won)
        assert (means <= 1 + 1e-12).all()
        assert (means > 0.9).all()


def test_untold_prompts_reject_nobody_and_keep_the_model_from_being_found():
    session, told = Hypothesis("m", ERROR, 0.02, 0.005), Hypothesis("m", ERROR, 0.02, 0.005)
    for number in range(29):
        told.add_distance(0.001, long=kind_of_next(number))
        session.add_distance(None if number % 5 == 0 else 0.001, long=kind_of_next(number))
    assert told.standing is Standing.FITS
    assert session.standing is Standing.OPEN
    assert session.log_against < 0


def test_two_refused_long_prompts_reject():
    session = Hypothesis("m", ERROR, 0.02, 0.005)
    session.add_refusal("It has too many tokens.")
    assert session.standing is Standing.OPEN
    session.add_refusal("It has too many tokens.")
    assert session.standing is Standing.REJECTED
    assert "refuses long prompts (It has too many tokens)" in session.cause
