"""Figures of tasks with truths of their own rest on the guesses of a draft as accuracy does."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from zoolens.findings.measure.outcome_notes import guesses_of
from zoolens.inventory.manifests.guesses import GUESSED
from zoolens.inventory.manifests.schema import Input, Manifest, Output
from zoolens.inventory.manifests.schema_boxes import ReadBoxes

BY_NUMBER = "the model's classes are numbered as those of pets: 'cat' is 0"


@pytest.mark.parametrize(("truth", "said"), [("boxes", ["RGB order", BY_NUMBER]), ("mask", []), (None, [])])
def test_a_detector_that_was_only_drafted_says_so_where_the_data_have_boxes(truth, said):
    reading = ReadBoxes(op="boxes", format="xyxy", units="pixels")
    manifest = Manifest(
        name="drafted",
        inputs=(Input(shape=(1, 3, 8, 8)),),
        outputs=(Output(task="detection", parts={"predictions": "out"}, postprocess=(reading,)),),
        attributes={GUESSED: ["RGB order"]},
    )
    dataset = SimpleNamespace(labelled=False, truth_kind=truth, name="pets", classes=("cat", "dog"))
    context = SimpleNamespace(job=SimpleNamespace(manifest=manifest), dataset=dataset)
    assert list(guesses_of(context, SimpleNamespace(resolved={}))) == said
