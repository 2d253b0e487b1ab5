"""Queries over language models find what looking at every run of the store finds."""

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.anytime import bounded_mean_lower
from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store
from zoolens.base.verdicts import NotKnown, Outcome
from zoolens.findings.comparisons.behaviour import pair_answers
from zoolens.findings.comparisons.compare import compare, verdict_of_report
from zoolens.findings.comparisons.disagreements import disagree
from zoolens.findings.comparisons.equivalence import equiv, verdict_of_equivalence
from zoolens.findings.comparisons.equivalence_words import data_lines
from zoolens.findings.comparisons.gate import parse_equivalence_gate, parse_gate
from zoolens.findings.comparisons.signatures import probe_runs, signature_of
from zoolens.findings.queries.query import query
from zoolens.inventory.tasks.task import task_named
from zoolens.testing.language_model_runs import answered, scored, with_other_rests, written_book

# name -> how far its scores lie from the reference's, bytes of its file
COPIES = {
    "full": (0.0, 500e6), "half": (0.02, 250e6), "q8": (0.1, 140e6), "q5": (0.4, 110e6), "q4": (0.8, 90e6),
    "odd": (0.6, 95e6), "q2": (2.5, 60e6),
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    book = written_book(folder, "AB HELLO WORLD\nWHAT IS IT?\n1234 AB+CD, ABBA\n" * 3, 24)
    with open_store(folder / "store.sqlite") as opened:
        for name, (noise, size) in COPIES.items():
            run = answered(opened, book, name, noise)
            opened.finish_stage(run.id, "size", [Observation("file_size", size, unit="B")])
        yield opened


def agreements(store, reference):
    """How far each run agrees with the reference at least and at most, and its size, from the store alone."""
    runs = {run.model.manifest["name"]: signature_of(store, run).main for run in probe_runs(store)}
    task = task_named("language-model")
    return {
        name: (
            float(task.least_agreement(runs[reference], answers).mean()),
            float(task.agreement(runs[reference], answers).mean()),
            COPIES[name][1],
        )
        for name, answers in runs.items()
        if name != reference
    }


@pytest.mark.parametrize("within", [0.3, 0.6, 0.8, 0.97])
@pytest.mark.parametrize("most", [80e6, 150e6, 600e6])
@pytest.mark.parametrize("reference", ["full", "q5"])
def test_the_smallest_copy_within_a_bound_is_found(store, reference, within, most):
    asked = f"TASK language-model CORR {reference} WITHIN {100 * within:g}% ON size <= {most:.0f} B ORDER BY size"
    answer = query(asked, store=store)
    known = {name: each for name, each in agreements(store, reference).items() if each[2] <= most}
    fitting = {name: size for name, (least, _, size) in known.items() if least >= within}
    wanted = [name for name, size in sorted(fitting.items(), key=lambda one: one[1])]
    assert [match.row.attributes["name"] for match in answer.matches] == wanted
    assert answer.undecided == sum(least < within <= agreement for least, agreement, _ in known.values())
    assert (answer.verdict.outcome is Outcome.NOT_KNOWN) == (answer.undecided > 0)


def test_equivalence_is_the_agreement_of_the_task(store):
    answer = query("TASK language-model CORR full", store=store)
    found = {match.row.attributes["name"]: match.equivalence for match in answer.matches}
    brute = {name: agreement for name, (_, agreement, _) in agreements(store, "full").items()}
    assert found.keys() == brute.keys()
    for name, agreement in brute.items():
        assert found[name] == pytest.approx(agreement, abs=1e-9)
    assert np.ptp(list(found.values())) > 0.3


@pytest.fixture(scope="module")
def other_rests(tmp_path_factory):
    """Two models whose eight most likely tokens are the same everywhere, and none of the others: they truly agree by
    80 %."""
    folder = tmp_path_factory.mktemp("rests")
    book = written_book(folder, "AB HELLO WORLD\nWHAT IS IT?\n1234 AB+CD, ABBA\n" * 20, 24)
    with open_store(folder / "store.sqlite") as opened:
        for name, scores in zip(("one", "two"), with_other_rests(book, 8, 0.2), strict=True):
            scored(opened, book, name, scores)
        yield opened


def test_a_bound_holds_where_rare_tokens_are_others(other_rests):
    found = equiv("file:one", "file:two", store=other_rests)
    (pair,) = found.on
    assert found.agreement == pytest.approx(1, abs=1e-6)  # rare tokens as one
    assert pair.bounds.agreement <= found.guaranteed <= 0.8
    assert pair.bounds.agreement > 0.6
    text = " ".join(line.text for line in data_lines(pair, found.tolerance))
    assert "between 80.00 and 100.00 % (whether both give the other 20.00 % to the same tokens is not known" in text


def test_it_is_not_known_whether_two_are_the_same_whose_kept_tokens_are(other_rests):
    found = equiv("file:one", "file:two", store=other_rests)
    assert found.agreement == 1
    runs = [run.id for run in probe_runs(other_rests)]
    for verdict in (verdict_of_equivalence(found), verdict_of_report(compare(*runs, store=other_rests))):
        assert verdict.outcome is Outcome.NOT_KNOWN
        (gap,) = verdict.coverage.gaps
        assert gap.text.startswith("tokens that were not kept, which have 20.00 %")
        assert "top: 1000" in gap.remedy


@pytest.mark.parametrize(("limit", "holds"), [("90%", None), ("79%", False)])
def test_a_gate_proves_nothing_where_tokens_were_not_kept(other_rests, limit, holds):
    runs = [run.id for run in probe_runs(other_rests)]
    of_equiv = parse_equivalence_gate(f"agreement < {limit}"), equiv("file:one", "file:two", store=other_rests)
    share = f"{100 - int(limit.rstrip('%'))}%"
    of_compare = parse_gate(f"disagreement > {share}"), compare(*runs, store=other_rests)
    for gate, report in (of_equiv, of_compare):
        if holds is None:
            with pytest.raises(NotKnown, match=r"between .* %, as far as tokens were kept"):
                gate.verdict(report)
        else:
            assert gate.verdict(report)[0] is holds


def test_samples_of_unlikely_tokens_tell_what_the_likely_ones_leave_open(tmp_path):
    book = written_book(tmp_path, "AB HELLO WORLD\nWHAT IS IT?\n1234 AB+CD, ABBA\n" * 20, 24)
    sides = with_other_rests(book, 8, 0.2)
    with open_store(tmp_path / "store.sqlite") as store:
        for name, scores in zip(("one", "two", "copy"), (*sides, sides[0]), strict=True):
            scored(store, book, name, scores, sampled=True)
        low, high = next_tokens_of(equiv("file:one", "file:two", store=store)).agreement
        assert low <= 0.8 <= high
        assert high - low < 0.05
        low, high = next_tokens_of(equiv("file:one", "file:copy", store=store)).agreement
        assert (high, low) == (1, pytest.approx(1, abs=0.02))  # of 41 texts, 4 are not copies
        found = equiv("file:one", "file:two", store=store)
        assert next_tokens_of(found).agreement.low <= found.agreement <= next_tokens_of(found).agreement.high
        assert parse_equivalence_gate("agreement < 85%").verdict(found)[0]
        assert not parse_equivalence_gate("agreement < 75%").verdict(found)[0]
        answer = query("TASK language-model CORR one WITHIN 95%", store=store)
        assert [match.row.attributes["name"] for match in answer.matches] == ["copy"]
        assert answer.undecided == 0
        contested = disagree("file:one", n=1, store=store)
        assert all(each.least <= each.agreement for each in contested.inputs)


def next_tokens_of(found):
    ((output,),) = (pair.outputs for pair in found.on)
    return output.next_tokens


def test_a_bound_of_the_most_that_the_agreement_can_be_would_not_hold(other_rests):
    ours, theirs = (signature_of(other_rests, run).main for run in probe_runs(other_rests))
    pair = pair_answers(ours, theirs)
    assert bounded_mean_lower(pair.agreement, 0.05) > 0.8 > pair.agreement_lower(0.05)


def test_models_that_may_agree_too_little_are_not_known_to_fit(other_rests):
    def asked(condition):
        return query(f"TASK language-model CORR one {condition}", store=other_rests)

    assert asked("WITHIN 79%").exact
    assert asked("ON agreement >= 79%").exact
    for condition in ("WITHIN 90%", "ON equivalence >= 90%"):
        answer = asked(condition)
        assert (answer.exact, answer.undecided, answer.verdict.outcome) == (False, 1, Outcome.NOT_KNOWN)
        (miss,) = answer.misses
        assert miss.rejections[0].sentence == "equivalence_least is 80 %, 10 points below 90 %"
        assert (miss.equivalence, miss.equivalence_least) == (pytest.approx(1), pytest.approx(0.8))
        assert any("of whose answers too little is kept" in note and "top: 1000" in note for note in answer.notes)
    assert asked("WITHIN 90%").as_data()["misses"][0]["equivalence_least"] == pytest.approx(0.8)


@pytest.mark.parametrize("condition", ["agreement = 100%", "agreement < 90%", "agreement <= 80.1%"])
def test_bounds_from_above_and_equality_are_not_known_within_the_range(other_rests, condition):
    answer = query(f"TASK language-model CORR one ON {condition}", store=other_rests)
    assert (answer.matches, answer.undecided, answer.verdict.outcome) == ((), 1, Outcome.NOT_KNOWN)


def test_models_that_surely_agree_more_do_not_fit_a_bound_from_above(other_rests):
    answer = query("TASK language-model CORR one ON agreement < 79%", store=other_rests)
    assert (answer.matches, answer.undecided, answer.verdict.outcome) == ((), 0, Outcome.DIFFERENT)


def test_a_query_without_the_task_says_what_to_add(store):
    with pytest.raises(ZoolensError, match=r"full does language-model, and this query is about classification") as said:
        query("CORR full WITHIN 90%", store=store)
    assert said.value.hint == "Add TASK language-model."
