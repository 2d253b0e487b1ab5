"""Texts on which language models agree least, in figures."""

import csv
import io
import json

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.disagreement_page import disagreement_page
from zoolens.findings.comparisons.disagreements import disagree
from zoolens.findings.comparisons.text_disagreements import as_csv, as_data
from zoolens.testing.language_model_runs import answered, written_book


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    return written_book(tmp_path_factory.mktemp("book"), "AB HELLO WORLD\nWHAT IS IT?\n1234 AB+CD, ABBA\nX", 16)


@pytest.fixture
def store(tmp_path, book):
    with open_store(tmp_path / "store.sqlite") as opened:
        answered(opened, book, "mine")
        answered(opened, book, "near", {0: 0.2, 1: 1.5})
        answered(opened, book, "far", 2.0)
        yield opened


def shares(scores):
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def test_the_texts_with_the_least_agreement_come_first(store):
    found = disagree("mine", 1, store=store)
    assert [each.name for each in found.panel] == ["file:mine", "file:near"]
    assert [text.index for text in found.inputs] == [1, 0]
    assert found.total == 2  # in the other texts they are the same
    assert (disagree("mine", 2, store=store).total, found.notes) == (4, ())


def test_figures_are_those_of_whole_distributions(tmp_path, book):
    """Of a vocabulary that is kept whole, the agreement is known exactly, and lies in its bounds where it is not."""
    with open_store(tmp_path / "store.sqlite") as store:
        answered(store, book, "mine")
        answered(store, book, "other", 1.0)
        found = disagree("mine", store=store)
        random = np.random.default_rng(list(b"other"))
        noisy = [scores + random.normal(size=scores.shape) for scores in book.scores]
    for text in found.inputs:
        p, q = shares(book.scores[text.index]), shares(noisy[text.index])
        true = np.minimum(p, q).sum(axis=1)
        assert text.least - 1e-6 <= true.mean() <= text.agreement + 1e-6
        assert text.divergence <= (p * np.log(p / q)).sum(axis=1).mean() + 1e-6
        np.testing.assert_array_equal(text.at.best, [p.argmax(axis=1), q.argmax(axis=1)])
        np.testing.assert_allclose(np.exp(text.at.best_logs[1]), q.max(axis=1), rtol=1e-5)
        assert text.differing == np.count_nonzero(p.argmax(axis=1) != q.argmax(axis=1))
    assert found.differing == sum(text.differing for text in found.inputs) > 0
    assert found.positions == sum(map(len, book.scores))


def test_several_neighbours_count_by_their_mean(store):
    both = {text.index: text for text in disagree("mine", 2, store=store).inputs}
    near = {text.index: text for text in disagree("mine", 1, store=store).inputs}
    far = both[0].at.agreement * 2 - near[0].at.agreement
    assert (far < near[0].at.agreement).mean() > 0.9
    assert both[0].at.best.shape == (3, both[0].positions)
    assert both[0].differing >= near[0].differing


def test_a_model_with_other_tokens_is_left_out_and_named(tmp_path, store, book):
    other = written_book(tmp_path, "".join(book.texts), 16)
    cut = [np.asarray(where.ids)[:-1] for where in other.places]
    shorter = type(other)(
        other.folder,
        book.data,
        other.manifest,
        tuple(
            type(where)(
                where.sample, where.begins[:-1], where.ends[:-1], where.words[:-1], where.texts[:-1], "right", ids
            )
            for where, ids in zip(other.places, cut, strict=True)
        ),
        tuple(scores[: max(0, len(ids) - 1)] for scores, ids in zip(other.scores, cut, strict=True)),
    )
    answered(store, shorter, "elsewhere")
    found = disagree("mine", 5, store=store)
    assert [each.name for each in found.panel] == ["file:mine", "file:near", "file:far"]
    assert "file:elsewhere in llamacpp is left out: the two split the texts into different tokens" in found.notes[0]
    with pytest.raises(ZoolensError, match=r"No other model .* file:mine in llamacpp is left out: the two split"):
        disagree("elsewhere", store=store)


def test_the_same_answers_are_no_disagreement(tmp_path, book):
    with open_store(tmp_path / "store.sqlite") as store:
        answered(store, book, "mine")
        answered(store, book, "twin")
        found = disagree("mine", store=store)
    assert (found.inputs, found.total, found.differing) == ((), 0, 0)
    assert "At 0 of " in disagreement_page(found).verdict
    assert as_data(found)["inputs"] == []


def test_as_data_and_csv(store):
    found = disagree("mine", 2, store=store, limit=1)
    data = json.loads(json.dumps(as_data(found), allow_nan=False))
    assert (data["contested"], len(data["inputs"]), data["n"]) == (4, 1, 4)
    (text,) = data["inputs"]
    assert len(text["at"]) == text["differing"] > 0
    assert len({best["token"] for best in text["at"][0]["best"]}) > 1
    (row,) = csv.DictReader(io.StringIO(as_csv(found)))
    assert float(row["agreement"]) == pytest.approx(text["agreement"])
    page = disagreement_page(found)
    assert page.sections[1].paragraphs == ("1 of 4 are listed.",)
