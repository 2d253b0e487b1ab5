import numpy as np
import pytest

from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.disagreement_page import disagreement_page
from zoolens.findings.comparisons.disagreements import disagree

LABELS = np.arange(20) % 10


@pytest.fixture
def panel(store):
    for name, count in (("me", 0), ("near", 2), ("far", 9)):
        answers = np.where(np.arange(20) < count, (LABELS + 1) % 10, LABELS)
        write_run(store, name, one_hot(answers), LABELS, classes=[f"class {i}" for i in range(10)])
    return store


def test_a_page_has_the_panel_and_the_contested_inputs(panel):
    page = disagreement_page(disagree("me", 2, limit=3, store=panel))
    assert page.verdict == "9 of 20 inputs of digits (45.0 %) get different answers."
    models, contested = page.sections
    assert [item.split()[1] for item in models.items] == ["zoo:me", "zoo:near", "zoo:far"]
    assert models.items[1].endswith("agrees on 90.0 %")
    assert contested.paragraphs == ("3 of 9 are listed.",)
    ((_, table),) = contested.tables
    assert [column.name for column in table.columns] == ["input", "truth", "bits", "A", "1", "2"]
    assert table.rows[0] == ("0", "class 0", "0.92", "class 0 90 %", "class 1 90 %", "class 1 90 %")
