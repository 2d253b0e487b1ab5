import time
from pathlib import Path

import pytest

from zoolens.base.store.records import Provenance
from zoolens.findings.measure.energy import ROUNDS, energy_observations
from zoolens.findings.measure.meters.rapl import Rapl

SPAN = 1_000_000


@pytest.fixture
def powercap(tmp_path):
    """A machine with two packages, their parts, the board, and one package shown twice."""

    def zone(folder, name, energy=0):
        path = tmp_path / folder
        path.mkdir()
        (path / "name").write_text(f"{name}\n")
        (path / "energy_uj").write_text(f"{energy}\n")
        (path / "max_energy_range_uj").write_text(f"{SPAN}\n")

    (tmp_path / "intel-rapl").mkdir()
    zone("intel-rapl:0", "package-0", 100)
    zone("intel-rapl:1", "package-1", 700)
    zone("intel-rapl:2", "psys")
    zone("intel-rapl:0:0", "core")
    zone("intel-rapl-mmio:0", "package-0")
    return tmp_path


def spends(powercap, **microjoules):
    """A call that takes so much from each package."""

    def call():
        for name, spent in microjoules.items():
            counter = powercap / f"intel-rapl:{name.removeprefix('package_')}" / "energy_uj"
            counter.write_text(str((int(counter.read_text()) + spent) % SPAN))

    return call


def only(observations):
    (found,) = observations
    assert (found.metric, found.unit) == ("energy", "J")
    return found


def test_packages_are_counted_once(powercap):
    assert [package.name for package in Rapl(powercap).probe("cpu")] == ["package-0", "package-1"]


def test_energy_of_all_packages_by_call(powercap):
    call = spends(powercap, package_0=3, package_1=5)
    found = only(energy_observations(call, 4, seconds=0.01, sources=[Rapl(powercap)]))
    assert found.value == pytest.approx(8e-6)
    assert (found.low, found.high) == (pytest.approx(8e-6), pytest.approx(8e-6))
    assert found.scope == "batch=4"
    assert found.n >= ROUNDS
    assert found.details["joules_per_input"] == pytest.approx(2e-6)
    assert found.details["watts"] > 0
    assert found.provenance is Provenance.MEASURED


def test_a_counter_that_starts_again_from_zero_is_followed(powercap):
    (powercap / "intel-rapl:0" / "energy_uj").write_text(str(SPAN - 1))

    def call():
        spends(powercap, package_0=10)()
        time.sleep(0.002)

    found = only(energy_observations(call, 1, seconds=0, sources=[Rapl(powercap)]))
    assert found.value == pytest.approx(10e-6)
    assert found.n == ROUNDS


def test_a_counter_that_goes_back_without_a_known_span_tells_nothing(powercap):
    (powercap / "intel-rapl:0" / "max_energy_range_uj").unlink()
    (powercap / "intel-rapl:0" / "energy_uj").write_text(str(SPAN - 1))
    found = only(energy_observations(spends(powercap, package_0=10), 1, seconds=0, sources=[Rapl(powercap)]))
    assert found.value is None
    assert "went back" in found.details["reason"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda root: (root / "intel-rapl:0" / "energy_uj").write_text("much"), "holds no number"),
        (lambda root: (root / "intel-rapl:0" / "energy_uj").unlink(), "cannot be read"),
        (lambda root: None, "did not move"),
    ],
)
def test_what_cannot_be_had_is_unavailable_with_the_reason(powercap, damage, reason):
    damage(powercap)
    found = only(energy_observations(lambda: None, 2, seconds=0, sources=[Rapl(powercap)]))
    assert (found.value, found.provenance, found.scope) == (None, Provenance.UNAVAILABLE, "batch=2")
    assert reason in found.details["reason"]


def test_a_machine_without_counters_does_not_run_the_model(tmp_path):
    def call():
        raise AssertionError("ran for nothing")

    for root in (tmp_path, tmp_path / "absent"):
        found = only(energy_observations(call, 1, sources=[Rapl(root)]))
        assert "no energy counters" in found.details["reason"]


def test_counters_of_root_alone_are_told_with_the_remedy(powercap, monkeypatch):
    """Tests may run as root, whom no file mode stops: the system's refusal is put in by hand."""
    opened = Path.open

    def refuse(path, *arguments, **options):
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    found = only(energy_observations(lambda: None, 1, sources=[Rapl(powercap)]))
    assert "sudo chmod o+r" in found.details["reason"]
