"""The built-in sources keep the contract, and of several for one device one counts."""

import pytest

from zoolens.findings.measure.energy import energy_observations
from zoolens.findings.measure.meters.meter import Meter, MeterSource, NoEnergy, meters_of, sources
from zoolens.findings.measure.meters.nvml import Nvml
from zoolens.findings.measure.meters.rapl import Rapl
from zoolens.testing.meter_contract import MeterContract


class TestRapl(MeterContract):
    source_class = Rapl

    @pytest.fixture
    def source(self, tmp_path):
        zone = tmp_path / "intel-rapl:0"
        zone.mkdir()
        (zone / "name").write_text("package-0")
        (zone / "energy_uj").write_text("100")
        return Rapl(tmp_path)


class TestNvml(MeterContract):
    source_class = Nvml


class Counting(Meter):
    def __init__(self, name, step):
        self.name, self._step, self._reading = name, step, 0

    def read(self):
        self._reading += self._step
        return self._reading

    def joules(self, before, after):
        return float(after - before)


def source(name, *devices, silent="", step=1):
    class Source(MeterSource):
        counts = f"the {name}"

        def probe(self, device):
            if silent:
                raise NoEnergy(silent)
            return [Counting(f"{name} of {device}", step)]

    Source.name, Source.devices = name, devices
    return Source()


def test_of_two_sources_for_one_device_the_first_that_answers_counts():
    silent, socket, package = source("wall", "cpu", silent="it is off"), source("socket", "cpu"), source("rapl", "cpu")
    assert list(meters_of("cpu", [silent, socket, package])) == [socket]
    with pytest.raises(NoEnergy, match="it is off; it is broken"):
        meters_of("cpu", [silent, source("b", "cpu", silent="it is broken")])


def test_the_processor_is_added_where_it_is_known_and_the_device_itself_must_be():
    gpu, package = source("gpu", "cuda"), source("rapl", "cpu")
    assert list(meters_of("cuda:0", [package, gpu])) == [gpu, package]
    assert list(meters_of("cuda:0", [gpu, source("rapl", "cpu", silent="none")])) == [gpu]
    with pytest.raises(NoEnergy, match="there is no energy counter of cuda:0"):
        meters_of("cuda:0", [package])


def test_the_observation_names_every_meter():
    given = [source("gpu", "cuda", step=3), source("rapl", "cpu", step=2)]
    (found,) = energy_observations(lambda: None, 1, seconds=0, device="cuda", sources=given)
    assert found.details["meters"] == {"gpu": ["gpu of cuda"], "rapl": ["rapl of cpu"]}
    assert found.details["what"].startswith("the gpu and the rapl while")
    assert found.value == pytest.approx(5.0)


def test_the_built_in_sources_are_found():
    assert {found.name for found in sources()} >= {"rapl", "nvml"}
