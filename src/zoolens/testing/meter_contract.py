"""What sources of energy meters must do (group `zoolens.meters`).

class TestWattmeter(MeterContract):
    source_class = Wattmeter

A machine without the counters passes too, where the source says in words why it tells nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

import pytest

from zoolens.base import plugins
from zoolens.findings.measure.meters.meter import Meter, MeterSource, NoEnergy


class MeterContract:
    source_class: ClassVar[type[MeterSource]]

    @pytest.fixture
    def source(self) -> MeterSource:
        """Override it to give a source that reads something else than this machine."""
        return self.source_class()

    @pytest.fixture
    def meters(self, source: MeterSource) -> Sequence[Meter]:
        try:
            return source.probe(source.devices[0])
        except NoEnergy as error:
            pytest.skip(f"No energy is told here: {error}")

    def test_it_is_registered_under_its_name_and_says_what_it_counts(self) -> None:
        assert plugins.load(plugins.METERS, self.source_class.name) is self.source_class
        assert self.source_class.counts
        assert self.source_class.devices

    def test_it_gives_meters_or_says_why_not(self, source: MeterSource) -> None:
        for device in source.devices:
            meters, reason = _probed(source, device)
            assert bool(meters) != bool(reason.strip())
            assert "\n" not in reason
            assert len({meter.name for meter in meters}) == len(meters)

    def test_readings_are_whole_numbers_that_give_joules(self, meters: Sequence[Meter]) -> None:
        before = [meter.read() for meter in meters]
        time.sleep(0.01)
        after = [meter.read() for meter in meters]
        assert all(isinstance(reading, int) for reading in (*before, *after))
        spent = [meter.joules(*pair) for meter, *pair in zip(meters, before, after, strict=True)]
        assert all(0 <= joules < 1e4 for joules in spent)  # in a hundredth of a second

    def test_no_time_takes_no_energy(self, meters: Sequence[Meter]) -> None:
        for meter in meters:
            reading = meter.read()
            assert meter.joules(reading, reading) == 0

    def test_it_can_be_probed_again(self, source: MeterSource, meters: Sequence[Meter]) -> None:
        again = source.probe(source.devices[0])
        assert [meter.name for meter in again] == [meter.name for meter in meters]


def _probed(source: MeterSource, device: str) -> tuple[Sequence[Meter], str]:
    try:
        return source.probe(device), ""
    except NoEnergy as error:
        return (), str(error)
