"""Every view of the explorer, in light and dark, wide and narrow, as people with every kind of eyes read it."""

import pytest

pytest.importorskip("playwright")
from browsing import look_at
from made_home import VIEWS

# A list with facets, one thing with tabs and charts, a form with a chart, two things side by side, a form for a job.
OF_EACH_KIND = (
    "#/runs",
    "#/run/{a}",
    "#/choose",
    "#/compare?a={a}&b={b}&shown=all&unfold=figures.classes.environment.notes&compare={compare}&diverge={diverge}",
    "#/jobs",
)


@pytest.mark.parametrize("view", OF_EACH_KIND)
def test_a_view_of_each_kind_can_be_read_narrow_and_dark(chromium, whole, view):
    url, names = whole
    text = VIEWS[view]
    look_at(chromium, url, view.format_map(names), text and text.format_map(names), thoroughly=False)


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_everybody_can_read_it(chromium, whole, view):
    url, names = whole
    text = VIEWS[view]
    look_at(chromium, url, view.format_map(names), text and text.format_map(names), thoroughly=True)
