import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from zoolens.base.errors import GateFailed, UnknownName, ZoolensError
from zoolens.base.store.records import Observation
from zoolens.base.verdicts import NotKnown, enforce
from zoolens.findings.comparisons.compare import FigurePair, Report
from zoolens.findings.comparisons.gate import ComparisonGate, parse_gate


def report_of(**known):
    """What a gate looks at: everything that is not given is empty."""
    empty = {"a": None, "b": None, "answers": None, "figures": (), "environment": (), "cause": None}
    return Report(**{**empty, **known})


def figure(metric, a, b, unit, scope=""):
    return FigurePair(metric, scope, unit, Observation(metric, a, unit=unit), Observation(metric, b, unit=unit))


@pytest.fixture
def report():
    """Accuracy falls from 80 to 78.5 %, latency rises by a quarter at one batch size, 3 % of the answers differ."""
    figures = [
        figure("top1", 0.80, 0.785, "fraction"),
        figure("latency_p50", 0.02, 0.02, "s", "batch=8"),
        figure("latency_p50", 0.008, 0.010, "s", "batch=1"),
        figure("latency_p50", 0.008, 0.080, "s", "batch=1,raw"),
        figure("recall", 0.9, 0.9, "fraction", "class=0"),
        figure("recall", 0.9, 0.5, "fraction", "class=1"),
    ]
    return report_of(figures=figures, answers=SimpleNamespace(agreement=0.97))


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("top1 drop > 1%", True),
        ("top1 drop > 2%", False),
        ("top1 drop >= 1.4 %", True),
        ("top1 rise > 0%", False),
        ("top1 change > 1 %", True),
        ("latency_p50 rise > 20%", True),
        ("latency_p50 rise > 30%", False),
        ("latency_p50[batch=8] rise > 1%", False),
        ("latency_p50[batch=1,raw] rise > 500%", True),
        ("recall drop > 30%", True),
        ("recall[class=0] drop > 30%", False),
        ("disagreement > 2%", True),
        ("disagreement > 5%", False),
    ],
)
def test_verdicts(report, condition, holds):
    verdict, said = parse_gate(condition).verdict(report)
    assert verdict is holds
    assert condition in said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "top1",
        "top1 > 1%",
        "top1 drop 1%",
        "top1 drop > 1",
        "top1 drop > lots",
        "top1 drop > -1%",
        "top1drop > 1%",
        "drop > 1%; rm -rf",
    ],
)
def test_nonsense_is_refused(text):
    with pytest.raises(ZoolensError, match="not a condition"):
        parse_gate(text)


def test_a_metric_that_is_not_there_is_named(report):
    with pytest.raises(UnknownName, match="top11"):
        parse_gate("top11 drop > 1%").verdict(report)


def test_a_gate_refuses_a_timing_that_others_disturbed():
    def timing(value, scope="batch=1", **details):
        return Observation("latency_p50", value, scope=scope, unit="s", details=details)

    figures = [
        FigurePair("latency_p50", "batch=1", "s", timing(1.0), timing(7.76, disturbed=True)),
        FigurePair("latency_p50", "batch=8", "s", timing(1.0, "batch=8"), timing(1.0, "batch=8")),
        FigurePair("latency_p50", "batch=1,raw", "s", timing(1.0, "batch=1,raw"), timing(7.76, "batch=1,raw")),
    ]
    report = report_of(figures=figures)
    with pytest.raises(NotKnown, match=r"latency_p50\[batch=1\] of B was measured with fewer than 20 undisturbed"):
        parse_gate("latency_p50 rise > 20%").verdict(report)
    assert parse_gate("latency_p50[batch=8] rise > 20%").verdict(report)[0] is False
    assert parse_gate("latency_p50[batch=1,raw] rise > 20%").verdict(report)[0] is True


def test_a_difference_that_is_exactly_the_limit_is_not_beyond_it():
    report = report_of(figures=[figure("top1", 0.91, 0.90, "fraction")], only_a=(), only_b=())
    assert not parse_gate("top1 drop > 1%").verdict(report)[0]  # 0.91 − 0.9 is 0.010000000000000009 in floats
    assert parse_gate("top1 drop >= 1%").verdict(report)[0]


def test_a_figure_that_b_could_not_give_is_no_pass():
    lost = figure("latency_p50", 0.02, None, "s", "batch=8")
    report = report_of(
        figures=[figure("latency_p50", 0.01, 0.01, "s", "batch=1"), lost],
        answers=None,
        vectors=(),
        only_a=(),
        only_b=(),
    )
    with pytest.raises(NotKnown, match=r"latency_p50\[batch=8\] is known of A and not of B"):
        parse_gate("latency_p50 rise > 10%").verdict(report)
    assert not parse_gate("latency_p50[batch=1] rise > 10%").verdict(report)[0]


def observed(value, scope):
    return Observation("latency_p50", value, scope=scope, unit="s")


def test_a_scope_that_only_a_has_is_no_pass():
    shared = figure("latency_p50", 0.01, 0.01, "s", "batch=1")
    lost = (observed(0.02, "batch=8"), observed(0.02, "batch=8,raw"), observed(None, "batch=16"))
    report = report_of(figures=[shared], only_a=lost, only_b=())
    with pytest.raises(NotKnown, match=r"^latency_p50\[batch=8\] is known of A and not of B"):
        parse_gate("latency_p50 rise > 10%").verdict(report)
    with pytest.raises(NotKnown, match=r"latency_p50\[batch=8\] is known of A and not of B"):
        parse_gate("latency_p50[batch=8] rise > 10%").verdict(report)
    assert not parse_gate("latency_p50[batch=1] rise > 10%").verdict(report)[0]


