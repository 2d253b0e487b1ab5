from zoolens.base.store.records import Observation
from zoolens.faces.cli.reproduce import _summary
from zoolens.findings.comparisons.reproduce import FigureVerdict


def verdict(metric, inside):
    one = Observation(metric, 1.0)
    return FigureVerdict(one, one, inside)


def test_a_timing_outside_its_interval_is_told_apart_from_an_answer_that_does_not_hold():
    answers = [verdict("top1", True), verdict("ece", True)]
    timings = [verdict("latency_p50", False), verdict("clean_share", False), verdict("throughput", True)]
    assert _summary(answers) == "2 of 2 figures hold."
    said = _summary([*answers, *timings])
    assert said.startswith("2 of 2 figures hold. Of 3 timings and other figures of the machine 1 fall inside")
    assert said.endswith("those marked ~ drifted.")
    assert _summary([verdict("top1", False)]) == "0 of 1 figures hold."
