import numpy as np

from zoolens.base.store.records import Observation
from zoolens.findings.comparisons.compare import compare_runs
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.reproduce import FigureVerdict, Reproduction
from zoolens.findings.comparisons.reproduction_page import NOT_REPRODUCED, reproduction_page, summary


def verdict(metric, inside):
    one = Observation(metric, 1.0)
    return FigureVerdict(one, one, inside)


def test_a_timing_outside_its_interval_is_told_apart_from_an_answer_that_does_not_hold():
    answers = [verdict("top1", True), verdict("ece", True)]
    timings = [verdict("latency_p50", False), verdict("clean_share", False), verdict("throughput", True)]
    assert summary(answers) == "2 of 2 figures hold."
    said = summary([*answers, *timings])
    assert said.startswith("2 of 2 figures hold. Of 3 timings and other figures of the machine 1 fall inside")
    assert said.endswith("those marked ~ drifted.")
    assert summary([verdict("top1", False)]) == "0 of 1 figures hold."


def repeated(store, verdicts, **changes):
    labels = np.arange(20) % 10
    runs = [write_run(store, name, one_hot(labels), labels) for name in ("then", "now")]
    return Reproduction(*runs, tuple(verdicts), compare_runs(store, *runs), **changes)


def test_a_page_says_which_figures_hold(store):
    page = reproduction_page(repeated(store, [verdict("top1", True), verdict("latency_p50", False)], identical=1.0))
    assert page.title.startswith("zoo:then@1.0.0 in fake: run ")
    assert page.verdict == summary([verdict("top1", True), verdict("latency_p50", False)])
    assert page.good
    said, figures, *_ = page.sections
    assert said.paragraphs == ("100 % of the answers are the same bit by bit.",)
    ((_, table),) = figures.tables
    assert [row[:2] for row in table.rows] == [("✓", "top1"), ("~", "latency_p50")]


def test_a_figure_that_is_gone_or_outside_is_not_reproduced(store):
    gone = FigureVerdict(Observation("ece", 0.1), None, False)
    page = reproduction_page(repeated(store, [verdict("top1", False), gone]))
    assert (page.verdict, page.good) == (NOT_REPRODUCED, False)
    assert page.sections[0].paragraphs == ("0 of 2 figures hold.",)
    ((_, table),) = page.sections[1].tables
    assert [(row[0], row[4]) for row in table.rows] == [("✗", "1"), ("✗", "gone")]


def test_without_a_figure_of_answers_nothing_is_good_news(store):
    assert not reproduction_page(repeated(store, [verdict("latency_p50", True)])).good
    nothing = reproduction_page(repeated(store, []))
    assert (nothing.verdict, nothing.good) == ("The run has no figures to compare.", False)
