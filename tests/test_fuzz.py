"""Every fuzzer, for a few attempts: `make fuzz` gives each a minute."""

import random

import pytest
from tests.fuzz.__main__ import TARGETS
from tests.fuzz.harness import fuzz

from zoolens.errors import ZoolensError


@pytest.mark.parametrize("target", TARGETS)
def test_a_few_attempts_end_well(target):
    outcome = fuzz(target, TARGETS[target], seed=1, attempts=10 if target == "submissions" else 40)
    assert not outcome.failures, outcome.failures


def test_failures_are_told_from_refusals_and_can_be_repeated():
    def attempt(draw: random.Random, folder):
        number = draw.randrange(3)
        if number == 0:
            raise ZoolensError("Refused.")
        if number == 1:
            raise KeyError(number)

    found = fuzz("toy", attempt, seed=7, attempts=50)
    assert found.attempts == 50
    assert 0 < found.refused < 50
    [(kind, (number, _))] = found.failures.items()
    assert kind.startswith("KeyError")
    assert fuzz("toy", attempt, seed=7, only=number).failures.keys() == found.failures.keys()
