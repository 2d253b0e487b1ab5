import numpy as np
import pytest

from zoolens.base.verdicts import Outcome
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.equivalence import equiv
from zoolens.findings.comparisons.equivalence_page import equivalence_page

LABELS = np.arange(100) % 10


def wrong_on(count):
    return one_hot(np.where(np.arange(100) < count, (LABELS + 1) % 10, LABELS))


@pytest.fixture
def measured(store):
    """Two models on two datasets, and a third whose classes have other names."""
    for dataset, count in (("digits", 5), ("hard", 50)):
        write_run(store, "a", wrong_on(0), LABELS, dataset=dataset)
        write_run(store, "b", wrong_on(count), LABELS, dataset=dataset)
    for name, letter in (("x", "x"), ("y", "y")):
        outputs = [{"labels": [f"{letter}{i}" for i in range(10)]}]
        write_run(store, name, wrong_on(0), LABELS, outputs=outputs)
    return store


def test_a_page_says_what_the_terminal_says(measured):
    page = equivalence_page(equiv("a", "b", data="digits", store=measured))
    assert page.verdict == (
        "same answer: 95.0 %, at least 89.7 % on inputs drawn like these (95 % confidence, Clopper–Pearson), "
        "100 inputs of digits."
    )
    assert page.judged.outcome is Outcome.DIFFERENT
    assert [tile.figure for tile in page.tiles] == ["95.0 %", "89.7 %"]
    (section,) = page.sections
    assert "zoo:a@1.0.0" in section.paragraphs[0]
    assert any(item.startswith("B − A -5.00 points [") for item in section.items)


def test_several_datasets_are_judged_by_what_holds_on_each(measured):
    page = equivalence_page(equiv("a", "b", store=measured))
    assert page.verdict.startswith("On every one of 2 datasets same answer: at least 4")
    assert {section.title for section in page.sections} == {"100 inputs of digits", "100 inputs of hard"}


def test_models_that_cannot_be_compared_are_not_known_to_differ(measured):
    report = equiv("x", "y", store=measured)
    page = equivalence_page(report)
    assert page.judged.outcome is Outcome.NOT_KNOWN
    assert page.verdict_kind == "unknown"
    assert "cannot be compared: they name different classes" in page.verdict
    assert "0 of 1 datasets" in page.coverage[0]
    assert page.tiles == ()


def test_a_frame_has_a_row_for_each_output_on_each_dataset(measured):
    pytest.importorskip("pandas")
    table = equiv("a", "b", store=measured).frame()
    rows = table[["dataset", "inputs", "outcome", "agreement", "accuracy_a", "accuracy_b"]].values.tolist()
    assert sorted(rows) == [["digits", 100, "different", 0.95, 1.0, 0.95], ["hard", 100, "different", 0.5, 1.0, 0.5]]
    assert (table["agreement_lower"] < table["agreement"]).all()


def test_what_was_not_compared_is_missing_in_a_frame(measured):
    pytest.importorskip("pandas")
    (refused,) = equiv("x", "y", store=measured).frame().to_dict("records")
    assert refused["outcome"] == "not known"
    assert "they name different classes" in refused["reasons"]
    assert (refused["output"], refused["agreement"], refused["accuracy_a"]) == (None, None, None)
    same = equiv("a", "x", store=measured, bound="off").frame().to_dict("records")[0]
    assert (same["outcome"], same["agreement"]) == ("same", 1.0)
    assert same["agreement_lower"] is None
