"""Queries over real classifiers, judged on images that the index has never seen; docs/query-study.md has the tables."""

import re

import measure_queries
import pytest

import zoolens


@pytest.mark.slow
@pytest.mark.assets
def test_most_answers_are_the_brute_force_ideal_on_held_out_images(home, assets, tmp_path):
    store = zoolens.open_store()
    right, crossing = 0, 0
    for make in (measure_queries.split_imagenet, measure_queries.split_cifar):
        split = make(assets, tmp_path)
        measure_queries.measure(split, store)
        _, asked = measure_queries.ask_all(split, store)
        right += sum(one.right for one in asked)
        crossing += sum(one.right and family(one.answer) != family(one.text) for one in asked)
    assert right >= 30
    assert crossing >= 5  # the answer may come from another maker than the reference


def family(text):
    """The maker or kind of network, which is how the reference models' names begin."""
    return re.match("[a-zA-Z]+", text.partition("/")[2])[0]
