from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.verdicts import NotKnown
from zoolens.findings.comparisons.compare import as_data as comparison_data
from zoolens.findings.comparisons.compare import compare
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.equivalence import as_data, equiv
from zoolens.findings.comparisons.gate import parse_equivalence_gate

LABELS = np.arange(50) % 10


@pytest.fixture
def report(store):
    write_run(store, "a", one_hot(LABELS), LABELS)
    write_run(store, "b", one_hot(np.where(np.arange(50) < 5, 9 - LABELS, LABELS)), LABELS)
    return equiv("a", "b", store=store)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("agreement < 95%", True),
        ("agreement<90%", False),
        ("agreement <= 90 %", True),
        ("guaranteed < 90%", True),
        ("guaranteed < 50%", False),
        ("accuracy_drop > 5%", True),
        ("accuracy_drop > 10%", False),
        ("identical < 91%", True),
    ],
)
def test_a_condition_is_judged(report, text, holds):
    found, fact = parse_equivalence_gate(text).verdict(report)
    assert found is holds
    assert fact.startswith(text)


def test_what_is_no_condition_is_refused():
    with pytest.raises(ZoolensError, match="is not a condition"):
        parse_equivalence_gate("agreement under 95")
    with pytest.raises(ZoolensError, match="is not a condition"):
        parse_equivalence_gate("agreement drop > 1%")
    with pytest.raises(UnknownName, match="Did you mean agreement"):
        parse_equivalence_gate("agreemnt < 95%")


def test_a_bound_that_is_off_cannot_be_judged(store, report):
    off = equiv("a", "b", store=store, bound="off")
    with pytest.raises(NotKnown, match="not known"):
        parse_equivalence_gate("guaranteed < 95%").verdict(off)


def test_outputs_that_were_not_kept_are_no_pass(report):
    [pair] = report.on
    unknown = replace(pair, outputs=(replace(pair.outputs[0], identical=float("nan")), *pair.outputs))
    for outputs in (unknown.outputs, unknown.outputs[::-1]):
        with pytest.raises(NotKnown, match="identical is not known"):
            parse_equivalence_gate("identical < 100%").verdict(replace(report, on=(replace(pair, outputs=outputs),)))


def test_data_on_which_nothing_can_be_compared_are_no_pass(report):
    [pair] = report.on
    with pytest.raises(NotKnown, match="cannot be compared on"):
        parse_equivalence_gate("agreement < 50%").verdict(replace(report, on=(pair, replace(pair, outputs=()))))


@pytest.mark.parametrize("metric", ["agreement", "guaranteed"])
def test_an_output_whose_agreement_is_not_a_number_is_the_worst(report, metric):
    [pair] = report.on
    broken = replace(pair.outputs[0], agreeing=float("nan"))
    for outputs in ((broken, *pair.outputs), (*pair.outputs, broken)):
        unknown = replace(report, on=(replace(pair, outputs=outputs),), guarantee=None)
        with pytest.raises(NotKnown, match="not known"):
            parse_equivalence_gate(f"{metric} < 1%").verdict(unknown)


def test_unknown_refuses_what_was_not_compared(report):
    [pair] = report.on
    gate = parse_equivalence_gate("unknown")
    assert gate.verdict(report) == (False, "unknown: the answers: different")
    alike = replace(pair, outputs=(replace(pair.outputs[0], agreeing=50),))
    assert gate.verdict(replace(report, on=(alike,))) == (False, "unknown: the answers: same")
    left_out = replace(pair, outputs=(), fit=replace(pair.fit, reasons=("they name different classes",)))
    with pytest.raises(NotKnown, match=r"Understood: 1 of 1 outputs, 1 of 2 datasets, 50 of 100 inputs.*different cl"):
        gate.verdict(replace(report, on=(alike, left_out)))


def test_json_has_the_outcome_and_what_it_rests_on(store, report):
    data = as_data(report)
    assert data["outcome"] == "different"
    assert data["coverage"]["understood"]["inputs"] == {"understood": 50, "total": 50, "share": 1.0}
    compared = comparison_data(compare(report.on[0].a.id, report.on[0].b.id, store=store))
    assert (compared["outcome"], compared["coverage"]["whole"]) == ("different", True)
