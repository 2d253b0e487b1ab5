"""What is said about how old the figures of a ladder are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from zoolens.faces.serving.contracts.ladder import LatencyProfile
from zoolens.faces.serving.services.ladder_words import age
from zoolens.faces.serving.services.preparation import with_preparation
from zoolens.faces.serving.services.profiles import StoredTiming, profile_of

NOW = datetime(2026, 11, 19, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(seconds=-5), "0 min"),
        (timedelta(minutes=5), "5 min"),
        (timedelta(hours=3), "3 h"),
        (timedelta(days=12), "12 days"),
        (timedelta(days=1200), "1,200 days"),
    ],
)
def test_ages_are_said_in_the_unit_that_fits(ago, words):
    assert age(NOW - ago, NOW) == words


def test_a_profile_is_as_old_as_the_oldest_of_its_times():
    old, new = NOW - timedelta(days=9), NOW
    profile = profile_of(
        {1: StoredTiming(0.1, measured=new), 8: StoredTiming(0.2, measured=old), 16: StoredTiming(0.3)}
    )
    assert profile.measured == old
    assert profile.changed(lambda _, seconds: 2 * seconds).measured == old
    older = NOW - timedelta(days=90)
    assert with_preparation(profile, StoredTiming(0.01, measured=older)).measured == older
    assert profile_of({1: StoredTiming(0.1)}).measured is None
    assert with_preparation(LatencyProfile({1: 0.1}), StoredTiming(0.01)).measured is None
