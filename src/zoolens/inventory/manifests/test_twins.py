from __future__ import annotations

import pytest

from zoolens.inventory.manifests.twins import origin_of_twin, segments_of_twin

PART = {"entry": "x", "exit": "pool", "kind": "near weights", "distance": 0.0084}


def test_what_a_twin_is_made_of():
    attributes = {
        "twin_of": "zoo:a",
        "donor": "zoo:b",
        "segments": [PART, {**PART, "kind": "equal weights", "distance": 0}],
    }
    assert origin_of_twin(attributes) == {
        "twin of": "zoo:a",
        "donor": "zoo:b",
        "segments": "x → pool (near weights, distance 0.0084); x → pool (equal weights)",
    }


def test_a_model_that_is_no_twin_has_no_such_origin():
    assert origin_of_twin({"segments": [PART], "donor": "zoo:b"}) == {}


@pytest.mark.parametrize("given", [None, 7, "text", [None, 3, ["x"]], {"entry": "x"}])
def test_nonsense_is_left_out(given):
    assert segments_of_twin({"twin_of": "a", "segments": given}) == ""
    assert origin_of_twin({"twin_of": "a", "donor": 5, "segments": given}) == {"twin of": "a"}


def test_names_are_not_believed_to_be_short():
    assert len(segments_of_twin({"segments": [{"entry": "e" * 10_000, "distance": "far"}]})) < 200
