"""Which of several variants that do equally well is meant."""

import numpy as np

from zoolens.findings.audit.doctor.evidence import Contrast, Evidence
from zoolens.findings.audit.doctor.evidence_figures import RightAnswers
from zoolens.findings.audit.doctor.pixel_axes import normalisation_axis
from zoolens.findings.audit.doctor.search import _most_likely
from zoolens.findings.audit.doctor.variants import DECLARED
from zoolens.inventory.manifests.schema import Input, Manifest, Output
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.tasks.judgement import Metric

COLOUR = Manifest(name="net", inputs=(Input(shape=(1, 3, 224, 224)),), outputs=(Output(),))
TENSOR = TensorSpec("input", (1, 3, 224, 224), "float32")


def variants(*names):
    axis = normalisation_axis(COLOUR, TENSOR)
    found = {choice.name: DECLARED.choosing(choice) for choice in axis.choices}
    return [found[name] for name in names]


def evidence(correct, log_score):
    n = len(correct)
    return Evidence("run", np.arange(n), RightAnswers(Metric("top1"), correct), log_score, np.zeros(n, np.int64))


def contrasts(scores):
    """Variants that get the same images right, with these probabilities of the truth."""
    random = np.random.default_rng(0)
    correct = random.random(200) < 0.7
    base = evidence(np.zeros(200, bool), np.full(200, -9.0))
    noise = random.normal(-1.0, 0.3, 200)
    return {one: Contrast(base, evidence(correct, noise + score)) for one, score in scores.items()}


def test_of_two_means_that_cannot_be_told_apart_the_common_one_is_meant():
    clip, imagenet, caffe = variants("CLIP", "ImageNet mean and deviation", "ImageNet mean of Caffe")
    jitter = np.random.default_rng(1).normal(0, 0.2, 200)
    assert _most_likely(contrasts({clip: 0.004 + jitter, imagenet: 0.0, caffe: jitter})) == imagenet


def test_evidence_outweighs_prior_knowledge():
    clip, imagenet = variants("CLIP", "ImageNet mean and deviation")
    jitter = np.random.default_rng(1).normal(0, 0.2, 200)
    assert _most_likely(contrasts({clip: 0.2 + jitter, imagenet: 0.0})) == clip


def test_scalings_by_127_and_128_are_among_the_candidates():
    (first, second) = variants("(x − 127) / 128", "(x − 128) / 128")
    step = first.apply(COLOUR).inputs[0].preprocess[-1]
    assert (step.scale, step.mean, step.std) == (1.0, (127.0,), (128.0,))
    assert second.apply(COLOUR) != first.apply(COLOUR)
