"""A verdict on a page is same, different or not known: in words, in a look of its own, and with its coverage."""

import json

import pytest

pytest.importorskip("playwright")
from browsing import Visitor, at_home, serving

from zoolens.base.verdicts import Coverage, Gap, Tally, judged

PARTIAL = Coverage((Tally("layers", 6, 7),), (Gap("operator Swirl in B", 1, "Export it."),))
WHOLE = Coverage((Tally("layers", 7, 7),))
KINDS = {"same": "good", "different": "different", "not known": "unknown"}


def divergence(verdict):
    side = {"title": "m", "runtime": "r", "version": "1", "precision": "float32", "layers": 0}
    return {
        "a": side, "b": side, "data": "d", "agrees": False, "verdict": "One sentence.", "first": None, "floor": "",
        "sentences": [], "causes": [], "layers": [], "answers": {"inputs": 1, "flips": 0, "flipped": []},
        **verdict.as_data(),
    }  # fmt: skip


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """The address of an explorer, and a finished job for each outcome."""
    from zoolens import open_store
    from zoolens.faces.ui.jobs.folder import make_job_folder
    from zoolens.faces.ui.settings import Settings

    verdicts = {
        "same": judged(WHOLE, different=False),
        "different": judged(PARTIAL, different=True),
        "not known": judged(PARTIAL, different=False),
    }
    with at_home(tmp_path_factory.mktemp("judged")):
        made = {}
        for outcome, verdict in verdicts.items():
            job = make_job_folder("diverge", outcome, {}, ["diverge"])
            job.output_file.write_text(json.dumps(divergence(verdict)))
            job.write_end(0)
            made[outcome] = job.id
        open_store().close()
        with serving(Settings()) as url:
            yield url, made


def test_each_outcome_is_told_in_words_and_in_a_look_of_its_own(chromium, jobs):
    url, made = jobs
    window = Visitor(chromium, url)
    borders = set()
    for outcome, job in made.items():
        page = window.visit(f"#/diverge/{job}", expect="One sentence.")
        shown = page.locator("main .verdict")
        assert KINDS[outcome] in shown.get_attribute("class").split()
        text = shown.inner_text()
        assert text.startswith(outcome)
        assert ("operator Swirl" in text and "Export it." in text) == (outcome != "same")
        borders.add(shown.evaluate("one => getComputedStyle(one).border + getComputedStyle(one).borderLeft"))
    assert len(borders) == len(made)
    window.check()
    window.close()
