"""Every view of the explorer, in light and dark, wide and narrow, as people with every kind of eyes read it."""

import pytest

pytest.importorskip("playwright")
from browsing import look_at
from made_home import VIEWS


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_everybody_can_read_it(chromium, whole, view):
    url, names = whole
    text = VIEWS[view]
    look_at(chromium, url, view.format_map(names), text and text.format_map(names), thoroughly=True)
