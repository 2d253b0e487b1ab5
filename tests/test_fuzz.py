"""Every fuzzer, for a few attempts: `make fuzz` gives each a minute."""

import random

import pytest
from tests.fuzz.__main__ import TARGETS
from tests.fuzz.harness import fuzz

from zoolens.base.errors import ZoolensError


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


@pytest.mark.parametrize(
    ("target", "seed", "number"),
    [
        ("parquet", 11, 147),  # a value behind a number that its dictionary does not have
        ("parquet", 11, 1915),  # fewer rows than the footer says
        ("images", 11, 1983),  # a label of 5,001 digits
        ("onnx", 11, 1305),  # an output without a name
        ("archives", 11, 26),  # a name before the packed bytes that is no text
        ("torchscript", 11, 122),  # packed bytes that cannot be unpacked
        ("keras", 11, 3),
    ],
)
def test_attempts_that_failed_once_end_well(target, seed, number):
    outcome = fuzz(target, TARGETS[target], seed=seed, only=number)
    assert not outcome.failures, next(iter(outcome.failures.values()))[1]
