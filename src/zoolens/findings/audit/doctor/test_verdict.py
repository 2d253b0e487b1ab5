"""What is said where little is known: few inputs, nothing to compare with, a manifest that cannot run."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from zoolens.base.statistics.intervals import Interval
from zoolens.findings.audit.doctor.bench import Level, VariantBench
from zoolens.findings.audit.doctor.diagnosis import Confirmation, Status, VariantTrial
from zoolens.findings.audit.doctor.evidence import Contrast, Evidence
from zoolens.findings.audit.doctor.evidence_figures import RightAnswers
from zoolens.findings.audit.doctor.output_axes import probability_axis
from zoolens.findings.audit.doctor.variants import DECLARED
from zoolens.findings.audit.doctor.verdict import _confirmation, _proven
from zoolens.findings.audit.doctor.verdict_words import VerdictWords
from zoolens.inventory.manifests.schema import Input, Manifest, Output
from zoolens.inventory.tasks.judgement import Metric

LABELS = Manifest(name="net", inputs=(Input(shape=(1, 3, 8, 8)),), outputs=(Output(task="multilabel"),))


def trial(variant, value, error=None, gained=0.0, p_value=None):
    change = None if error or variant == "as declared" else gained
    return VariantTrial(variant, "–", "run", 10, value, None, change, None, p_value, int(change is not None), error)


def worded(trials, confirmation=None, few=False):
    return VerdictWords(Metric("ap"), "images", confirmation, trials, few=few, held_out=True)


def said(trials, confirmation=None, error=None, status=Status.UNDECIDED, few=False):
    return worded(trials, confirmation, few).sentence(status, [], None, error)


@pytest.mark.parametrize("few", [False, True])
def test_an_undecided_manifest_that_cannot_run_is_said_to(few):
    trials = (trial("as declared", None, "It breaks."), trial("boxes: xyxy", 0.4))
    sentence = said(trials, error="It breaks.", few=few)
    assert sentence.startswith("Undecided: ")
    assert sentence.endswith(". As declared it cannot be evaluated at all: It breaks.")


def test_where_nothing_can_be_compared_nothing_is_said_of_noise():
    alone = (trial("as declared", 0.4),)
    same = "every other way to declare it is the same for these images, or is not tried."
    assert said(alone) == f"Undecided whether the manifest is right: {same}"
    nothing = "Undecided: there is no other variant that can be evaluated and that it could be compared with."
    assert said((*alone, trial("boxes: xyxy", None, "It breaks."))) == nothing
    assert worded(alone).remedy == "More images would not help: see why nothing else was tried."


def test_what_would_decide_is_said():
    """More inputs on which all variants answer alike decide nothing."""
    declared, other = trial("as declared", 0.4), trial("boxes: xyxy", 0.42, gained=0.02)
    assert worded((declared, other)).remedy == "Use 120 labelled images or more."
    assert said((declared, other)).startswith("Undecided: the other variant is not better by more than noise, but 10")
    many = tuple(replace(one, n=120) for one in (declared, other))
    assert worded(many).remedy == "Use more labelled images."
    alike = (declared, trial("boxes: xyxy", 0.4), trial("boxes: yxyx", None, "It breaks."))
    assert worded(alike).remedy == "Use 120 labelled images or more, on which variants differ."
    assert "10 points better; images on which variants differ tell (" in said(alike)


def test_what_looks_better_and_is_not_confirmed_is_named():
    declared, better = trial("as declared", 0.4), trial("boxes: xyxy", 0.6, gained=0.2, p_value=0.01)
    assert worded((declared, better)).unconfirmed is better
    start = "Undecided: boxes: xyxy looks better, which is not confirmed on images that the search did not use ("
    assert said((declared, better)).startswith(start)
    assert worded((declared, trial("boxes: xyxy", 0.6, gained=0.2, p_value=0.06))).unconfirmed is None
    assert worded((declared, trial("boxes: xyxy", 0.2, gained=-0.2, p_value=0.01))).unconfirmed is None


def test_images_of_the_search_are_not_called_others():
    trials = (trial("as declared", 0.4), trial("boxes: xyxy", 0.4))
    confirmed = Confirmation(False, 80, 0.4, 0.42, 0.02, Interval(-0.02, 0.06), 0.3, "some test", better=False)
    assert "+2.0 points [-2.0, +6.0] on 80 images)." in said(trials, confirmed, status=Status.RIGHT)


def evidence(right):
    inputs = np.arange(len(right)).astype(str)
    return Evidence("run", inputs, RightAnswers(Metric("top1"), np.array(right, bool)), np.zeros(len(right)))


def test_a_change_to_nothing_is_not_infinite():
    broken = Evidence("run", np.arange(4).astype(str), None, error="It breaks.")
    found = _confirmation(Contrast(evidence([1, 1, 0, 0]), broken), fresh=True, tests=1)
    assert (found.after, found.change, found.better) == (None, None, False)
    assert not _confirmation(Contrast(broken, broken), fresh=True, tests=1).better


def telling(contrasts, seen, *, discrete):
    """Whether a bench whose variants compare so can say that the manifest is right."""
    bench = SimpleNamespace(
        task=SimpleNamespace(discrete=discrete),
        seen=lambda level: seen,
        tried=list(contrasts),
        widest=lambda variant: variant,
        contrast=lambda base, variant, level: contrasts[variant],
        enough=True,
    )
    return VariantBench.telling.fget(bench)


@pytest.mark.parametrize("discrete", [False, True])
def test_every_variant_of_the_selection_must_be_ruled_out(discrete):
    """The declared one saw more inputs than most: variants that saw fewer of them count all the same."""
    known, unknown = Contrast(evidence([1] * 60), evidence([0] * 60)), Contrast(evidence([1, 0]), evidence([0, 1]))
    contrasts = {"final": known, "other": unknown}
    assert telling(contrasts, ["final"], discrete=discrete)
    assert not telling(contrasts, ["final", "other"], discrete=discrete)


@pytest.mark.parametrize("discrete", [False, True])
def test_without_another_variant_nothing_is_right(discrete):
    broken = Contrast(evidence([1]), Evidence("run", np.array(["0"]), None, error="It breaks."))
    assert not telling({}, [], discrete=discrete)
    assert not telling({"other": broken}, ["other"], discrete=discrete)


@pytest.mark.parametrize(("sizes", "level"), [((10, 29, 29), None), ((10, 30, 60), Level.SELECTION)])
def test_a_range_of_few_scores_proves_nothing(sizes, level):
    measured = []

    def contrast(base, other, level):
        measured.append(level)
        return Contrast(evidence([1] * 30), evidence([1] * 30))

    bench = SimpleNamespace(sizes=dict(zip(Level, sizes, strict=True)), contrast=contrast)
    axis = probability_axis(LABELS)
    assert _proven(bench, [axis], DECLARED) == (axis.choices[0] if level is not None else None)
    assert measured == ([level] if level is not None else [])