def test_a_scope_that_only_b_has_has_nothing_to_be_worse_than():
    shared = figure("latency_p50", 0.01, 0.01, "s", "batch=1")
    new = (observed(0.02, "batch=8"),)
    report = report_of(figures=[shared], only_a=(), only_b=new)
    assert not parse_gate("latency_p50 rise > 10%").verdict(report)[0]
    with pytest.raises(NotKnown, match=r"latency_p50\[batch=8\] is known of B and not of A"):
        parse_gate("latency_p50[batch=8] rise > 10%").verdict(report)


@pytest.mark.parametrize(("a", "b"), [(0.0, 900.0), (1.0, math.nan), (math.nan, 1.0), (1.0, math.inf)])
def test_a_change_that_is_not_known_is_no_pass(a, b):
    figures = [figure("energy", 1.0, 1.0, "J", "batch=1"), figure("energy", a, b, "J", "batch=8")]
    report = report_of(figures=figures)
    with pytest.raises(NotKnown, match=r"energy\[batch=8\] is .* in A and .* in B, so that its change"):
        parse_gate("energy rise > 10%").verdict(report)
    assert not parse_gate("energy[batch=1] rise > 10%").verdict(report)[0]


def test_zero_in_both_is_no_change():
    figures = [figure("energy", 0.0, 0.0, "J")]
    report = report_of(figures=figures)
    assert not parse_gate("energy rise > 0%").verdict(report)[0]


def agreeing(classes, *vectors):
    answers = None if classes is None else SimpleNamespace(agreement=classes)
    outputs = tuple(SimpleNamespace(agreement=share, identical_outputs=math.nan, next_tokens=None) for share in vectors)
    return report_of(figures=[], answers=answers, vectors=outputs)


@pytest.mark.parametrize("report", [agreeing(math.nan), agreeing(1.0, 1.0, math.nan), agreeing(None, math.nan, 0.0)])
def test_an_agreement_that_is_not_a_number_is_no_pass(report):
    with pytest.raises(NotKnown, match="not a number"):
        parse_gate("disagreement > 2%").verdict(report)


def test_the_output_that_differs_most_decides_about_disagreement():
    holds, said = parse_gate("disagreement > 2%").verdict(agreeing(1.0, 0.0, 1.0))
    assert holds
    assert said.endswith("disagreement is 100.00 %")
    assert not parse_gate("disagreement > 2%").verdict(agreeing(1.0, 0.99))[0]


@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
def test_what_is_not_a_number_passes_no_gate_whichever_way_it_asks(op):
    class Broken(ComparisonGate):
        def worst(self, report):
            return "", math.nan

    with pytest.raises(NotKnown, match="not a number"):
        Broken(f"top1 change {op} 1%", "top1", op, 0.01).verdict(report_of())


def test_a_gate_that_fails_goes_before_one_that_cannot_be_judged(report):
    unknown, broken, passed = (parse_gate(text) for text in ("energy rise > 1%", "top1 drop > 1%", "top1 drop > 9%"))
    report = replace(report, only_a=(Observation("energy", 1.0, unit="J"),))
    with pytest.raises(GateFailed, match="top1 drop > 1%") as failed:
        enforce([unknown, broken, passed], report)
    with pytest.raises(NotKnown, match="energy is known of A and not of B") as refused:
        enforce([unknown, passed], report)
    assert (failed.value.exit_code, refused.value.exit_code) == (3, 4)
    enforce([passed], report)


def outcome_report(classes=None, *vectors, uncompared=(), answered=True):
    given = agreeing(classes, *vectors)
    run = SimpleNamespace(kind=None, stages={"predictions": "done"} if answered else {}, inputs=40)
    return replace(given, uncompared=uncompared, a=run, b=run)


@pytest.mark.parametrize(
    ("report", "outcome"),
    [
        (outcome_report(1.0), "same"),
        (outcome_report(1.0, 1.0), "same"),
        (outcome_report(0.9), "different"),
        (outcome_report(1.0, uncompared=("boxes",)), "not known"),
        (outcome_report(0.9, uncompared=("boxes",)), "different"),
        (outcome_report(1.0, math.nan), "not known"),
        (outcome_report(0.5, math.nan), "different"),
        (outcome_report(answered=False), "not known"),
    ],
)
def test_unknown_is_refused_unless_a_difference_is_proved(report, outcome):
    if outcome == "not known":
        with pytest.raises(NotKnown, match="Gate failed: unknown: the answers"):
            parse_gate(" unknown ").verdict(report)
    else:
        assert parse_gate("unknown").verdict(report) == (False, f"unknown: the answers: {outcome}")


@pytest.mark.parametrize("metric", ["perplexity", "score"])
def test_figures_of_other_tokens_prove_nothing(metric):
    other_tokens = SimpleNamespace(left_out=("perplexity", "next_token_accuracy", "score"), agreement=math.nan)
    report = report_of(vectors=[other_tokens], figures=[figure("bits_per_byte", 1.0, 1.1, "bits")])
    with pytest.raises(NotKnown, match="split texts into different ones"):
        parse_gate(f"{metric} rise > 1%").verdict(report)
    assert parse_gate("bits_per_byte rise > 1%").verdict(report)[0]
