import math
from dataclasses import replace

import pytest

from zoolens.base.statistics.intervals import Interval
from zoolens.findings.audit.doctor.correction import as_data
from zoolens.findings.audit.doctor.diagnosis import Diagnosis, Fault, Sensitivity, Status, VariantTrial
from zoolens.findings.audit.doctor.diagnosis_page import diagnosis_page
from zoolens.findings.audit.doctor.variants import NotSwept
from zoolens.inventory.manifests.schema import Input, Manifest, Output

COLOUR = Manifest(name="net", inputs=(Input(shape=(1, 3, 224, 224)),), outputs=(Output(),))


def trial(variant, accuracy, steps=1, error=None):
    change = 0.0 if steps == 0 else accuracy - 0.9
    interval, moved = Interval(accuracy, accuracy), Interval(change, change)
    return VariantTrial(variant, "scaling", "0123456789", 200, accuracy, interval, change, moved, 0.04, steps, error)


TRIALS = (
    trial("as declared", 0.9, 0),
    trial("scaling: −1 to 1", 0.95),
    trial("layout: nhwc", 0.0, error="It does not open."),
    trial("scaling: −1 to 1 + layout: nhwc", 0.0, 2, error="It does not open."),
)


def diagnosis(status=Status.RIGHT, **changes):
    fields = {
        "model": "zoo:net", "runtime": "onnxruntime", "data": "demo", "status": status, "sentence": "The manifest is …",
        "metric": "top1", "unit": "fraction", "lower_is_better": False, "noun": "images",
        "faults": (), "confirmation": None, "trials": TRIALS, "equals": (), "declared": None, "corrected": None,
        "sensitivity": (Sensitivity("scaling", 64, 0.05, "0 to 1", 0.9, "−1 to 1", 0.95),),
        "not_swept": (NotSwept("resize", "the inputs are arrays"),),
    }  # fmt: skip
    return Diagnosis(**(fields | changes))


@pytest.mark.parametrize(
    ("status", "kind"),
    [(Status.RIGHT, "good"), (Status.WRONG, ""), (Status.SUSPICIOUS, ""), (Status.UNDECIDED, "unknown")],
)
def test_the_verdict_is_shown_as_what_it_is(status, kind):
    page = diagnosis_page(diagnosis(status, remedy="Use more labelled images."))
    assert page.verdict == "The manifest is …"
    assert page.verdict_kind == kind
    expected = ("Not understood: whether another variant is better.", "Use more labelled images.")
    assert page.coverage == (expected if status is Status.UNDECIDED else ())


def test_a_suspicious_diagnosis_proposes_nothing():
    found = diagnosis(Status.WRONG, faults=(Fault("scaling", "0 to 1", "−1 to 1"),), equals=("a",), corrected=COLOUR)
    doubted = found.suspicious("Nothing works.")
    assert (doubted.status, doubted.sentence) == (Status.SUSPICIOUS, "Nothing works.")
    assert (doubted.faults, doubted.equals, doubted.corrected) == ((), (), None)


def test_json_of_classifiers_compares_the_declared_variant_with_itself_as_0_1_0_did():
    undone = replace(TRIALS[0], change=None, change_interval=None, p_value=None)
    known = {"trials": (undone, *TRIALS[1:]), "declared": COLOUR}
    first = as_data(diagnosis(**known))["trials"][0]
    assert (first["change"], list(first["change_interval"]), first["p_value"]) == (0.0, [0.0, 0.0], 1.0)
    assert as_data(diagnosis(**known, metric="ap"))["trials"][0]["change"] is None


def test_a_page_has_variants_sensitivity_and_what_was_not_swept():
    variants, sensitivity, not_swept = diagnosis_page(diagnosis()).sections
    ((_, table),) = variants.tables
    assert [row[0] for row in table.rows] == ["as declared", "scaling: −1 to 1", "layout: nhwc"]
    assert table.rows[0][3:5] == ("–", "–")
    assert table.rows[2][2:5] == ("cannot run", "It does not open.", "–")
    assert variants.paragraphs == ("1 combination of several changes is not listed; `frame()` has all.",)
    assert sensitivity.items == ("scaling: 5.0 points (0 to 1 90.0 %, −1 to 1 95.0 %)",)
    assert not_swept.items == ("resize: the inputs are arrays",)


def test_a_page_lists_what_the_manifest_should_say():
    fault = Fault("scaling", "0 to 1", "−1 to 1")
    found = diagnosis(Status.WRONG, faults=(fault,), corrected=object(), equals=tuple("abcdef"), notes=("Look.",))
    told, correct, *_ = diagnosis_page(found).sections
    assert told.paragraphs == ("Not distinguishable from it: a; b; c; d; and 2 more.",)
    assert told.warnings == ("Look.",)
    ((_, table),) = correct.tables
    assert table.rows == (("scaling", "0 to 1", "−1 to 1"),)


def test_a_frame_has_every_variant_and_no_figures_of_one_that_cannot_run():
    pytest.importorskip("pandas")
    table = diagnosis().frame()
    assert table["variant"].tolist() == [one.variant for one in TRIALS]
    assert table["value"].tolist()[:2] == [0.9, 0.95]
    assert all(map(math.isnan, table["value"][2:]))
    # The names of 0.1.0 are kept for classifiers.
    assert table["accuracy"].tolist()[:2] == [0.9, 0.95]
    assert table["images"].tolist() == table["inputs"].tolist()
    # The declared variant is not compared with itself.
    assert table["change"].isna().tolist() == [True, False, True, True]
    assert table["p_value"].isna().tolist() == [True, False, True, True]
