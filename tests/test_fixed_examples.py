"""Examples of property tests are the same in every run, as conftest.py says."""

import random

import pytest
from hypothesis import given, strategies
from hypothesis.internal.conjecture import providers

import zoolens.base.errors  # noqa: F401  # one of our modules, with constants in it


def drawn():
    seen = []

    @given(strategies.text(), strategies.integers())
    def record(text, number):
        seen.append((text, number))

    record()
    return seen


def test_examples_depend_neither_on_chance_nor_on_imported_modules(request):
    if request.config.getoption("--hypothesis-profile", None) is not None:
        pytest.skip("another profile was asked for")
    first = drawn()
    random.seed()
    assert drawn() == first
    assert not len(providers._get_local_constants())
