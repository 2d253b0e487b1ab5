"""Explanations that are kept in the store."""

from dataclasses import replace

import pytest

from zoolens.base.store.store import open_store
from zoolens.training.crosstrain.study.explanation.explanation_results import Explanation
from zoolens.training.crosstrain.study.explanation.share_chart import chart_of_shares, shares_chart
from zoolens.training.crosstrain.study.explanation.stored_explanations import KEY, file_explanation, filed_explanations
from zoolens.training.crosstrain.study.explanation.study_explanation_words import lines
from zoolens.training.crosstrain.study.explanation.test_share_chart import GAME, PAIR, RECIPE, SHARES
from zoolens.training.crosstrain.study.stored_studies import file_study
from zoolens.training.pairs.explanation.design import choose
from zoolens.training.pairs.explanation.results import Explained


def made_explanation(study="explain-1"):
    """Of two semantics, of which the second one's share may be none."""
    design = choose(len(GAME.players), "full")
    cells = {(): (0.8, 0.81), GAME.players: (0.3, 0.31)}
    explained = Explained(design, SHARES, None, (), (), 0, cells)
    return Explanation(study, RECIPE, GAME, PAIR, explained, trained=4, seeds=(1, 2))


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        file_study(opened, "explain-1", ("a", "b"), {"source": "explained"})
        yield opened


def test_an_explanation_is_read_as_it_was_found(store):
    found = made_explanation()
    file_explanation(store, found, "mine", "t1")
    (filed,) = filed_explanations(store, "mine")
    assert filed.shares == SHARES
    assert filed.gap == PAIR.difference
    assert list(filed.lines) == lines(found)
    assert filed_explanations(store, "explain-1") == [filed]
    assert filed_explanations(store, "other") == []
    assert store.studies("explain-1")["explain-1"].details["source"] == "explained"
    assert chart_of_shares(filed.shares, filed.gap.value) == shares_chart(found)
    file_explanation(store, replace(found, explained=None), "mine", "t1")
    assert filed_explanations(store, "mine")[0].shares == ()


def test_what_strangers_say_under_that_name_is_none(store):
    file_study(store, "theirs", ("a", "b"), {KEY: {"study": "mine", "shares": 3}})
    assert filed_explanations(store, "mine") == []
